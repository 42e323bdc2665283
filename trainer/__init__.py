"""ResNet on PyTorch/XLA: shards streamed from a bucket, one process a core, the log lines the console reads."""
