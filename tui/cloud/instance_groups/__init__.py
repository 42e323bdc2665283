"""Managed instance groups of Compute Engine as a source of slices: their VMs are the workers."""
