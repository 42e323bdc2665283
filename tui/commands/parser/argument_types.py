"""What words on the command line may be, for argparse."""

from __future__ import annotations

import argparse
import math
import os
import re
from datetime import datetime, timedelta, timezone
from pathlib import Path

from tui.errors import UsageError

_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}
_WHOLE = re.compile(r"[0-9]+|[0-9]{1,3}(?:,[0-9]{3})+|[0-9]{1,3}(?:_[0-9]{3})+")
"""Thousands may be apart; `1,2` are two numbers."""
_MOST_DIGITS = 18
"""Of a whole number: those of a 64-bit count. No list is that long, and no log."""

SLICE = "a slice by its name, or ZONE/NAME where several zones have it"
RUN = "a run: its id, a part of it that no other has, `last`, or its directory"
LOG = f"{RUN}; or a saved log: a file (packed ones too), `-` or gs://BUCKET/OBJECT"
FILE = "a saved log: a file (packed ones too), `-` or gs://BUCKET/OBJECT"
"""What the words of a command line name, as its help says it."""


def seconds(text: str) -> float:
    """Seconds as a person gives them: finite and not negative."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of seconds")
    return value


def some_seconds(text: str) -> float:
    """The same, more than none: time in which something is to happen."""
    value = seconds(text)
    if value == 0:
        raise argparse.ArgumentTypeError("in 0 seconds nothing happens: leave it out for no limit")
    return value


def whole(text: str) -> int:
    """0 or more, as `4096`, also written `4,096` or `4_096`."""
    if not _WHOLE.fullmatch(text):
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number")
    bare = text.replace(",", "").replace("_", "")
    if len(bare) > _MOST_DIGITS:
        raise argparse.ArgumentTypeError(f"a number of {len(bare)} digits is too large")
    return int(bare)


def given(text: str) -> str:
    """Any text but the empty one: an option with an unset variable behind it is not taken for one left out."""
    if not text:
        raise argparse.ArgumentTypeError("its value is empty")
    return text


def as_text(word: str) -> str:
    """A word as its UTF-8 reads, whatever this machine's locale is; one that is none stays as it is."""
    try:
        return os.fsencode(word).decode()
    except UnicodeError:
        return word


def file(text: str) -> Path:
    """A path; an empty word, as an unset variable leaves it, is not taken for the current directory."""
    return Path(given(text))


def directory(text: str) -> Path:
    """The same, of a directory."""
    return file(text)


def ago(text: str) -> datetime | None:
    """The moment so long before now: `30s`, `10m`, `2h`, `7d`, as far back as dates go; None for any other text."""
    if not (text[:-1].isdecimal() and text[-1] in _UNITS):
        return None
    try:
        return datetime.now(timezone.utc) - timedelta(**{_UNITS[text[-1]]: int(text[:-1])})
    except OverflowError:
        return datetime.min.replace(tzinfo=timezone.utc)


def moment(text: str | None) -> float | None:
    """A Unix time from a duration back from now, or from RFC 3339 (UTC unless it says otherwise); None for None.

    Raises UsageError for any other text.
    """
    if text is None:
        return None
    if (back := ago(text)) is not None:
        return back.timestamp()
    try:
        told = datetime.fromisoformat(text.replace("Z", "+00:00"))
    except ValueError:
        raise UsageError(f"no time: {text!r}", remedy="write it as 10m, 2h or 2026-01-31T18:00:00Z") from None
    return (told if told.tzinfo else told.replace(tzinfo=timezone.utc)).timestamp()
