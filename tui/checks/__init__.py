"""Checks: whether a slice can work, a row each, named by worker, with what to do about it."""
