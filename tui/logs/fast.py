"""PyTorch/XLA's training line, a block at a time: numpy finds the fields and turns their digits into numbers.

Eight bytes are gathered as one 64-bit word, so that each check and each conversion is done for every line of a block
at once ("SIMD within a register"). Only lines that are exactly of the common shape are taken, with or without
xla_dist's full prefix; all others (nan, odd numbers, glued or torn lines) are left to the pattern, so that both ways
give the same.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint64]
Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]

LEAD = len("| Training Device")
"""Bytes from where the line's own text begins to its first `=`."""

MOMENT = len("2020-08-06 02:38:57 ")
_TAILS = range(len("1.1.1.1 [0] "), len("255.255.255.255 [12345] ") + 1)
"""Lengths that address and number can have in a prefix."""

_PAD = 32
"""Blank bytes before and after a block, so that no gathering leaves it."""

_ALL = 0xFFFF_FFFF_FFFF_FFFF
_ZEROS = np.uint64(0x3030_3030_3030_3030)
_HIGH_BITS = np.uint64(0x8080_8080_8080_8080)
_ABOVE_NINE = np.uint64(0x7676_7676_7676_7676)
_LAST = np.array([0, *(_ALL << (8 * (8 - n)) & _ALL for n in range(1, 9))], np.uint64)
"""Masks that keep the last n bytes in memory of a word (its high ones: words are little-endian)."""


def _word(text: bytes) -> np.uint64:
    word: np.uint64 = np.uint64(int.from_bytes(text, "little"))
    return word


_DEVICE_1, _DEVICE_2 = _word(b"g Device"), _word(b" Trainin")
_EPOCH, _STEP, _LOSS, _RATE, _TIME = (
    _word(b"\0" * (8 - len(t)) + t) for t in (b" Epoch", b" Step", b" Loss", b" Rate", b" Time")
)
_GLOBAL_1, _GLOBAL_2 = _word(b"obalRate"), _word(b" GlobalR")
_XLA = _word(b"xla:")
_LOW_HALF = np.uint64(0xFFFF_FFFF)
_COLONS, _COLON_PLACES = _word(b"\0\0:\0\0:\0\0"), _word(b"\0\0\xff\0\0\xff\0\0")


@dataclass(eq=False)
class Found:
    """The lines of a block that are plain training lines; columns in the block's order."""

    ends: Ints
    """Place of every line's end in the block, of all lines."""
    lines: Ints
    """Which lines these are, counted from 0."""
    starts: Ints
    """Where each begins in the block."""
    prefix: Ints
    """Bytes of prefix before each; 0 none."""
    tail: Words
    """Address and number of the prefix as three words a line, zeros where there is none."""
    moment: Words
    """Its date and time as three words a line, zeros where there is none."""
    core: Ints
    device: Ints
    epoch: Ints
    step: Ints
    loss: Floats
    rate: Floats
    global_rate: Floats
    clock: Words
    """The eight bytes of the clock."""

    def __len__(self) -> int:
        return len(self.lines)

    def part(self, kept: Bools) -> Found:
        """The lines that are marked."""
        columns = {name: value[kept] for name, value in self.__dict__.items() if name != "ends"}
        return Found(self.ends, **columns)


def scan(block: bytes) -> Found:
    """Find the plain training lines of a block that begins at a line's start and ends at a line's end."""
    padding = b"\0" * _PAD
    data = padding + block + padding
    octets = np.frombuffer(data, np.uint8)
    words: Words = np.ndarray((len(data) - 7,), "<u8", data, strides=(1,))
    ends = np.flatnonzero(octets == ord("\n"))
    signs = np.flatnonzero(octets == ord("="))
    before = np.searchsorted(signs, ends)
    starts = np.empty_like(ends)
    starts[:1] = _PAD
    starts[1:] = ends[:-1] + 1
    counts = before.copy()
    counts[1:] -= before[:-1]
    groups = [
        _read(octets, words, signs, before, starts, ends, np.flatnonzero(counts == fields), fields)
        for fields in (7, 6)
    ]
    found = groups[0] if not len(groups[1]) else _joined(groups)
    found.ends = ends - _PAD
    found.starts -= _PAD
    return found


