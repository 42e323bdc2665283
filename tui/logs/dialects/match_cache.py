"""What dialects find in a line, remembered: one that differs from an earlier one in digits only is read at once."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from tui.logs.attribution.launcher_prefixes import read_launcher_prefix
from tui.logs.attribution.xla_dist_prefix import PREFIX, read_prefix
from tui.logs.dialects.dialect import Dialect, Kind

_DIGITS_ALIKE = bytes.maketrans(b"123456789", b"000000000")

MOST_SHAPES = 4096
"""Shapes of lines remembered in a generation; there are two, the older one of those not seen lately."""

LONGEST_SHAPE = 512
"""Bytes of a line that is remembered."""

GLUED_WITHIN = 512
"""Bytes before a sample in which a prefix glued into the line is looked for."""


@dataclass(frozen=True, slots=True)
class DialectMatch:
    """A match, as places in its text: they are the same in every line of its shape."""

    start: int
    spans: tuple[tuple[str, int, int], ...]
    """Name, beginning and end of each group that took part."""
    is_glued: bool
    """Whether a prefix with an address stands right before it, in the middle of the line."""

    def values(self, text: bytes) -> dict[str, bytes]:
        """What a text of this shape tells, by the groups' names."""
        return {name: text[start:end] for name, start, end in self.spans}


@dataclass(frozen=True, slots=True)
class LineMatches:
    """What dialects find in lines of one shape, in their order."""

    found: tuple[tuple[Dialect, tuple[DialectMatch, ...]], ...]
    is_bare: bool
    """Whether such a line begins neither with a prefix nor with a label that needs no proof."""


_NOTHING = LineMatches((), False)
_NOTHING_BARE = LineMatches((), True)


class DialectReader:
    """Tries dialects on lines.

    None of them tells one digit from another (see `is_digit_blind`), so that what they find depends on a line's shape
    alone: its bytes, every digit taken for the same.
    """

    def __init__(self, dialects: Sequence[Dialect]) -> None:
        self._dialects = tuple(dialects)
        self._always = {place for place, each in enumerate(dialects) if not each.hints}
        self._hinting = _hinting(tuple(each.hints for each in dialects))
        self._groups = _grouped(tuple(self._hinting))
        self._any_part = _pattern_of(tuple(self._groups))
        self._young: dict[bytes, LineMatches] = {}
        self._old: dict[bytes, LineMatches] = {}
        self._has_own = any(dialect.is_own for dialect in dialects)

    @property
    def size(self) -> int:
        """Shapes of lines remembered."""
        return len(self._young) + len(self._old)

    def known(self, line: bytes) -> LineMatches | None:
        """The reading of a line that nothing was put before, if one of its shape has been read."""
        return self._known(line.translate(_DIGITS_ALIKE)) if len(line) <= LONGEST_SHAPE else None

    def read(self, line: bytes, own_text: bytes) -> LineMatches:
        """What dialects find in a line's own text; a user's own in the whole line."""
        text = line if self._has_own else own_text
        shape = text.translate(_DIGITS_ALIKE)
        if len(text) != len(own_text):
            # Where its own text begins; no line holds a line end.
            shape += b"\n%d" % (len(text) - len(own_text))
        reading = self._known(shape)
        if reading is None:
            hinted = self.dialects_for(shape)
            reading = self._read(line, own_text, hinted)
            if len(text) <= LONGEST_SHAPE and all(dialect.is_digit_blind for dialect in hinted):
                self._remember(shape, reading)
        return reading

    def _known(self, shape: bytes) -> LineMatches | None:
        reading = self._young.get(shape)
        if reading is None:
            reading = self._old.get(shape)
            if reading is not None:
                self._remember(shape, reading)
        return reading

    def _remember(self, shape: bytes, reading: LineMatches) -> None:
        if len(self._young) >= MOST_SHAPES:
            self._old, self._young = self._young, {}
        self._young[shape] = reading

    def dialects_for(self, shape: bytes) -> tuple[Dialect, ...]:
        """Return the dialects of which a line of this shape holds a hint.

        One search rejects most lines that hold none: a megabyte of binary data has thousands of them.
        """
        places = set(self._always)
        if self._any_part is None or self._any_part.search(shape) is None:
            return tuple(self._dialects[place] for place in sorted(places))
        for part, hints in self._groups.items():
            if part in shape:
                for hint in hints:
                    if hint in shape:
                        places.update(self._hinting[hint])
        return tuple(self._dialects[place] for place in sorted(places))

    def _read(self, line: bytes, own_text: bytes, hinted: Sequence[Dialect]) -> LineMatches:
        found = []
        sampled: str | None = None
        for dialect in hinted:
            is_sample = dialect.kind is Kind.SAMPLE
            if is_sample and sampled not in (None, dialect.name):
                continue
            text = line if dialect.is_own else own_text
            matches = list(dialect.pattern.finditer(text, max(0, len(text) - dialect.reach)))
            if matches:
                sampled = dialect.name if is_sample else sampled
                wanted = matches[-1:] if dialect.last_only else matches
                found.append((dialect, tuple(_found(match, text) for match in wanted)))
        bare = _is_bare(own_text)
        if found:
            return LineMatches(tuple(found), bare)
        return _NOTHING_BARE if bare else _NOTHING


@lru_cache(maxsize=4)
def _hinting(hints: tuple[tuple[bytes, ...], ...]) -> dict[bytes, list[int]]:
    """Which dialects, by their places, each hint belongs to; lists of runs make a reader for every run."""
    places: dict[bytes, list[int]] = {}
    for place, some in enumerate(hints):
        for hint in some:
            places.setdefault(hint.translate(_DIGITS_ALIKE), []).append(place)
    return places


@lru_cache(maxsize=4)
def _grouped(hints: tuple[bytes, ...]) -> dict[bytes, list[bytes]]:
    """Hints by three bytes that many of them share: what does not hold those holds none of these."""
    parts = {hint: {hint[place : place + 3] for place in range(max(1, len(hint) - 2))} for hint in hints}
    counts = Counter(part for some in parts.values() for part in some)
    groups: dict[bytes, list[bytes]] = {}
    for hint, some in parts.items():
        groups.setdefault(max(some, key=lambda part: (counts[part], part)), []).append(hint)
    return groups


@lru_cache(maxsize=4)
def _pattern_of(parts: tuple[bytes, ...]) -> re.Pattern[bytes] | None:
    """Return the pattern that finds any of the parts; None where there are none."""
    return re.compile(b"|".join(map(re.escape, parts))) if parts else None


def _found(match: re.Match[bytes], text: bytes) -> DialectMatch:
    spans = tuple((name, *match.span(name)) for name in match.re.groupindex if match[name] is not None)
    start = match.start()
    glued = start > 2 and any(
        prefix["address"] is not None for prefix in PREFIX.finditer(text, max(0, start - GLUED_WITHIN), start)
    )
    return DialectMatch(start, spans, glued)


def _is_bare(line: bytes) -> bool:
    return b"\x1b" not in line and read_prefix(line, False) is None and read_launcher_prefix(line) is None
