"""The general grammar of names and values, by which homemade lines are read."""
