"""Python, terminal and library specifics."""
