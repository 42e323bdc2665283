"""A launch: what is asked for, what is checked, and all workers started or none."""
