"""Make WebDataset shards: `python -m trainer.shards`."""
