"""Charts of loss and rate."""
