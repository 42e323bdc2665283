"""The end of a local pod's processes and keepers, however its parent process ends."""
