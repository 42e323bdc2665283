"""New slices: requests, their checks, the queue, what zones offer, and the commands of gcloud."""
