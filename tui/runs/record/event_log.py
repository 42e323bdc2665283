"""Format and parse the lines of a run's `events.jsonl` and `arrivals`; invalid lines are skipped.

Files can be damaged, and some of their content comes from workers. So every known field has a type and bounds, and a
line that violates them is invalid.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any

from tui.pod.worker import MOST_WORKERS
from tui.text.bounded_json import parse_json_lines
from tui.text.numbers import is_integer


@dataclass(frozen=True, slots=True)
class Event:
    """One line of events.jsonl: what changed, when (RFC 3339), on which worker; the rest by kind in `fields`."""

    time: str
    kind: str
    worker: int | None = None
    fields: Mapping[str, Any] = field(default_factory=dict)

    def get(self, name: str, default: Any = None) -> Any:
        """Return one of the event's own fields."""
        return self.fields.get(name, default)


@dataclass(frozen=True, slots=True)
class Arrival:
    """A batch of one worker's log was written: the mirror then ended at byte `end`, at Unix time `time` (seconds)."""

    worker: int
    end: int
    time: float


EARLIER_ATTEMPTS = "earlier_attempts"
"""Field of an event: how many attempts preceded the one in which the run was found."""
_TEXT = (str, type(None))
_INTEGER = (int, type(None))
_NUMBER = (int, float, type(None))
_TYPES: Mapping[str, tuple[type, ...]] = {
    **dict.fromkeys(("state", "phase", "status", "detail", "remedy", "cause", "signal", "by", "text"), _TEXT),
    **dict.fromkeys(("since", "boot", "stall", "slice", "launched_from", "on_end"), _TEXT),
    **dict.fromkeys(("exit_code", "size", "attempt", "earlier_attempts"), _INTEGER),
    **dict.fromkeys(("grace", "up"), _NUMBER),
    **dict.fromkeys(("confirmed", "recorded", "revived", "gone", "waits_on_slice"), (bool, type(None))),
    "workers": (list, type(None)),
    "tags": (dict, type(None)),
    "ended": (str, list, type(None)),
}
"""The types that the values of known fields may have."""
_MOST_SECONDS = 1e12
_ARRIVAL = re.compile(rb"(\d{1,6}) (\d{1,18}) (\d{1,12}(?:\.\d{1,9})?)")
LONGEST_ARRIVAL_BYTES = 6 + 1 + 18 + 1 + 12 + 1 + 9


def utc_now() -> str:
    """Return the time as RFC 3339 with microseconds, in UTC."""
    return datetime.now(timezone.utc).isoformat(timespec="microseconds")


_ENCODER = json.JSONEncoder(ensure_ascii=False)
"""Made once: `json.dumps` would make one at each call, which costs as much as encoding an event."""


def to_bytes(document: Any) -> bytes:
    """Return JSON in UTF-8; what is not Unicode (a stray byte in an argument) is escaped and reads back exactly."""
    try:
        return _ENCODER.encode(document).encode()
    except UnicodeEncodeError:
        return json.dumps(document).encode()


def event_line(event: Event) -> bytes:
    """Return the line of an event."""
    return to_bytes({"time": event.time, "event": event.kind, "worker": event.worker, **event.fields}) + b"\n"


_ABOUT_A_WORKER = re.compile(rb'"event": "(?:phase|exit|link|stop)"')
"""Matches only events of these kinds: inside a JSON string the quotes would be escaped."""


def without_workers_parts(lines: Iterable[bytes]) -> list[bytes]:
    """Return the lines that are not about a single worker's part.

    Parsing them too makes a list of thousands of runs three times as slow.
    """
    return [line for line in lines if _ABOUT_A_WORKER.search(line) is None]


def parse_events(lines: list[bytes]) -> list[Event]:
    """Return the events in whole lines; lines that hold none are left out."""
    return [event for event in map(_event_of, parse_json_lines(lines)) if event is not None]


def _event_of(document: Any) -> Event | None:
    if not isinstance(document, dict):
        return None
    moment, kind, worker = document.pop("time", None), document.pop("event", None), document.pop("worker", None)
    if not isinstance(moment, str) or not isinstance(kind, str):
        return None
    if worker is not None and not is_integer(worker, 0, MOST_WORKERS - 1):
        return None
    for name, value in document.items():
        types = _TYPES.get(name)
        if types is None:
            continue
        kind_of = type(value)
        if kind_of not in types or (kind_of is list and not _is_list_of(name, value)):
            return None
        if kind_of is float and not 0 <= value <= _MOST_SECONDS:
            return None
    return Event(moment, kind, worker, document)


def _is_list_of(name: str, values: list[Any]) -> bool:
    """Return whether a list is valid for the field: indices for `workers`, else rows about workers that ended."""
    if name == "workers":
        return all(is_integer(value, 0, MOST_WORKERS - 1) for value in values)
    return all(isinstance(row, dict) and _is_end(row) for row in values)


def _is_end(row: Mapping[str, Any]) -> bool:
    is_valid = all(type(value) in _TYPES[name] for name, value in row.items() if name in _TYPES)
    return is_valid and is_integer(row.get("worker"), 0, MOST_WORKERS - 1)


def parse_arrival(line: bytes) -> Arrival | None:
    """Return the arrival in a line of `arrivals`, None where there is none."""
    match = _ARRIVAL.fullmatch(line)
    return Arrival(int(match[1]), int(match[2]), float(match[3])) if match else None
