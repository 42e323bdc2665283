"""Checkpoints: written, found and resumed from."""
