"""Errors for refusals by read-only mode or the operating system."""

from __future__ import annotations

import errno
import os
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from tui.commands.terminal import stdio
from tui.errors import TpuTuiError, UsageError
from tui.text.printable import one_line

if TYPE_CHECKING:
    from tui.settings import Settings

_NO_TEXT = re.compile(r"[\ud800-\udfff]")
"""How Python represents bytes of the command line that are not characters."""
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT)
_NO_PLACE = (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR)


def read_only_error(name: str, settings: Settings) -> UsageError:
    """Return the error for a command that read-only mode refuses, saying where that mode was set."""
    setting = settings.origins.get("read_only")
    origin = setting.origin if setting else "flag"
    if origin == "flag":
        return UsageError(f"{name} is refused by --read-only", remedy="run it without --read-only to allow changes")
    return UsageError(f"{name} is refused by read_only = true", why=f"set by {origin}", remedy="change it there")


def explain_os_error(error: OSError, what: str = "the operating system refused") -> TpuTuiError:
    """Return an OSError as a TpuTuiError that names the file and, where known, the remedy."""
    file = str(error.filename or "")
    try:
        sys.stdout.flush()
    except OSError:
        stdio.discard(sys.stdout)
        file = file or stdio.STDOUT
    why = one_line(f"{file}: {error.strerror or error}" if file else str(error.strerror or error))
    return TpuTuiError(what, why=why, remedy=_remedy(error, file))


def encoding_error(error: UnicodeEncodeError) -> UsageError:
    """Return the error for an argument that is not text, which only the arguments of a job may be.

    Raises the error again where it has another cause.
    """
    words = [word for word in str(error.object).split() if _NO_TEXT.search(word)]
    if not words:
        raise error
    encoding = sys.getfilesystemencoding()
    remedy = (
        "write it in UTF-8" if encoding.startswith("utf") else f"this terminal uses {encoding}: export LC_ALL=C.UTF-8"
    )
    return UsageError(f"{one_line(words[0])} is not text", why="it has bytes that are not characters", remedy=remedy)


def _remedy(error: OSError, file: str) -> str:
    home = os.environ.get("TPU_TUI_HOME", "")
    if error.errno in _NO_ROOM:
        return "free some space there" if file else f"free some space in {home or 'the home directory'}"
    if error.errno in _NO_PLACE and home and Path(file).is_relative_to(home):
        return "set TPU_TUI_HOME to a directory that you may write to"
    if error.errno == errno.ENOENT and not file:  # of getcwd(), which names no file
        return "change to another directory: this one may be gone"
    if error.errno == errno.EFBIG:
        return "raise the limit on file sizes (ulimit -f)"
    return "" if file else "--debug shows where"
