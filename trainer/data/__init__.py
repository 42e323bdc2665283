"""From shards to batches: each rank's input, epoch by epoch."""
