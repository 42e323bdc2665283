"""Texts that come from elsewhere, and texts to be read: pure."""
