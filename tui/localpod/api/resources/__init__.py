"""What the local Cloud TPU API holds: nodes, queued resources, operations, types."""
