"""A run's mirror read as it grows: bytes, lines, samples, newest figures."""
