"""Helpers for asyncio: threads, back-off, time limits, one task per worker."""
