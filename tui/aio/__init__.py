"""Helpers for asyncio: threads, back-off, one task a worker, open files."""
