"""Which worker wrote a line of a log, and when."""
