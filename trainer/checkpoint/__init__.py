"""Write checkpoints, find them, and resume runs from them."""
