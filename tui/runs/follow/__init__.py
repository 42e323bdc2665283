"""A run's logs copied from its workers, byte for byte."""
