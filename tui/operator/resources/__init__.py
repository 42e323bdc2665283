"""What costs money in a project: list it with who uses it, and delete it in the right order."""
