"""What a saved log came to, kept beside it in a cache: a second opening reads no log and loads no numpy."""

from __future__ import annotations

import hashlib
import json
import math
import os
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tui import __version__
from tui.logs.attribution.line_owner import Owners
from tui.settings.home import make_private
from tui.text.bounded_json import parse_json

Row = dict[str, Any]
"""A row as `cores --json` prints it."""

MOST_KEPT = 256
"""Summaries kept; the oldest go first."""

MOST_BYTES = 64 * 1024 * 1024
"""Bytes of summaries kept."""

_EDGE = 4096
"""Bytes of a log's beginning and of its end that must be the same for its summary to hold."""

_SOURCES = Path(__file__).parents[1]
"""The code that reads logs: what other code made of a log does not hold, whatever its version says."""

_SETTLED = 2.0
"""Seconds since a file was last written before its times are trusted to tell a later change."""


@dataclass(frozen=True, slots=True)
class Summary:
    """What a log came to: a row for every core, and who says its lines."""

    rows: list[Row]
    owners: Owners

    def to_json(self) -> dict[str, Any]:
        """The summary as it is kept."""
        owners = self.owners
        return {
            "rows": self.rows,
            "numbers": [[number, address, worker] for (number, address), worker in owners.numbers.items()],
            "labels": sorted(label.decode("latin-1") for label in owners.labels),
            "xla_dist": owners.xla_dist,
            "carried": owners.carried,
            "sectioned": owners.sectioned,
            "entries": owners.entries,
        }

    @classmethod
    def from_json(cls, kept: Mapping[str, Any]) -> Summary:
        """The summary that was kept. Raises KeyError, TypeError or ValueError for anything else."""
        numbers = {(number, address): int(worker) for number, address, worker in kept["numbers"]}
        labels = frozenset(label.encode("latin-1") for label in kept["labels"])
        told = {name: bool(kept[name]) for name in ("xla_dist", "carried", "sectioned")}
        entries = None if kept["entries"] is None else list(kept["entries"])
        owners = Owners(numbers, labels, entries=entries, **told)
        return cls([dict(row) for row in kept["rows"]], owners)


class Summaries:
    """A directory of summaries, one for each log; every trouble with it means only that the log is read."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def load(self, log: Path, reading: Iterable[str] = ()) -> Summary | None:
        """What a log came to that has not changed since; None otherwise. `reading`: what else that depends on."""
        try:
            kept = parse_json(self._place(log).read_bytes())
            if kept["mark"] != _mark(os.stat(log), reading) or kept["edges"] != _edges(log):  # noqa: PTH116
                return None
            return Summary.from_json(kept)
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return None

    def save(self, log: Path, before: os.stat_result, summary: Summary, reading: Iterable[str] = ()) -> None:
        """Keep what a log came to that was as `before` says when reading began; not one that is being written."""
        place = self._place(log)
        temporary = place.with_suffix(f".{os.getpid()}")
        mark = _mark(before, reading)
        with suppress(OSError):
            changed = _mark(os.stat(log), reading) != mark  # noqa: PTH116
            if changed or time.time() - before.st_mtime < _SETTLED:
                return
            make_private(self.directory)
            with os.fdopen(os.open(temporary, os.O_CREAT | os.O_TRUNC | os.O_WRONLY, 0o600), "w") as file:
                file.write(json.dumps({"mark": mark, "edges": _edges(log), **summary.to_json()}))
            temporary.replace(place)
            self._prune()

    def _prune(self) -> None:
        newest = sorted(((path.stat(), path) for path in self.directory.glob("*.json")), key=lambda e: -e[0].st_mtime)
        room = MOST_BYTES
        for count, (found, path) in enumerate(newest):
            room -= found.st_size
            if count >= MOST_KEPT or room < 0:
                path.unlink(missing_ok=True)

    def _place(self, log: Path) -> Path:
        name = hashlib.sha256(os.fsencode(os.path.realpath(log))).hexdigest()
        return self.directory / f"{name}.json"


def _edges(log: Path) -> str:
    """A digest of the log's beginning and end: times can be set back, and some file systems' are coarse."""
    with log.open("rb", buffering=0) as file:
        digest = hashlib.sha256(file.read(_EDGE))
        file.seek(max(0, os.fstat(file.fileno()).st_size - _EDGE))
        digest.update(file.read(_EDGE))
    return digest.hexdigest()


def _mark(stat: os.stat_result, reading: Iterable[str]) -> list[Any]:
    """What must be the same for a summary to hold."""
    return [__version__, _code(), stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns, *reading]


def _code() -> list[int]:
    """What changes with the code that reads logs: how many bytes it has, and when it was last written (ns)."""
    with suppress(OSError):
        stats = [file.stat() for file in _SOURCES.rglob("*.*")]
        return [sum(stat.st_size for stat in stats), max((stat.st_mtime_ns for stat in stats), default=0)]
    return []


def sort_rows(rows: list[Row], by: str, reverse: bool) -> list[Row]:
    """Rows as `Snapshot.sorted` orders them: ties by core, unknown and nan last both ways."""

    def key(row: Row) -> tuple[bool, float, bool, int]:
        value = row[by]
        number = math.nan if value is None else float(value)
        unknown = math.isnan(number)
        core = row["core"]
        return unknown, 0.0 if unknown else -number if reverse else number, core is None, core or 0

    return sorted(rows, key=key)
