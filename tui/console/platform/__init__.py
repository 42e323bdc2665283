"""Private names of Textual and its chart library, and the redirection of stderr."""
