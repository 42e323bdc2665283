"""What the lines of a run come to: the newest state of every core, and what it says of them."""
