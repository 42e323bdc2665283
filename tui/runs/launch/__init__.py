"""Launch a run: its request, its checks, and the start on all workers or none."""
