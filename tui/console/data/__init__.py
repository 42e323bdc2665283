"""What the console shows, as data: slices, runs, logs, forms."""