def _joined(groups: list[Found]) -> Found:
    order = np.argsort(np.concatenate([group.lines for group in groups]), kind="stable")
    names = [name for name in groups[0].__dict__ if name != "ends"]
    return Found(groups[0].ends, **{n: np.concatenate([getattr(g, n) for g in groups])[order] for n in names})


def _read(
    octets: npt.NDArray[np.uint8],
    words: Words,
    signs: Ints,
    before: Ints,
    starts: Ints,
    ends: Ints,
    lines: Ints,
    fields: int,
) -> Found:
    """Lines with so many `=` that are plain training lines: with an epoch seven, without six."""
    first = before[lines] - fields
    begin, end = starts[lines], ends[lines]
    at = [signs[first + place] for place in range(fields)]
    device_at, time_at = at[0], at[-1]
    step_at, loss_at, rate_at, global_at = at[-5:-1]
    good = begin <= device_at - LEAD
    good &= _labels(octets, words, at)
    good &= (end == time_at + 9) | ((end == time_at + 10) & (octets[end - 1] == ord("\r")))
    clock = words[time_at + 1]
    good &= _is_clock(clock)
    kept = np.flatnonzero(good)
    if len(kept) < len(lines):
        lines, begin, clock = lines[kept], begin[kept], clock[kept]
        at = [place[kept] for place in at]
        device_at, time_at = at[0], at[-1]
        step_at, loss_at, rate_at, global_at = at[-5:-1]
    next_at = at[1]
    device, core, good = _device(words, device_at + 1, next_at - (6 if fields == 7 else 5))
    if fields == 7:
        epoch, fine = _integer(words, next_at + 1, step_at - 5)
        good &= fine
    else:
        epoch = np.full(len(lines), -1, np.int64)
    step, fine = _integer(words, step_at + 1, loss_at - 5)
    good &= fine
    loss, fine = _decimal(words, loss_at + 1, rate_at - 5, 5)
    good &= fine
    rate, fine = _decimal(words, rate_at + 1, global_at - 11, 2)
    good &= fine
    global_rate, fine = _decimal(words, global_at + 1, time_at - 5, 2)
    good &= fine
    text_at = device_at - LEAD
    prefix = text_at - begin
    good &= (prefix == 0) | ((prefix >= MOMENT + _TAILS.start) & (prefix < MOMENT + _TAILS.stop))
    tail = _tails(words, text_at, prefix - MOMENT)
    moment = _moments(words, begin, prefix)
    found = Found(ends, lines, begin, prefix, tail, moment, core, device, epoch, step, loss, rate, global_rate, clock)
    return found if good.all() else found.part(good)


def _labels(octets: npt.NDArray[np.uint8], words: Words, at: list[Ints]) -> Bools:
    """Whether the names before the `=` are the right ones."""
    good: Bools = words[at[0] - 8] == _DEVICE_1
    good &= words[at[0] - 16] == _DEVICE_2
    good &= octets[at[0] - LEAD] == ord("|")
    if len(at) == 7:
        good &= words[at[1] - 8] & _LAST[6] == _EPOCH
    for place, label in zip(at[-5:-2], (_STEP, _LOSS, _RATE), strict=True):
        good &= words[place - 8] & _LAST[5] == label
    good &= words[at[-2] - 8] == _GLOBAL_1
    good &= words[at[-2] - 11] == _GLOBAL_2
    good &= words[at[-1] - 8] & _LAST[5] == _TIME
    return good


def _is_clock(clock: Words) -> Bools:
    digits = (clock ^ _ZEROS) & ~_COLON_PLACES
    good: Bools = clock & _COLON_PLACES == _COLONS
    return good & _are_digits(digits)


