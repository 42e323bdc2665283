"""What a run's logs say: dialects, the demultiplexer, per-core series, saved logs. No I/O but in archive."""
