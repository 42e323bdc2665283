"""Checks of a slice before a run: one row each, with the worker, the finding and the remedy."""
