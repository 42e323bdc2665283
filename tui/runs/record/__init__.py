"""A run on record: its directory, its events, and the status that they add up to."""
