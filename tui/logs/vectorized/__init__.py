"""Blocks of training lines read by numpy, many lines at a time."""
