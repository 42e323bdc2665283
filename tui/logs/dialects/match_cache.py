"""Cache the matches of dialects by the shape of a line: lines that differ only in digits are matched once.

A number whose fraction is zero, `step 775.0`, is whole, and has a shape of its own.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from tui.logs.attribution.launcher_prefixes import read_launcher_prefix
from tui.logs.attribution.xla_dist_prefix import PREFIX, read_prefix
from tui.logs.dialects.dialect import Dialect, Kind, LineMatch
from tui.logs.dialects.printed_totals import find_printed_totals

_DIGITS_ALIKE = bytes.maketrans(b"123456789", b"000000000")

_ZERO_FRACTION = re.compile(rb"\.0{1,6}(?!\d)")

_OF_A_FRACTION = re.compile(rb"\.?\d{0,20}[eE]-\d")
"""What follows the first digits of a number that is less than one: `7.04e-05` is not epoch 7."""

MOST_SHAPES = 4096
"""Shapes in each of two generations; the older one holds shapes that were not seen lately."""

LONGEST_SHAPE_BYTES = 512
"""Most bytes of a line whose shape is remembered."""

GLUED_WITHIN_BYTES = 512
"""Bytes before a sample that are searched for the prefix of a line that was glued to the one before."""


class DialectMatch(NamedTuple):
    """A match as positions in the text, which are the same in all lines of a shape."""

    start: int
    spans: tuple[tuple[str, int, int], ...]
    """Name, beginning and end of each group that matched."""
    is_glued: bool
    """Whether a prefix with an address stands shortly before it, in the middle of the line."""

    def values(self, text: bytes) -> dict[str, bytes]:
        """Return the values in a text of this shape, by the names of the groups."""
        return {name: text[start:end] for name, start, end in self.spans}


class LineMatches(NamedTuple):
    """The matches in lines of one shape, in the order of the dialects."""

    found: tuple[tuple[Dialect, tuple[DialectMatch, ...]], ...]
    is_bare: bool
    """Whether such a line begins with neither a prefix nor an unambiguous label."""

    @property
    def is_own(self) -> bool:
        """Return whether a dialect of the profile matched."""
        return bool(self.found) and self.found[0][0].is_own


_NOTHING = LineMatches((), is_bare=False)
_NOTHING_BARE = LineMatches((), is_bare=True)


class DialectReader:
    """Tries dialects on lines.

    No pattern of the catalogue distinguishes one digit from another. So its matches depend only on the shape of a
    line (`shape_of`). A profile's patterns are tried on every line.
    """

    def __init__(self, dialects: Sequence[Dialect]) -> None:
        self._own = tuple(dialect for dialect in dialects if dialect.is_own)
        self._dialects = tuple(dialect for dialect in dialects if not dialect.is_own)
        self._always = {index for index, dialect in enumerate(self._dialects) if not dialect.hints}
        self._hinting = _hinting(tuple(dialect.hints for dialect in self._dialects))
        self._groups = _group_hints(tuple(self._hinting))
        self._any_part = _pattern_of(tuple(self._groups))
        self._young: dict[bytes, LineMatches] = {}
        self._old: dict[bytes, LineMatches] = {}

    @property
    def size(self) -> int:
        """Return the number of remembered shapes."""
        return len(self._young) + len(self._old)

    def find_known(self, line: bytes) -> LineMatches | None:
        """Return the matches of a line without a prefix if a line of its shape has been read; else None."""
        if len(line) > LONGEST_SHAPE_BYTES or any(_could_match(dialect, line) for dialect in self._own):
            return None
        return self._look_up(shape_of(line))

    def read(self, line: bytes, own_text: bytes) -> LineMatches:
        """Return the matches in a line's own text, and those of a profile's dialects in the whole line."""
        shape = shape_of(own_text)
        matches = self._look_up(shape)
        if matches is None:
            matches = _read(own_text, self.dialects_for(shape))
            if len(shape) <= LONGEST_SHAPE_BYTES:
                self._remember(shape, matches)
        own = _find(line, [dialect for dialect in self._own if _could_match(dialect, line)])
        if not own:
            return matches
        rest = (pair for pair in matches.found if pair[0].kind is not Kind.SAMPLE)
        return LineMatches((*own, *rest), matches.is_bare)

    def _look_up(self, shape: bytes) -> LineMatches | None:
        matches = self._young.get(shape)
        if matches is None:
            matches = self._old.get(shape)
            if matches is not None:
                self._remember(shape, matches)
        return matches

    def _remember(self, shape: bytes, matches: LineMatches) -> None:
        if len(self._young) >= MOST_SHAPES:
            self._old, self._young = self._young, {}
        self._young[shape] = matches

    def dialects_for(self, shape: bytes) -> tuple[Dialect, ...]:
        """Return the dialects with a hint in a line of this shape.

        One search rejects most lines without a hint: a megabyte of binary data has thousands of them.
        """
        indices = set(self._always)
        if self._any_part is None or self._any_part.search(shape) is None:
            return tuple(self._dialects[index] for index in sorted(indices))
        for part, hints in self._groups.items():
            if part in shape:
                for hint in hints:
                    if hint in shape:
                        indices.update(self._hinting[hint])
        return tuple(self._dialects[index] for index in sorted(indices))


def shape_of(line: bytes) -> bytes:
    """Return a line with every digit replaced by 0, and fractions of zeros by what no line contains."""
    return _ZERO_FRACTION.sub(lambda zeros: b"\n" * len(zeros[0]), line).translate(_DIGITS_ALIKE)


def _could_match(dialect: Dialect, line: bytes) -> bool:
    """Return whether a line contains a hint of the dialect, or the dialect has none."""
    return not dialect.hints or any(hint in line for hint in dialect.hints)


def _read(text: bytes, dialects: Sequence[Dialect]) -> LineMatches:
    matches, is_bare = _find(text, dialects), _is_bare(text)
    if matches:
        return LineMatches(matches, is_bare)
    return _NOTHING_BARE if is_bare else _NOTHING


def _find(text: bytes, dialects: Sequence[Dialect]) -> tuple[tuple[Dialect, tuple[DialectMatch, ...]], ...]:
    """Return the matches of dialects in a text; samples are only those of the first dialect that finds any."""
    found = []
    sampled: str | None = None
    for dialect in dialects:
        is_sample = dialect.kind is Kind.SAMPLE
        if is_sample and sampled not in (None, dialect.name):
            continue
        matches = list(dialect.pattern.finditer(text, max(0, len(text) - dialect.reach)))
        if matches:
            sampled = dialect.name if is_sample else sampled
            chosen = matches[-1:] if dialect.last_only else matches
            found.append((dialect, tuple(_found(match, text) for match in chosen)))
    return tuple(found)


@lru_cache(maxsize=4)
def _hinting(hints: tuple[tuple[bytes, ...], ...]) -> dict[bytes, list[int]]:
    """Return the indices of the dialects of each hint (cached, because each run has a reader)."""
    indices: dict[bytes, list[int]] = {}
    for index, dialect_hints in enumerate(hints):
        for hint in dialect_hints:
            indices.setdefault(hint.translate(_DIGITS_ALIKE), []).append(index)
    return indices


@lru_cache(maxsize=4)
def _group_hints(hints: tuple[bytes, ...]) -> dict[bytes, list[bytes]]:
    """Group hints by three bytes that many share: a line without those bytes contains none of the group."""
    parts = {hint: {hint[start : start + 3] for start in range(max(1, len(hint) - 2))} for hint in hints}
    counts = Counter(part for hint_parts in parts.values() for part in hint_parts)
    groups: dict[bytes, list[bytes]] = {}
    for hint, hint_parts in parts.items():
        groups.setdefault(max(hint_parts, key=lambda part: (counts[part], part)), []).append(hint)
    return groups


@lru_cache(maxsize=4)
def _pattern_of(parts: tuple[bytes, ...]) -> re.Pattern[bytes] | None:
    """Return the pattern that finds any of the parts; None where there are none."""
    return re.compile(b"|".join(map(re.escape, parts))) if parts else None


def _found(match: LineMatch, text: bytes) -> DialectMatch:
    spans = tuple(
        (name, *match.span(name))
        for name in match.re.groupindex
        if match[name] is not None and not (name == "epoch" and _OF_A_FRACTION.match(text, match.span(name)[1]))
    )
    start = match.start()
    glued = start > 2 and any(
        prefix["address"] is not None for prefix in PREFIX.finditer(text, max(0, start - GLUED_WITHIN_BYTES), start)
    )
    return DialectMatch(start, spans + find_printed_totals(text, spans), glued)


def _is_bare(line: bytes) -> bool:
    return b"\x1b" not in line and read_prefix(line, xla_dist=False) is None and read_launcher_prefix(line) is None
