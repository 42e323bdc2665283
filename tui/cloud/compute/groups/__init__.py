"""Create, resize and delete managed instance groups with what they are made of."""
