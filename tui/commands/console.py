"""Open the console."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import Any

from tui.errors import UsageError

BROWSER_DRIVER = "TEXTUAL_DRIVER"
"""The variable that textual-serve sets for the consoles it starts."""
_MOST_SIZE_DIGITS = 4
"""Of the variables with the terminal's size, which Rich believes rather than the terminal."""


def require_terminal() -> None:
    """Raise UsageError where the console cannot be drawn; in a browser (`serve`) it needs no terminal."""
    if os.environ.get(BROWSER_DRIVER):
        return
    remedy = "list the commands with tpu-tui --help"
    if not all(stream.isatty() for stream in (sys.stdin, sys.stdout, sys.stderr)):
        why = "stdin, stdout or stderr is not a terminal"
        raise UsageError("the console needs a terminal", why=why, remedy=remedy)
    if os.environ.get("TERM") == "dumb":
        raise UsageError("this terminal cannot show the console", why="TERM is dumb", remedy=remedy)
    for name in ("COLUMNS", "LINES"):
        if (size := os.environ.get(name, "")).isdigit() and len(size) > _MOST_SIZE_DIGITS:
            raise UsageError("the console would be too large", why=f"{name} is {size:.20}", remedy=f"unset {name}")


def open_console(flags: Mapping[str, Any], **extra: Any) -> int:
    """Run the console with these settings; return its exit code."""
    require_terminal()
    from tui.console.app import run_console
    from tui.operator import Operator
    from tui.settings import load

    return run_console(Operator(load(flags)), **extra)
