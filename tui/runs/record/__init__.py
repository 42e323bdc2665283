"""What a run's record comes to: pure functions of its events."""
