"""Helpers for asyncio: threads, back-off, one task per worker, open files."""
