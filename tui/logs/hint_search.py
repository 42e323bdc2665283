"""Find which of many lines contain any of some byte strings, for all lines at once."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

from tui.logs._compat_numpy import Bools, Ints, np, npt, places_of
from tui.logs.dialects.dialect import Dialect
from tui.logs.files.lines import ESCAPE

_WINDOW = 4
"""Bytes of each string that are looked for first, at every place, as one number."""

_MIXES = (np.uint32(0x9E37_79B1), np.uint32(0x85EB_CA77))
"""Multipliers of two hashes. The second rejects most of the windows that share the first with a string's."""

_SHIFT = np.uint32(16)

_COMMON = b" etaoinsrhldcumfpgwybvkxjqz"
"""The most frequent bytes of text, in order: windows of rarer bytes are seldom found where no string is."""

_WEIGHTS = bytes(len(_COMMON) - rank if (rank := _COMMON.find(byte)) >= 0 else 3 for byte in range(256))
"""The weight of each byte by its frequency in text; the rarest letter weighs one."""

_EVERYWHERE = b"Traceback (most recent call last): training"
"""What every log of training is full of: its windows are looked for only if a string has no others."""

_NO_LETTERS = re.compile(rb"[^A-Za-z_\r\n]{0,80}[\r\n]")
"""The rest of a line without further words."""


class HintFinder:
    """Finds lines that contain a string or an escape sequence; no word may follow a string of `last`.

    With `in_prefixes` the strings also count in prefixes of a line.
    """

    def __init__(self, strings: Sequence[bytes], last: Sequence[bytes] = (), *, in_prefixes: bool = False) -> None:
        self.in_prefixes = in_prefixes
        self._short = tuple(string for string in (*strings, *last) if len(string) < _WINDOW - 1)
        self._long: dict[int, list[tuple[bytes, int, bool]]] = {}
        for is_last, group in enumerate((strings, last)):
            for string in group:
                for offset, window in _windows(string):
                    self._long.setdefault(window, []).append((string, offset, bool(is_last)))
        self._tables = np.zeros((2, 1 << (32 - int(_SHIFT))), bool)
        for table, mix in zip(self._tables, _MIXES, strict=True):
            table[(np.array([*self._long], np.uint32) * mix) >> _SHIFT] = True

    def lines_with(self, joined: bytes, ends: Ints) -> Ints:
        """Return which lines contain any of the strings: `ends` are the places after each one's line end."""
        windows = np.ndarray((max(0, len(joined) - _WINDOW + 1),), "<u4", joined, strides=(1,))
        likely = places_of(self._are_hashed(windows, 0))
        likely = likely[self._are_hashed(windows[likely], 1)]
        hits = []
        for index, window in zip(likely.tolist(), windows[likely].tolist(), strict=True):
            for string, offset, is_last in self._long.get(window, ()):
                start = index - offset
                if joined.startswith(string, start) and (
                    not is_last or _NO_LETTERS.match(joined, start + len(string)) is not None
                ):
                    hits.append(index)
                    break
        for string in self._short:
            hits += _places_of(string, joined)
        # A lone escape character changes nothing; binary data is full of them.
        hits += [index for index in _places_of(b"\x1b", joined) if ESCAPE.match(joined, index)]
        if not hits:
            return np.zeros(0, np.int64)
        lines = np.searchsorted(ends, np.array(hits, np.int64), side="right")
        return np.array(sorted(set(lines.tolist())), np.int64)

    def _are_hashed(self, windows: npt.NDArray[np.uint32], way: int) -> Bools:
        """Return which windows have the hash of a string's, by one of two ways of hashing."""
        hashes = windows * _MIXES[way]
        hashes >>= _SHIFT
        are_hashed: Bools = self._tables[way].take(hashes)
        return are_hashed


@lru_cache(maxsize=4)
def hint_finder_for(dialects: tuple[Dialect, ...]) -> HintFinder | None:
    """Return a finder of lines that a dialect could match, or that have escapes; None if any line could match."""
    if any(not dialect.hints for dialect in dialects):
        return None
    last = {hint for dialect in dialects if dialect.hints_end for hint in dialect.hints}
    others = {hint for dialect in dialects if not dialect.hints_end for hint in dialect.hints}
    in_prefixes = any(dialect.is_own for dialect in dialects)
    return HintFinder(sorted(others), sorted(last - others), in_prefixes=in_prefixes)


def _windows(string: bytes) -> list[tuple[int, int]]:
    """Return what to look for and where it is in the string: the four bytes that text contains least often.

    Three bytes are looked for together with every byte that may follow them, such as the line end.
    """
    if len(string) < _WINDOW:
        window = int.from_bytes(string, "little")
        return [(0, window | last << 24) for last in range(256)] if len(string) == _WINDOW - 1 else []
    windows = [string[start : start + _WINDOW] for start in range(len(string) - _WINDOW + 1)]
    best = min(reversed(windows), key=lambda window: (window in _EVERYWHERE, sum(window.translate(_WEIGHTS))))
    return [(string.rindex(best), int.from_bytes(best, "little"))]


def _places_of(string: bytes, text: bytes) -> list[int]:
    places = []
    place = text.find(string)
    while place >= 0:
        places.append(place)
        place = text.find(string, place + 1)
    return places
