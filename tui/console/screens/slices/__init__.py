"""The dialogs that create, start, stop and delete slices."""
