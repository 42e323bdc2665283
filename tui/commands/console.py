"""The console, opened from a shell."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import Any

from tui.errors import UsageError

BROWSER_DRIVER = "TEXTUAL_DRIVER"
"""Set by textual-serve for the consoles it starts."""


def require_terminal() -> None:
    """Raise UsageError where no console can be drawn; a browser that `serve` draws on needs no terminal."""
    if os.environ.get(BROWSER_DRIVER):
        return
    if not all(stream.isatty() for stream in (sys.stdin, sys.stdout, sys.stderr)):
        raise UsageError(
            "the console needs a terminal",
            why="standard input, output or error is none",
            remedy="tpu-tui --help lists the commands",
        )
    if os.environ.get("TERM") == "dumb":
        raise UsageError(
            "this terminal cannot show the console", why="TERM is dumb", remedy="tpu-tui --help lists the commands"
        )


def open_console(flags: Mapping[str, Any], **extra: Any) -> int:
    """Open the console with these settings until it is closed; its exit code."""
    require_terminal()
    from tui.console.run import run_console
    from tui.operator import Operator
    from tui.settings import load

    return run_console(Operator(load(flags)), **extra)
