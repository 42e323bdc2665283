"""The dialects that tpu-tui knows, as data: one file for each group of trainers."""
