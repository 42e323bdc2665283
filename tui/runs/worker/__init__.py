"""The worker's side of a run: its script, the calls that it answers, stop."""
