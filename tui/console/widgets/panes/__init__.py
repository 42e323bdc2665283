"""The panes of the run screen."""
