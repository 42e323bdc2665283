"""The nouns: accelerator, slice, worker, run. Frozen data, no I/O."""
