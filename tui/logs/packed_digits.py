"""Parse the numbers of many lines at once, eight bytes as one 64-bit word ("SIMD within a register").

A text is xor-ed with the expected bytes, `0` for each digit. A byte that is then above 9 (above 0 where a single byte
is expected) sets its high bit when the complement is added.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from tui.logs._compat_numpy import Floats, Ints, Words, np, places_of

_ALL = 0xFFFF_FFFF_FFFF_FFFF
_HIGH_BITS = np.uint64(0x8080_8080_8080_8080)
LAST = np.array([0, *(_ALL << (8 * (8 - n)) & _ALL for n in range(1, 9))], np.uint64)
"""Masks that keep the last n bytes of a word in memory (the high ones, since words are little-endian)."""

FIRST = np.array([(1 << 8 * n) - 1 for n in range(9)], np.uint64)
"""Masks that keep the first n bytes of a word in memory."""


def word_of(text: bytes) -> np.uint64:
    """Return eight bytes (or fewer) as the word that is read from memory."""
    word: np.uint64 = np.uint64(int.from_bytes(text, "little"))
    return word


BYTE, _TWO_BYTES, _FOUR_BYTES = np.uint64(8), np.uint64(16), np.uint64(32)
TEN, _PAIRS = np.uint64(10), np.uint64(0x0000_00FF_0000_00FF)
_LOW_PAIRS, _HIGH_PAIRS = np.uint64(0x000F_4240_0000_0064), np.uint64(0x0000_2710_0000_0001)
_LAST_PAIRS, _TO_THE_TOP, _SIX_BYTES = np.uint64(0x00FF_00FF << 32), np.uint64(100 << 16 | 1), np.uint64(48)
_FEW = 4
"""Most digits for which a cheaper conversion suffices."""

_NO_DIGITS = (1023 + 64) >> 3
"""The exponent of a double, shifted right by three, of a word whose highest bit is set."""

_STRANGE = np.uint64(0x80)
_PROBED = 16
"""Words that are compared first: if lengths differ, they usually differ among these."""


def expected(text: bytes) -> tuple[np.uint64, np.uint64]:
    """Return the word to xor with and the word to add then, so that high bits mark unexpected bytes.

    A `0` in the text stands for any digit, any other byte for itself.
    """
    return word_of(text), word_of(bytes(0x76 if byte == ord("0") else 0x7F for byte in text))


DIGITS = expected(b"00000000")
"""The longest integer."""

CLOCK = expected(b"00:00:00")
LOSS_DECIMALS, RATE_DECIMALS = 5, 2
"""Decimals of a plain training line's loss and rates."""

_LOW = np.uint64(0xFF)


class DigitField(NamedTuple):
    """A field of many lines: its digits, right-aligned and padded with zeros, and its length in bytes."""

    digits: Words
    length: Ints | int
    """One number if it is the same in all lines."""

    def number(self) -> Ints:
        """Return the integers."""
        few = np.max(self.length, initial=0) <= _FEW
        return (four_digits(self.digits) if few else eight_digits(self.digits)).view(np.int64)


def strange_bytes(values: Words, above: np.uint64) -> Words:
    """Return the high bit of each unexpected byte of words that were xor-ed with the expected bytes.

    A byte above 0x89 can carry into the next one, which then counts as unexpected too.
    """
    strange: Words = values + above
    strange |= values
    strange &= _HIGH_BITS
    return strange


def field_of(words: Words, shape: tuple[np.uint64, np.uint64]) -> DigitField:
    """Return the field at the end of the words in memory: the bytes that match `shape`, as `expected` returns it."""
    pattern, above = shape
    values = words ^ pattern
    strange = strange_bytes(values, above)
    length = _common_length(strange)
    if length is not None:
        values &= LAST[length]
        return DigitField(values, length)
    # The exponent of the word as a double gives its highest set bit, and an eighth of that is its byte.
    exponents = strange.astype(np.float64).view(np.int64)
    exponents >>= 55
    lengths: Ints = np.minimum(_NO_DIGITS - exponents, 8)
    values &= LAST.take(lengths)
    return DigitField(values, lengths)


def _common_length(strange: Words) -> int | None:
    """Return the bytes after the last strange one if all words have equally many, else None."""
    first = int(strange[0]) if len(strange) else 0
    if not first:
        return None
    length = (64 - first.bit_length()) // 8
    last = np.uint64(8 * (7 - length))
    alike = all((part >> last == _STRANGE).all() for part in (strange[:_PROBED], strange))
    return length if alike else None


def clock_seconds(clocks: Words) -> Floats:
    """Return clocks (`02:38:57`) in seconds of the day; NaN for other bytes."""
    # Most lines have the same clock as the line before.
    is_new = np.append(True, clocks[1:] != clocks[:-1])
    seconds = _clock_seconds(clocks[is_new])
    return seconds.repeat(np.diff(np.append(places_of(is_new), len(clocks))))


def _clock_seconds(clocks: Words) -> Floats:
    pattern, above = CLOCK
    digits = clocks ^ pattern
    is_clock = strange_bytes(digits, above) == 0
    parts = [((digits >> np.uint64(at)) & _LOW) * TEN + ((digits >> np.uint64(at + 8)) & _LOW) for at in (0, 24, 48)]
    is_clock &= (parts[0] < 24) & (parts[1] < 60) & (parts[2] <= 60)
    hours, minutes, seconds = (part.astype(np.float64) for part in parts)
    return np.where(is_clock, (hours * 60 + minutes) * 60 + seconds, np.nan)


def eight_digits(values: Words) -> Words:
    """Return the number whose eight decimal digits, 0 to 9, are the bytes of a word in memory."""
    number: Words = values * TEN
    number += values >> BYTE
    low = number & _PAIRS
    low *= _LOW_PAIRS
    number >>= _TWO_BYTES
    number &= _PAIRS
    number *= _HIGH_PAIRS
    number += low
    number >>= _FOUR_BYTES
    return number


def four_digits(values: Words) -> Words:
    """Do the same as `eight_digits` for words whose first four bytes in memory are zeros."""
    number: Words = values * TEN
    number += values >> BYTE
    number &= _LAST_PAIRS
    number *= _TO_THE_TOP
    number >>= _SIX_BYTES
    return number


def decimal(digits: Words, decimals: int) -> Floats:
    """Return the numbers whose digits have a zero byte for the point and `decimals` digits after it."""
    packed = digits & FIRST[7 - decimals]
    packed <<= BYTE
    packed |= digits & LAST[decimals]
    return eight_digits(packed).view(np.int64) / 10.0**decimals


@dataclass(frozen=True, eq=False)
class Decimals:
    """A column of decimal numbers, which are parsed only when they are read."""

    digits: Words
    decimals: int

    def __len__(self) -> int:
        return len(self.digits)

    def __getitem__(self, places: Any) -> Floats:
        return decimal(self.digits[places], self.decimals)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Floats:
        return np.asarray(self[:], dtype)


Figures = Floats | Decimals
"""Losses or rates. In a long log, most are superseded within their block; parsing all would take 2 % of the time."""
