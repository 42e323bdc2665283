"""Which of many lines hold one of some byte strings, found for all of them at once."""

from __future__ import annotations

from collections.abc import Sequence

from tui.logs.arrays import np, places_of
from tui.logs.table import Ints

_WINDOW = 4
"""Bytes of each string that are looked for first, at every place, as one number."""

_MIX = np.uint32(0x9E37_79B1)
_SHIFT = np.uint32(16)

_COMMON, _SELDOM = frozenset(b"abcdefghijklmnopqrstuvwxyz"), frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789")
"""Bytes that text is full of, and those it has less of; a window of the rest is hardly found where no string is.
Blanks come in runs, so that a window of them is found everywhere."""


class Signs:
    """Byte strings to look for; those shorter than four bytes cost more."""

    def __init__(self, strings: Sequence[bytes]) -> None:
        self._short = tuple(string for string in strings if len(string) < _WINDOW)
        self._long: dict[int, list[tuple[bytes, int]]] = {}
        for string in strings:
            if len(string) >= _WINDOW:
                place = _rarest(string)
                window = int.from_bytes(string[place : place + _WINDOW], "little")
                self._long.setdefault(window, []).append((string, place))
        self._table = np.zeros(1 << (32 - int(_SHIFT)), bool)
        self._table[(np.array([*self._long], np.uint32) * _MIX) >> _SHIFT] = True

    def lines_with(self, joined: bytes, ends: Ints) -> Ints:
        """Which lines hold any of the strings: `ends` are the places after each one's line end."""
        windows = np.ndarray((max(0, len(joined) - _WINDOW + 1),), "<u4", joined, strides=(1,))
        hashes = windows * _MIX
        hashes >>= _SHIFT
        likely = places_of(self._table.take(hashes))
        hits = []
        for place, window in zip(likely.tolist(), windows[likely].tolist(), strict=True):
            for string, before in self._long.get(window, ()):
                if joined.startswith(string, place - before):
                    hits.append(place)
                    break
        for string in self._short:
            hits += _places_of(string, joined)
        if not hits:
            return np.zeros(0, np.int64)
        lines = np.searchsorted(ends, np.array(hits, np.int64), side="right")
        return np.array(sorted(set(lines.tolist())), np.int64)


def _rarest(string: bytes) -> int:
    """Where the four bytes of a string are that text holds least often."""
    places = range(len(string) - _WINDOW + 1)
    return min(reversed(places), key=lambda place: sum(map(_weight, string[place : place + _WINDOW])))


def _weight(byte: int) -> int:
    return 3 if byte == ord(" ") else 2 if byte in _COMMON else 1 if byte in _SELDOM else 0


def _places_of(string: bytes, text: bytes) -> list[int]:
    places = []
    place = text.find(string)
    while place >= 0:
        places.append(place)
        place = text.find(string, place + 1)
    return places
