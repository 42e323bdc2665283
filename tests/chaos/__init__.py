"""Fault injection at random moments, for as long as requested: `python -m tests.chaos`."""
