"""Parse untrusted texts and numbers safely, and format numbers, durations and workers. Pure."""
