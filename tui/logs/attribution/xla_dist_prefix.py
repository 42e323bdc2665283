"""The prefix that xla_dist puts before every line it passes on: date and time, address, place in its client list."""

from __future__ import annotations

import re
from datetime import datetime, timezone
from functools import lru_cache
from typing import NamedTuple

_MOMENT = rb"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d"
_BEGINNING = re.compile(_MOMENT + rb" ")
_ADDRESS = rb"\d{1,3}\.\d{1,3}\.\d{1,3}\.\d{1,3}"

PREFIX = re.compile(
    rb"(?:(?P<moment>" + _MOMENT + rb")(?:,\d{3})? )?"
    rb"(?:(?P<address>" + _ADDRESS + rb") \[(?P<number>\d{1,5})\](?: |$)|(?P<own> \[\](?: |$)))"
)
"""`%(asctime)s %(clientip)s [%(ordinal)s] %(message)s`, the time optional; xla_dist's own lines have neither address
nor number. Source: PyTorch/XLA, `torch_xla/distributed/xla_dist.py` (releases up to 2.0)."""

NUMBER_ONLY = re.compile(rb"\[(?P<number>\d{1,5})\] ")
"""The shortest form, which is trusted only in a stream that is known to be xla_dist's."""

NUMBERED_SAMPLE = re.compile(rb"\[\d{1,5}\] \|{1,2} (?:Training|Test) Device=xla:")
"""A short prefix right before a line of PyTorch/XLA's: the stream is xla_dist's."""


class Prefix(NamedTuple):
    """The prefix of a line; `own` marks xla_dist's own lines, `length` is in bytes."""

    moment: float | None
    """The date and time of the prefix, in seconds as if UTC."""
    address: str | None
    number: int | None
    own: bool
    length: int


def read_prefix(line: bytes, position: int = 0, *, xla_dist: bool) -> Prefix | None:
    """Return the prefix at a position of a line; `xla_dist` if the stream is already known to be xla_dist's."""
    match = PREFIX.match(line, position)
    if match is not None:
        own = match["own"] is not None
        if own and match["moment"] is None:
            return None
        moment = None if match["moment"] is None else read_moment(match["moment"])
        address = None if own else match["address"].decode()
        number = None if own else int(match["number"])
        return Prefix(moment, address, number, own, match.end() - match.start())
    if line[position : position + 1] == b"[" and (xla_dist or NUMBERED_SAMPLE.match(line, position)):
        short = NUMBER_ONLY.match(line, position)
        if short is not None:
            return Prefix(None, None, int(short["number"]), own=False, length=short.end() - short.start())
    return None


@lru_cache(maxsize=4096)
def read_moment(text: bytes) -> float | None:
    """Return the seconds of `2020-08-06 02:38:57`, as if UTC; None if there is no such day."""
    try:
        moment = datetime.fromisoformat(text.decode("ascii"))
    except ValueError:
        return None
    return moment.replace(tzinfo=timezone.utc).timestamp()


@lru_cache(maxsize=4096)
def read_dated_clock(text: bytes) -> float | None:
    """Return the seconds of `Wed Dec  4 01:41:29 2019`, as if UTC; None for any other text."""
    try:
        moment = datetime.strptime(text.decode("ascii"), "%a %b %d %H:%M:%S %Y")
    except ValueError:
        return None
    return moment.replace(tzinfo=timezone.utc).timestamp()


@lru_cache(maxsize=4096)
def moment_before_text(text: bytes) -> float | None:
    """Parse the first bytes of a line as a moment; NaN if there is no such day, None if they are no moment."""
    if not _BEGINNING.fullmatch(text):
        return None
    moment = read_moment(text[:-1])
    return float("nan") if moment is None else moment
