"""The commands, one module a family: each adds its parsers and prints what the operator answers."""
