"""File descriptor 2 during the console: libraries write into a log file, the screen keeps the terminal."""

from __future__ import annotations

import contextlib
import logging
import os
import sys
from collections.abc import Iterator
from pathlib import Path

from tui.settings.home import make_private

LOG_NAME = "console.log"
MAX_LOG_BYTES = 4 * 1024 * 1024
"""Bytes above which the next console truncates the log."""


@contextlib.contextmanager
def redirect_stderr(home: Path) -> Iterator[None]:
    """Send what libraries write to descriptor 2 to `console.log`; Textual still draws on the terminal.

    Raises OSError when the home cannot be written.
    """
    make_private(home)
    path = home / LOG_NAME
    mode = os.O_TRUNC if path.exists() and path.stat().st_size > MAX_LOG_BYTES else os.O_APPEND
    log = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | mode, 0o600)
    screen = os.dup(2)
    before, before_dunder = sys.stderr, sys.__stderr__
    handler = logging.StreamHandler(os.fdopen(os.dup(log), "w", encoding="utf-8", errors="backslashreplace"))
    handler.setFormatter(logging.Formatter("%(asctime)s %(name)s %(levelname)s %(message)s"))
    logging.getLogger().addHandler(handler)
    try:
        os.dup2(log, 2)
        os.close(log)
        sys.__stderr__ = os.fdopen(screen, "w", encoding="utf-8", errors="backslashreplace", closefd=False)  # type: ignore[misc]
        sys.stderr = handler.stream
        yield
    finally:
        logging.getLogger().removeHandler(handler)
        sys.stderr = before
        sys.__stderr__ = before_dunder  # type: ignore[misc]
        os.dup2(screen, 2)
        os.close(screen)
        handler.stream.close()
