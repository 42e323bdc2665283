"""A run on record: what the files of its directory hold, and what their events come to."""
