"""Workers over SSH: accounts and keys, one connection, all workers of a slice, commands, the upload of code."""
