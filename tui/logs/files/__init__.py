"""Saved logs as files: compressed, assembled into lines, filtered, summarised."""
