"""The Cloud TPU API: slices and queued resources."""
