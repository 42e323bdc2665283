"""The console's screens and dialogs, each with its style sheet beside it."""
