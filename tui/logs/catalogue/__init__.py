"""The dialects that tpu-tui knows, framework by framework."""
