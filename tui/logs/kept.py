"""What a saved log came to, kept beside it in a cache: a second opening reads no log and loads no numpy."""

from __future__ import annotations

import hashlib
import json
import math
import os
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

from tui import __version__

Row = dict[str, Any]
"""A row as `cores --json` prints it."""

MOST_KEPT = 256
"""Summaries kept; the oldest go first."""

_FORMAT = 1
"""Counts up when a summary of before must not be taken for one of now."""

_SETTLED = 2.0
"""Seconds since a file was last written before its times are trusted to tell a later change."""


class Summaries:
    """A directory of summaries, one for each log; every trouble with it means only that the log is read."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def load(self, log: Path, reading: Iterable[str] = ()) -> list[Row] | None:
        """The rows of a log that has not changed since; None otherwise. `reading`: what else they depend on."""
        try:
            mark = _mark(os.stat(log), reading)  # noqa: PTH116
            kept = json.loads(self._place(log).read_bytes())
            if kept["mark"] != mark:
                return None
            rows: list[Row] = kept["rows"]
        except (OSError, ValueError, KeyError, TypeError):
            return None
        return rows

    def save(self, log: Path, before: os.stat_result, rows: list[Row], reading: Iterable[str] = ()) -> None:
        """Keep the rows of a log that was as `before` says when reading began; not of one that is being written."""
        place = self._place(log)
        temporary = place.with_suffix(f".{os.getpid()}")
        mark = _mark(before, reading)
        with suppress(OSError):
            changed = _mark(os.stat(log), reading) != mark  # noqa: PTH116
            if changed or time.time() - before.st_mtime < _SETTLED:
                return
            self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            with os.fdopen(os.open(temporary, os.O_CREAT | os.O_TRUNC | os.O_WRONLY, 0o600), "w") as file:
                json.dump({"mark": mark, "rows": rows}, file)
            temporary.replace(place)
            self._prune()

    def _prune(self) -> None:
        kept = sorted(self.directory.glob("*.json"), key=lambda path: path.stat().st_mtime)
        for path in kept[:-MOST_KEPT]:
            path.unlink(missing_ok=True)

    def _place(self, log: Path) -> Path:
        name = hashlib.sha256(os.fsencode(os.path.realpath(log))).hexdigest()
        return self.directory / f"{name}.json"


def _mark(stat: os.stat_result, reading: Iterable[str]) -> list[Any]:
    """What must be the same for a summary to hold."""
    return [_FORMAT, __version__, stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns, *reading]


def sort_rows(rows: list[Row], by: str, reverse: bool) -> list[Row]:
    """Rows as `Snapshot.sorted` orders them: ties by core, unknown and nan last both ways."""

    def key(row: Row) -> tuple[bool, float, bool, int]:
        value = row[by]
        number = math.nan if value is None else float(value)
        unknown = math.isnan(number)
        core = row["core"]
        return unknown, 0.0 if unknown else -number if reverse else number, core is None, core or 0

    return sorted(rows, key=key)
