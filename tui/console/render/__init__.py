"""Data as text and table rows: pure functions."""
