"""Errors for run directories without a readable record: each names the directory, the cause and the remedy."""

from __future__ import annotations

import os
from pathlib import Path

from tui.errors import UsageError
from tui.pod.run import is_run_id

RUN_FILE = "run.json"
_OTHER_OWNER = "make that directory yours with chown, or if it is yours already, readable with `chmod -R u+rwX`"
_DAMAGED = "move that directory away or use tpu-tui runs delete; tpu-tui runs then finds the run on its workers again"
_HALF_MADE = "unless it is being launched just now, tpu-tui runs delete removes what is left of it"


class NoRecordError(UsageError):
    """A run directory has no record, or an unreadable one.

    `listed`: lists of runs show the directory. They do not if it is being created, or is not a run's directory.
    """

    def __init__(self, path: Path, what: str, *, why: str, remedy: str = "", listed: bool = False) -> None:
        super().__init__(what, why=why, remedy=remedy)
        self.path = path
        self.listed = listed

    @property
    def id(self) -> str:
        """Return the directory's name, which is the run's id."""
        return self.path.name


def unreadable_error(path: Path, error: Exception, name: str = RUN_FILE) -> NoRecordError:
    """Return the error for a run's directory in which the file `name` cannot be read."""
    what = f"{path} has no readable {name}"
    if not isinstance(error, OSError):
        return NoRecordError(path, what, why=str(error), remedy=_DAMAGED, listed=True)
    why = error.strerror or str(error)
    if isinstance(error, PermissionError):
        is_listed = is_run_id(path.name) or os.path.lexists(path / name)
        return NoRecordError(path, what, why=why + _owner_note(path), remedy=_OTHER_OWNER, listed=is_listed)
    if isinstance(error, (FileNotFoundError, NotADirectoryError)):
        remedy = _HALF_MADE if is_run_id(path.name) and path.is_dir() else ""
        return NoRecordError(path, f"{path} is not a run directory", why=why, remedy=remedy)
    return NoRecordError(path, what, why=why, remedy=_DAMAGED, listed=True)


def _owner_note(path: Path) -> str:
    """Describe the owner of a directory that belongs to another user."""
    try:
        owner = path.stat().st_uid
        return "" if owner == os.getuid() else f", it belongs to {path.owner()}"
    except (OSError, KeyError):
        return ""
