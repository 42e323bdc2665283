"""Objects in Cloud Storage, on disk and behind pipes: list, open, write."""
