"""Tables of many rows, painted line by line."""
