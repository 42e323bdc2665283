"""A run's logs: dialects, the demultiplexer, each core's history, saved logs."""
