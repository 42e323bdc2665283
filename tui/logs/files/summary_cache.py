"""Cache summaries of saved logs, so that opening a log again neither reads it nor loads numpy.

The checksums are zlib's: they detect a changed file well enough, and hashlib would load OpenSSL (4 ms, 3 MB).
"""

from __future__ import annotations

import json
import math
import os
import time
import zlib
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from tui import __version__
from tui.logs.attribution.line_owner import LineOwner
from tui.settings.home import make_private, read_regular, replace_file
from tui.text.bounded_json import parse_json

Row = dict[str, Any]
"""A row as `cores --json` prints it."""

MOST_SUMMARIES = 256
"""Most summaries in the cache; the oldest are removed first."""

MOST_BYTES = 64 * 1024 * 1024
"""Most bytes of summaries in the cache."""

_EDGE_BYTES = 4096
"""Bytes at the beginning and at the end of a log whose checksum its summary is valid for."""

READER_DIRECTORY = Path(__file__).parents[1]
"""The code and patterns that read logs: a summary is valid only for those that made it."""

_SETTLED_AFTER_S = 2.0
"""Seconds after which a later change of a file is certain to change its modification time."""


class LogSummary(NamedTuple):
    """The result of reading a log: a row for every core, and how to find the worker of a line."""

    rows: list[Row]
    owners: LineOwner

    def to_json(self) -> dict[str, Any]:
        """Return the summary as JSON for the cache."""
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
    def from_json(cls, document: Mapping[str, Any]) -> LogSummary:
        """Parse a summary from the cache. Raises KeyError, TypeError or ValueError for anything else."""
        numbers = {(number, address): int(worker) for number, address, worker in document["numbers"]}
        labels = frozenset(label.encode("latin-1") for label in document["labels"])
        flags = {name: bool(document[name]) for name in ("xla_dist", "carried", "sectioned")}
        entries = None if document["entries"] is None else [(worker, time) for worker, time in document["entries"]]
        owners = LineOwner(numbers, labels, entries=entries, **flags)
        return cls([dict(row) for row in document["rows"]], owners)


class SummaryCache:
    """A directory of summaries, one for each log; if it cannot be used, the logs are read."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def load(self, log: Path, reader: Iterable[str] = ()) -> LogSummary | None:
        """Return the summary of a log if the log is unchanged, else None. `reader` lists what else it depends on."""
        try:
            document = parse_json(read_regular(self._path_of(log)))
            if document["mark"] != _fingerprint(os.stat(log), reader) or document["edges"] != _hash_edges(log):  # noqa: PTH116
                return None
            return LogSummary.from_json(document)
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return None

    def save(self, log: Path, before: os.stat_result, summary: LogSummary, reader: Iterable[str] = ()) -> None:
        """Store the summary of a log unless the log has changed since `before`, or was written to just now."""
        path = self._path_of(log)
        mark = _fingerprint(before, reader)
        with suppress(OSError):
            changed = _file_version(os.stat(log)) != _file_version(before)  # noqa: PTH116
            if changed or time.time() - before.st_mtime < _SETTLED_AFTER_S:
                return
            make_private(self.directory)
            with replace_file(path) as file:
                file.write(json.dumps({"mark": mark, "edges": _hash_edges(log), **summary.to_json()}).encode())
            self._prune()

    def _prune(self) -> None:
        newest = sorted(((path.stat(), path) for path in self.directory.glob("*.json")), key=lambda e: -e[0].st_mtime)
        room = MOST_BYTES
        for count, (stat, path) in enumerate(newest):
            room -= stat.st_size
            if count >= MOST_SUMMARIES or room < 0:
                path.unlink(missing_ok=True)

    def _path_of(self, log: Path) -> Path:
        return self.directory / f"{zlib.crc32(os.fsencode(os.path.realpath(log))):08x}.json"


def _hash_edges(log: Path) -> int:
    """Return a checksum of the log's beginning and end: times can be set back, and some file systems' are coarse."""
    with log.open("rb", buffering=0) as file:
        checksum = zlib.crc32(file.read(_EDGE_BYTES))
        file.seek(max(0, os.fstat(file.fileno()).st_size - _EDGE_BYTES))
        return zlib.crc32(file.read(_EDGE_BYTES), checksum)


def _fingerprint(stat: os.stat_result, reader: Iterable[str]) -> list[Any]:
    """Return the values that must be unchanged for a summary to be valid."""
    return [__version__, _hash_reader(), *_file_version(stat), *reader]


def _file_version(stat: os.stat_result) -> tuple[int, ...]:
    return stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns


def _hash_reader() -> int:
    """Return a checksum of the paths, sizes and modification times of all files below `READER_DIRECTORY`."""
    checksum = 0
    with suppress(OSError):
        # `Path.rglob` costs four times as much, for every log that is opened.
        for folder, folders, names in os.walk(READER_DIRECTORY):
            folders[:] = sorted(name for name in folders if name != "__pycache__")
            for name in sorted(names):
                path = f"{folder}/{name}"
                stat = os.stat(path)  # noqa: PTH116
                version = f"{path}\0{stat.st_size}\0{stat.st_mtime_ns}\n"
                checksum = zlib.crc32(version.encode(errors="surrogateescape"), checksum)
    return checksum


def sort_rows(rows: list[Row], by: str, reverse: bool) -> list[Row]:
    """Sort rows as `Snapshot.sorted` does: ties by core; unknown and NaN last, also with `reverse`."""

    def key(row: Row) -> tuple[bool, float, bool, int]:
        value = row[by]
        number = math.nan if value is None else float(value)
        unknown = math.isnan(number)
        core = row["core"]
        return unknown, 0.0 if unknown else -number if reverse else number, core is None, core or 0

    return sorted(rows, key=key)
