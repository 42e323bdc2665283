"""What workers report about themselves: one by one, and compared with each other."""
