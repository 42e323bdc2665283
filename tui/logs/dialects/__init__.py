"""How a line's epoch, step, loss and rate are found: the dialects, and what matches them."""
