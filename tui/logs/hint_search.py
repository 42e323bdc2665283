"""Find the lines that contain any of some byte strings, in many lines at once."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

from tui.logs._compat_numpy import Bools, Ints, np, npt, places_of
from tui.logs.dialects.dialect import Dialect
from tui.logs.files.lines import ESCAPE

_WINDOW_BYTES = 4
"""Bytes of each string that are searched for first, as one 32-bit number, at every position."""

_MIXES = (np.uint32(0x9E37_79B1), np.uint32(0x85EB_CA77))
"""Multipliers of two hash functions. The second rejects most windows that collide in the first."""

_SHIFT = np.uint32(16)

_COMMON = b" etaoinsrhldcumfpgwybvkxjqz"
"""The most frequent bytes of text, in order; windows of rarer bytes give fewer false hits."""

_WEIGHTS = bytes(len(_COMMON) - rank if (rank := _COMMON.find(byte)) >= 0 else 3 for byte in range(256))
"""The weight of each byte by its frequency in text; the rarest letter weighs one."""

_EVERYWHERE = b"Traceback (most recent call last): training"
"""Texts that are frequent in every training log; their windows are used only for strings that have no others."""

_NO_LETTERS = re.compile(rb"[^A-Za-z_\r\n]{0,80}[\r\n]")
"""The rest of a line if it has no more words."""


class HintFinder:
    """Finds lines that contain one of `strings`, one of `last` without a word after it, or an escape sequence.

    With `in_prefixes`, a string also counts in the prefix of a line.
    """

    def __init__(self, strings: Sequence[bytes], last: Sequence[bytes] = (), *, in_prefixes: bool = False) -> None:
        self.in_prefixes = in_prefixes
        self._short = tuple(string for string in (*strings, *last) if len(string) < _WINDOW_BYTES - 1)
        self._long: dict[int, list[tuple[bytes, int, bool]]] = {}
        for is_last, group in enumerate((strings, last)):
            for string in group:
                for offset, window in _windows(string):
                    self._long.setdefault(window, []).append((string, offset, bool(is_last)))
        self._tables = np.zeros((2, 1 << (32 - int(_SHIFT))), bool)
        for table, mix in zip(self._tables, _MIXES, strict=True):
            table[(np.array([*self._long], np.uint32) * mix) >> _SHIFT] = True

    def lines_with(self, joined: bytes, ends: Ints) -> Ints:
        """Return the indices of lines that contain any string; `ends` are the positions after each line end."""
        windows = np.ndarray((max(0, len(joined) - _WINDOW_BYTES + 1),), "<u4", joined, strides=(1,))
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
            hits += _find_all(string, joined)
        # A lone escape character changes nothing; binary data is full of them.
        hits += [index for index in _find_all(b"\x1b", joined) if ESCAPE.match(joined, index)]
        if not hits:
            return np.zeros(0, np.int64)
        lines = np.searchsorted(ends, np.array(hits, np.int64), side="right")
        return np.array(sorted(set(lines.tolist())), np.int64)

    def _are_hashed(self, windows: npt.NDArray[np.uint32], function: int) -> Bools:
        """Return which windows have the same hash as a window of a string, by one of the two hash functions."""
        hashes = windows * _MIXES[function]
        hashes >>= _SHIFT
        are_hashed: Bools = self._tables[function].take(hashes)
        return are_hashed


@lru_cache(maxsize=4)
def hint_finder_for(dialects: tuple[Dialect, ...]) -> HintFinder | None:
    """Return the finder of lines that a dialect could match, or that have escapes; None if any line could match."""
    if any(not dialect.hints for dialect in dialects):
        return None
    last = {hint for dialect in dialects if dialect.hints_end for hint in dialect.hints}
    others = {hint for dialect in dialects if not dialect.hints_end for hint in dialect.hints}
    in_prefixes = any(dialect.is_own for dialect in dialects)
    return HintFinder(sorted(others), sorted(last - others), in_prefixes=in_prefixes)


def _windows(string: bytes) -> list[tuple[int, int]]:
    """Return the windows to search for, with their offsets in the string: the four bytes that are rarest in text.

    A string of three bytes is searched for with every byte that can follow, such as the line end.
    """
    if len(string) < _WINDOW_BYTES:
        window = int.from_bytes(string, "little")
        return [(0, window | last << 24) for last in range(256)] if len(string) == _WINDOW_BYTES - 1 else []
    windows = [string[start : start + _WINDOW_BYTES] for start in range(len(string) - _WINDOW_BYTES + 1)]
    best = min(reversed(windows), key=lambda window: (window in _EVERYWHERE, sum(window.translate(_WEIGHTS))))
    return [(string.rindex(best), int.from_bytes(best, "little"))]


def _find_all(string: bytes, text: bytes) -> list[int]:
    places = []
    place = text.find(string)
    while place >= 0:
        places.append(place)
        place = text.find(string, place + 1)
    return places
