"""How a worker is reached: the access that a run carries, OpenSSH's configuration, the equivalent ssh command."""
