"""What is not done: by read-only mode, or because this machine does not let it happen."""

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
"""What Python makes of bytes on a command line that are no characters."""
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT)
_NO_PLACE = (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR)


def by_read_only(name: str, settings: Settings) -> UsageError:
    """A command that read-only mode does not let happen, and where it was set."""
    setting = settings.origins.get("read_only")
    origin = setting.origin if setting else "flag"
    if origin == "flag":
        return UsageError(f"{name} is refused by --read-only", remedy="leave --read-only out to let it change things")
    return UsageError(
        f"{name} is refused by read_only = true", why=f"it is set by {origin}", remedy="change it there"
    )


def by_this_machine(error: OSError, what: str = "this machine refused") -> TpuTuiError:
    """What the machine refused, as a sentence: no room, no right, a file where a directory should be."""
    where = str(error.filename or "")
    try:
        sys.stdout.flush()
    except OSError:
        stdio.discard(sys.stdout)
        where = where or stdio.STDOUT
    why = one_line(f"{where}: {error.strerror or error}" if where else str(error.strerror or error))
    return TpuTuiError(what, why=why, remedy=_remedy(error, where))


def by_encoding(error: UnicodeEncodeError) -> UsageError:
    """A word of the command line whose bytes are no text, which nothing but a job can be given.

    Raises the error again where it is about anything else.
    """
    words = [word for word in str(error.object).split() if _NO_TEXT.search(word)]
    if not words:
        raise error
    encoding = sys.getfilesystemencoding()
    remedy = (
        "write it in UTF-8" if encoding.startswith("utf") else f"this terminal has {encoding}: export LC_ALL=C.UTF-8"
    )
    return UsageError(f"{one_line(words[0])} is no text", why="it holds bytes that are no characters", remedy=remedy)


def _remedy(error: OSError, where: str) -> str:
    home = os.environ.get("TPU_TUI_HOME", "")
    if error.errno in _NO_ROOM:
        return "make room there" if where else f"make room in {home or 'the home directory'}"
    if error.errno in _NO_PLACE and home and Path(where).is_relative_to(home):
        return "let TPU_TUI_HOME name a directory that you may write to"
    if error.errno == errno.EFBIG:
        return "`ulimit -f` shows the limit to a file's size here: raise it"
    return "" if where else "--debug tells where"
