"""Copy a run's logs from its workers, byte for byte."""
