"""Whether a run that lives gets anywhere."""
