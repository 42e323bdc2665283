"""Read when a line was written: from the date before a logger's message, or from a field of a JSON line."""

from __future__ import annotations

import re
from datetime import datetime, timedelta, timezone
from functools import lru_cache
from typing import Any

from tui.text.bounded_json import parse_json
from tui.text.numbers import is_number

_CLOCK = rb"(?P<hour>\d\d):(?P<minute>\d\d):(?P<second>\d\d)(?:[.,](?P<fraction>\d{1,18}))?"
_OFFSET = rb"(?: ?(?P<offset>Z|UTC|GMT|[+-]\d\d:?\d\d)(?![\d:]))?"
_LEVEL = (
    rb"(?:(?i:debug|info|notice|warn(?:ing)?|error|critical|fatal|trace|severe)|[A-Z])"
    rb"(?:\]|[ :|,-])[\s:|\[(-]{0,6}"
)
"""A logger's level, or its first letter, as SkyPilot prints it."""

_PLAIN = re.compile(rb"(?P<year>\d{4})-(?P<month>\d\d)-(?P<day>\d\d)[ T]" + _CLOCK + _OFFSET)
"""The most common dates of `_WITH_YEAR`, at a third of the cost."""

_WITH_YEAR = re.compile(
    rb"[\s\[(<|]{0,4}(?:" + _LEVEL + rb")?"
    rb"(?:(?P<year>\d{4})(?P<mark>[-/])(?P<month>\d\d)(?P=mark)(?P<day>\d\d)(?:T| {1,2})"
    rb"|(?P<us_month>\d\d)/(?P<us_day>\d\d)/(?P<us_year>\d{4}),? {1,2})"
    + _CLOCK + rb"(?: (?P<half>[AP])M\b)?" + _OFFSET
)  # fmt: skip
"""ISO 8601, Python's logging, and the US dates of Hugging Face's examples."""

_GLOG = re.compile(rb"[IWEFD](?P<year>\d{4})?(?P<month>\d\d)(?P<day>\d\d) {1,2}" + _CLOCK)
"""glog's and absl's dates: the level's letter, month and day, always with a fraction; newer versions add the year."""

_MONTHS = (b"Jan", b"Feb", b"Mar", b"Apr", b"May", b"Jun", b"Jul", b"Aug", b"Sep", b"Oct", b"Nov", b"Dec")
_NAMED = re.compile(
    rb"[\s\[(<|]{0,4}(?:[A-Z][a-z]{2},? {1,2})?(?P<name>" + b"|".join(_MONTHS) + rb") {1,2}(?P<day>\d{1,2}) {1,2}"
    + _CLOCK + rb"(?: (?P<year>\d{4})\b)?"
)  # fmt: skip
"""The dates of syslog, journalctl and C's `ctime`."""

_SHORT = re.compile(rb"(?:\[|" + _LEVEL + rb")(?P<month>\d\d)[/-]?(?P<day>\d\d) {1,2}" + _CLOCK)
"""Month and day after a level or a bracket: vLLM, SkyPilot, detectron2, tensorpack."""

_FORMS = (_PLAIN, _WITH_YEAR, _GLOG, _NAMED, _SHORT)

_FIELDS = ("timestamp", "@timestamp", "time", "ts", "asctime", "datetime", "date", "_timestamp", "created")
"""Fields of a JSON line that hold the time when it was written, the clearest first."""
_NAMES_A_TIME = re.compile(rb'"(?:' + "|".join(_FIELDS).encode() + rb')" ?:')
_LONGEST_JSON_BYTES = 256 * 1024
"""Most bytes of a line that is parsed as JSON."""

_ERA = (1e9, 5e9)
"""A number of seconds in this range is a date (2001 to 2128), not a duration."""
_SCALES = (1.0, 1e3, 1e6, 1e9)
"""Divisors of numbers that are seconds, ms, µs or ns since 1970."""

_LONG_AGO = 5
"""Years that are tried for a date without one, so that a 29th of February is found."""
_CLOCKS_APART = timedelta(days=1)
"""How far a log's clock may be ahead of this machine's."""