def _are_digits(values: Words) -> Bools:
    """Whether each byte is 0 to 9."""
    good: Bools = ((values + _ABOVE_NINE) | values) & _HIGH_BITS == 0
    return good


def _eight_digits(values: Words) -> Words:
    """The number that eight decimal digits in a word stand for, the first in memory the highest."""
    values = values * np.uint64(10) + (values >> np.uint64(8))
    pairs = np.uint64(0x0000_00FF_0000_00FF)
    low = (values & pairs) * np.uint64(0x000F_4240_0000_0064)
    high = ((values >> np.uint64(16)) & pairs) * np.uint64(0x0000_2710_0000_0001)
    number: Words = (low + high) >> np.uint64(32)
    return number


def _integer(words: Words, start: Ints, end: Ints, longest: int = 8) -> tuple[Ints, Bools]:
    """Integers of one to `longest` (at most eight) digits, and which of them are that."""
    length = end - start
    good: Bools = (length >= 1) & (length <= longest)
    values = (words[end - 8] ^ _ZEROS) & _LAST[np.where(good, length, 0)]
    good &= _are_digits(values)
    return _eight_digits(values).view(np.int64), good


def _decimal(words: Words, start: Ints, end: Ints, decimals: int) -> tuple[Floats, Bools]:
    """Numbers of at most eight characters with so many decimals, and which of them are that."""
    length = end - start
    good: Bools = (length >= decimals + 2) & (length <= 8)
    word = words[end - 8]
    point = np.uint64(8 * (7 - decimals))
    good &= (word >> point) & np.uint64(0xFF) == ord(".")
    whole = (word & np.uint64((1 << int(point)) - 1)) << np.uint64(8)
    values = ((word & _LAST[decimals]) | whole) ^ _ZEROS
    values &= _LAST[np.where(good, length - 1, 0)]
    good &= _are_digits(values)
    return _eight_digits(values).astype(np.float64) / 10.0**decimals, good


def _device(words: Words, start: Ints, end: Ints) -> tuple[Ints, Ints, Bools]:
    """Device and ordinal of `xla:0/14`, for devices of one or two digits and ordinals of up to six."""
    word = words[start]
    slash, eight = np.uint64(ord("/")), np.uint64(0xFF)
    one = (word >> np.uint64(40)) & eight == slash
    two = (word >> np.uint64(48)) & eight == slash
    good: Bools = (word & _LOW_HALF == _XLA) & (one | two)
    first = ((word >> np.uint64(32)) & eight).astype(np.int64) - ord("0")
    second = ((word >> np.uint64(40)) & eight).astype(np.int64) - ord("0")
    good &= (first >= 0) & (first <= 9) & (one | ((second >= 0) & (second <= 9)))
    core, fine = _integer(words, start + np.where(one, 6, 7), end, longest=6)
    return np.where(one, first, first * 10 + second), core, good & fine


def _moments(words: Words, begin: Ints, prefix: Ints) -> Words:
    """The first twenty bytes of each line that has a prefix."""
    moments = np.zeros((len(begin), 3), np.uint64)
    if not prefix.any():
        return moments
    for column, mask in enumerate((_ALL, _ALL, int(_LOW_HALF))):
        moments[:, column] = words[begin + 8 * column] & np.uint64(mask)
    moments[prefix == 0] = 0
    return moments


def _tails(words: Words, end: Ints, length: Ints) -> Words:
    """The last `length` bytes before a place as three words, what lies before them zero."""
    tails = np.zeros((len(end), 3), np.uint64)
    if not (length > 0).any():
        return tails
    length = np.clip(length, 0, 24)
    for column in range(3):
        tails[:, column] = words[end - 8 * (column + 1)] & _LAST[np.clip(length - 8 * column, 0, 8)]
    return tails
