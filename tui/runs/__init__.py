"""Runs: the run directory that mirrors one, and the keeper that launches, follows and stops it on its workers."""
