"""The resources of the local Cloud TPU API: nodes, queued resources, operations, types."""
