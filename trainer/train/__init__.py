"""The training itself: its command, its start, its loop."""
