"""The rehearsal job: prints the log of a training that does not happen."""
