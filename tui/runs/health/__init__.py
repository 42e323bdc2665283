"""Detect problems of a live run: unreachable workers, stalls, slow cores, lost slices."""
