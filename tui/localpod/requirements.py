"""What a local pod asks of the machine it runs on."""

from __future__ import annotations

import sys

from tui.errors import UsageError


def require_linux() -> None:
    """Raise UsageError where no local pod can run, saying what can be done there instead."""
    if not sys.platform.startswith("linux"):
        raise UsageError(
            "A local pod needs Linux",
            why=f"its guardian looks processes up in /proc, which {sys.platform} has not",
            remedy="Run it in a Linux machine or container; tpu-tui replay FILE shows a saved log here.",
        )
