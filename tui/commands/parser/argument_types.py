"""Types of command-line arguments, for argparse."""

from __future__ import annotations

import argparse
import os
import re
from datetime import datetime, timedelta, timezone
from pathlib import Path

from tui.errors import UsageError
from tui.text.numbers import parse_number
from tui.text.timestamps import parse_time

_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}
_WHOLE = re.compile(r"[0-9]+|[0-9]{1,3}(?:,[0-9]{3})+|[0-9]{1,3}(?:_[0-9]{3})+")
"""Digits, or groups of three separated by `,` or `_`; `1,2` is not one number."""
_MOST_DIGITS = 18
"""Most digits of a whole number, so that it fits into 64 bits."""

SLICE = "a slice: NAME, or ZONE/NAME if the name is not unique"
RUN = "a run: its ID, a unique part of it, `last`, or its directory"
FILE = "a log file (compressed is fine), `-` for stdin, or gs://BUCKET/OBJECT"
LOG = f"{RUN}; or {FILE}"
DRY_RUN = "show what would be done, without doing it"
"""Help texts of arguments that many commands take."""


def seconds(text: str) -> float:
    """Parse seconds: finite and not negative."""
    value = parse_number(text)
    if not value >= 0:
        raise argparse.ArgumentTypeError(f"must be a number of seconds, not {text!r}")
    return value


def positive_seconds(text: str) -> float:
    """Parse a positive number of seconds."""
    value = seconds(text)
    if value == 0:
        raise argparse.ArgumentTypeError("must be more than 0 seconds; omit it for no limit")
    return value


def integer(text: str) -> int:
    """Parse a whole number, 0 or more: `4096`, also written `4,096` or `4_096`."""
    if not _WHOLE.fullmatch(text):
        raise argparse.ArgumentTypeError(f"must be a whole number, not {text!r}")
    bare = text.replace(",", "").replace("_", "")
    if len(bare) > _MOST_DIGITS:
        raise argparse.ArgumentTypeError(f"a number of {len(bare)} digits is too large")
    return int(bare)


def worker_or_address(text: str) -> int | str:
    """Parse a worker's number; return an address or host name unchanged."""
    return integer(text) if _WHOLE.fullmatch(text) else string(text)


def string(text: str) -> str:
    """Return a text that is not empty: an option followed by an unset variable must not count as an absent one."""
    if not text:
        raise argparse.ArgumentTypeError("must not be empty")
    return text


def as_text(word: str) -> str:
    """Return a word decoded as UTF-8 in any locale; a word that is not UTF-8 stays unchanged."""
    try:
        return os.fsencode(word).decode()
    except UnicodeError:
        return word


def file(text: str) -> Path:
    """Parse a path; an empty word (an unset variable) does not mean the current directory."""
    return Path(string(text))


def directory(text: str) -> Path:
    """Parse the path of a directory; shell completion proposes directories for it."""
    return file(text)


def ago(text: str) -> datetime | None:
    """Return the time `30s`, `10m`, `2h` or `7d` ago, as far back as dates go; None for other text."""
    if not (text[:-1].isdecimal() and text[-1] in _UNITS):
        return None
    try:
        return datetime.now(timezone.utc) - timedelta(**{_UNITS[text[-1]]: int(text[:-1])})
    except OverflowError:
        return datetime.min.replace(tzinfo=timezone.utc)


def moment(text: str | None) -> float | None:
    """Parse an age (`10m`) or an RFC 3339 time (UTC by default) as Unix time; None stays None.

    Raises UsageError for any other text.
    """
    if text is None:
        return None
    if (back := ago(text)) is not None:
        return back.timestamp()
    parsed = parse_time(text)
    if parsed is None:
        raise UsageError(f"{text!r} is not a time", remedy="use e.g. 10m, 2h or 2026-01-31T18:00:00Z")
    return (parsed if parsed.tzinfo else parsed.replace(tzinfo=timezone.utc)).timestamp()
