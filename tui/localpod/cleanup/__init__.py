"""How a local pod's processes and keepers end, however its parent process ended."""
