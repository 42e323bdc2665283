"""Start a run's ranks, let them agree, and stop them together."""
