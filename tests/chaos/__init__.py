"""Faults at random moments, for as long as one likes: `python -m tests.chaos`."""
