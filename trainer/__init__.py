"""Train a ResNet on PyTorch/XLA: shards streamed from a bucket, one process per core, log lines for the console."""
