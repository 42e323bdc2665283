"""Copying files from workers to this machine: which files there are, where they go, their transfer."""
