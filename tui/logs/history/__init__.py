"""Each core's loss and rate over time, in bounded memory."""
