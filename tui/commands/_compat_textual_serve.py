"""What tpu-tui needs of textual-serve that is not public: the process behind an `AppService`."""

from __future__ import annotations

import asyncio

from textual_serve.app_service import AppService


def process_of(service: AppService) -> asyncio.subprocess.Process:
    """Return the process that a started service runs: it has to be waited for, and killed where it hangs."""
    process = service._process
    assert process is not None, "the service was not started"
    return process
