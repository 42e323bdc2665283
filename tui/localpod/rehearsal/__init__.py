"""The rehearsal job: prints the log of a training run that does not happen."""
