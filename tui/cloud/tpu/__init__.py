"""The Cloud TPU API: slices, queued resources, and what zones offer."""
