"""The local pod's Compute Engine API v1 by REST: machines, groups of them, disks, images, firewall rules."""
