"""What a run's logs say: dialects, the demultiplexer, per-core series, saved logs. Pure."""
