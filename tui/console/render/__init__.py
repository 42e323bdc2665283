"""Nouns as text: pure functions."""
