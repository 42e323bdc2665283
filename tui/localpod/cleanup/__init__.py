"""What ends with a local pod: its processes and keepers, however its parent ended."""
