"""Dialects of a profile: check their tables, and run their patterns with time limits."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

import regex

from tui.logs.dialects.dialect import COLUMNS, LOOSE_REACH, Dialect, Kind, LineMatch, dialect_error

LONGEST_SEARCH_S = 0.25
"""Seconds after which the search of a line is aborted."""

CREDIT_S = 1.0
"""CPU seconds that a pattern may use beyond those that its lines earn, before it is given up."""

EARNED_S = 0.001
"""CPU seconds that a pattern earns per line; usual patterns need a hundredth of this."""

_KEYS = ("pattern", "columns", "contains", "samples")


class TimedPattern:
    """A pattern that cannot hold up the reader: each search has a time limit, and all searches have a budget.

    A pattern that has used up its budget is given up and matches nothing from then on.
    """

    def __init__(self, source: bytes) -> None:
        self._pattern: Any = regex.compile(source)
        self._credit_s = CREDIT_S

    @property
    def groups(self) -> frozenset[str]:
        """Return the names of the pattern's groups."""
        return frozenset(self._pattern.groupindex)

    @property
    def is_given_up(self) -> bool:
        """Return whether the pattern has taken too long."""
        return self._credit_s <= 0

    def finditer(self, text: bytes, start: int = 0) -> Sequence[LineMatch]:
        """Return all matches in a text from a position on; none if the search takes too long."""
        if self.is_given_up:
            return ()
        started_at = time.thread_time()
        try:
            matches: Sequence[LineMatch] = list(self._pattern.finditer(text, start, timeout=LONGEST_SEARCH_S))
        except TimeoutError:
            matches = ()
        used = time.thread_time() - started_at
        self._credit_s = min(CREDIT_S, self._credit_s + EARNED_S) - used
        return matches


def user_dialects(mapping: Mapping[str, Any]) -> tuple[Dialect, ...]:
    r"""Return the dialects of a profile's `[dialects.NAME]` tables.

    A pattern's named groups are columns (`core device worker epoch step loss rate global_rate clock`), or are mapped
    to them by `columns = { loss = "my_group" }`; `step` and `loss` are needed. `contains` is a text (or several) that
    every match contains: other lines are not searched. `samples` are lines that the pattern must match. Raises
    UsageError with the name of the dialect and what is wrong with it.
    """
    return tuple(_user_dialect(name, entry) for name, entry in mapping.items())


_CORRECT_SAMPLE = "correct the pattern or the sample; tpu-tui dialect test FILE tries it on a log"


def _user_dialect(name: str, entry: Any) -> Dialect:
    if isinstance(entry, str):
        entry = {"pattern": entry}
    if not isinstance(entry, Mapping) or not isinstance(entry.get("pattern"), str):
        remedy = f"write [dialects.{name}] pattern = '…(?P<step>\\d+)…(?P<loss>\\S+)…'"
        raise dialect_error(name, "it has no pattern", remedy)
    if extra := sorted(set(entry) - set(_KEYS)):
        raise dialect_error(name, f"unknown key {extra[0]!r}", "its keys are pattern, columns, contains and samples")
    source = _rename_groups(name, entry["pattern"], entry.get("columns", {})).encode()
    try:
        pattern = TimedPattern(source)
    except (regex.error, RecursionError, OverflowError) as error:
        remedy = "write \\ before a sign that stands for itself, such as ( [ { . *"
        raise dialect_error(name, f"its pattern is not a regular expression: {error}", remedy) from error
    if missing := {"step", "loss"} - pattern.groups:
        why = f"its pattern has no group for {' and '.join(sorted(missing))}"
        raise dialect_error(name, why, "name a group (?P<step>…), (?P<loss>…)")
    if odd := sorted(pattern.groups - set(COLUMNS)):
        columns = f"columns are {', '.join(COLUMNS)}; use (?:…) for the rest"
        raise dialect_error(name, f"group {odd[0]!r} is not a column", columns)
    hints = tuple(text.encode() for text in _texts(name, entry, "contains"))
    dialect = Dialect(name, Kind.SAMPLE, hints, source, reach=LOOSE_REACH, own_pattern=pattern)
    for sample in _texts(name, entry, "samples"):
        _check_sample(dialect, sample)
    return dialect


def _rename_groups(name: str, source: str, columns: Any) -> str:
    """Return a pattern whose groups have the names of the columns they are mapped to."""
    if not isinstance(columns, Mapping):
        raise dialect_error(name, "columns is not a table", 'write columns = { loss = "name of a group" }')
    for column, group in columns.items():
        if column not in COLUMNS:
            raise dialect_error(name, f"no such column: {column}", f"columns are {', '.join(COLUMNS)}")
        source = source.replace(f"(?P<{group}>", f"(?P<{column}>")
    return source


def _texts(name: str, entry: Mapping[str, Any], key: str) -> list[str]:
    """Return the texts of a key whose value is one text or a list."""
    value = entry.get(key, [])
    texts = [value] if isinstance(value, str) else value
    if not isinstance(texts, list) or not all(isinstance(text, str) and text for text in texts):
        raise dialect_error(name, f"{key} is neither a text nor a list of texts", f'write {key} = ["…", "…"]')
    return texts


def _check_sample(dialect: Dialect, sample: str) -> None:
    """Raise UsageError if the dialect does not read its sample line."""
    line = sample.encode()
    if dialect.hints and not any(hint in line for hint in dialect.hints):
        why = f"its sample {sample!r} contains nothing of what contains says"
        raise dialect_error(dialect.name, why, _CORRECT_SAMPLE)
    if not dialect.pattern.finditer(line, max(0, len(line) - dialect.reach)):
        raise dialect_error(dialect.name, f"its pattern does not match its sample {sample!r}", _CORRECT_SAMPLE)
