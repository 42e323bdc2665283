"""What the logs' lines add up to: the newest row of each core, stragglers, the snapshot."""