def read_when(line: bytes, written: float | None = None) -> float | None:
    """Return the date and time of a line in seconds, as if UTC if it has no offset; None if the line has no date.

    A date without a year is the last such day before `written`, when the log was last written to (Unix time).
    """
    if line.startswith((b"{", b" {")):
        return _in_json(line)
    for number, form in enumerate(_FORMS):
        match = form.match(line)
        if match is not None:
            return _moment_of(number, match, written)
    return None


def _moment_of(form: int, match: re.Match[bytes], written: float | None) -> float | None:
    """Return the moment of a date (its second is cached, because many lines share it)."""
    start, end = match.span("fraction")
    if start < 0:
        return None if match.re is _GLOG else _second_of(form, match[0], written)
    text = match[0]
    second = _second_of(form, text[: start - 1] + text[end:], written)
    return None if second is None else second + int(text[start:end]) / 10 ** (end - start)


@lru_cache(maxsize=4096)
def _second_of(form: int, text: bytes, written: float | None) -> float | None:
    """Return the seconds of a date in one of the forms, without its fraction."""
    match = _FORMS[form].match(text)
    if match is None:
        return None
    groups = match.groupdict()
    year, month, day = (groups.get(part) or groups.get(f"us_{part}") for part in ("year", "month", "day"))
    hour, half = int(groups["hour"]), groups.get("half")
    clock = (hour % 12 + 12 * (half == b"P") if half else hour, int(groups["minute"]), int(groups["second"]))
    number = _MONTHS.index(groups["name"]) + 1 if "name" in groups else int(month or 0)
    moment = _day_of(year, number, int(day or 0), clock, written)
    return None if moment is None else moment.timestamp() - _seconds_east(groups.get("offset"))


def _day_of(
    year: bytes | None, month: int, day: int, clock: tuple[int, int, int], written: float | None
) -> datetime | None:
    """Return the moment of a date, without a year the last before the log was written; None if it does not exist."""
    if year is not None:
        return _moment(int(year), month, day, clock)
    if written is None:
        return None
    latest = datetime.fromtimestamp(written, timezone.utc) + _CLOCKS_APART
    moments = (_moment(latest.year - back, month, day, clock) for back in range(_LONG_AGO))
    return next((moment for moment in moments if moment is not None and moment <= latest), None)


def _moment(year: int, month: int, day: int, clock: tuple[int, int, int]) -> datetime | None:
    try:
        return datetime(year, month, day, *clock, tzinfo=timezone.utc)
    except ValueError:
        return None


def _seconds_east(offset: bytes | None) -> int:
    if offset is None or offset[:1] not in (b"+", b"-"):
        return 0
    digits = offset.replace(b":", b"")
    return (int(digits[1:3]) * 60 + int(digits[3:5])) * (60 if digits[:1] == b"+" else -60)


def _in_json(line: bytes) -> float | None:
    if len(line) > _LONGEST_JSON_BYTES or not _NAMES_A_TIME.search(line):
        return None
    try:
        document = parse_json(line)
    except ValueError:
        return None
    moments = (_of_field(document[name]) for name in _FIELDS if name in document)
    return next((moment for moment in moments if moment is not None), None)


def _of_field(value: Any) -> float | None:
    if isinstance(value, dict):
        # Google's structured logs.
        return _of_number(value.get("seconds"), value.get("nanos", 0))
    if isinstance(value, str):
        moment = read_when(value.encode("utf-8", "replace")) if value[:1] != "{" else None
        return _of_digits(value) if moment is None else moment
    return _of_number(value)


def _of_digits(text: str) -> float | None:
    try:
        return _of_number(float(text))
    except ValueError:
        return None


def _of_number(value: Any, nanos: Any = 0) -> float | None:
    low, high = _ERA
    if not is_number(value, low, high * _SCALES[-1]) or not is_number(nanos, 0, 1e9):
        return None
    scale = next((scale for scale in _SCALES if low <= value / scale < high), None)
    return None if scale is None else value / scale + nanos / 1e9
