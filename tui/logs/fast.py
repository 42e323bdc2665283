"""PyTorch/XLA's training line, a block at a time: numpy finds the fields and turns their digits into numbers.

Eight bytes are gathered as one 64-bit word, so that each check and each conversion is done for every line of a block
at once ("SIMD within a register"). Only lines that are exactly of the common shape are taken, with or without
xla_dist's full prefix; all others (nan, odd numbers, glued or torn lines) are left to the pattern, so that both ways
give the same.
"""

from __future__ import annotations

from dataclasses import dataclass

from tui.logs.arrays import np, npt

Ints = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint64]
Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]
Bytes = bytes | bytearray

LEAD = len("| Training Device")
"""Bytes from where the line's own text begins to its first `=`."""

MOMENT = len("2020-08-06 02:38:57 ")
TAILS = range(len("1.1.1.1 [0] "), len("255.255.255.255 [12345] ") + 1)
"""Lengths that address and number can have in a prefix."""

_PAD = 64
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
    begins: Ints
    """Place of every line's first byte, of all lines."""
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
        columns = {name: value[kept] for name, value in self.__dict__.items() if name not in _OF_ALL_LINES}
        return Found(self.ends, self.begins, **columns)


_OF_ALL_LINES = ("ends", "begins")
_NONE: Ints = np.zeros(0, np.int64)


class Scanner:
    """Finds the plain training lines of blocks, in one buffer that is used again and again.

    Fresh memory of a block's size would cost more than all that is done with it.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        """Bytes that a block can have at most."""
        room = size + 2 * _PAD
        self._view = memoryview(bytearray(room))
        self._octets = np.frombuffer(self._view, np.uint8)
        self._words: Words = np.ndarray((room - 7,), "<u8", self._view, strides=(1,))
        self._marks, self._more = np.empty(room, bool), np.empty(room, bool)
        self._filled = 0

    def put(self, data: Bytes, start: int, end: int) -> None:
        """Add bytes to the block: from a line's start to a line's end."""
        at = _PAD + self._filled
        self._view[at : at + end - start] = memoryview(data)[start:end]
        self._filled += end - start

    def clear(self) -> None:
        """Forget what was put in."""
        self._filled = 0

    def text(self, start: int, end: int) -> bytes:
        """Bytes of the block, by the places that `Found` gives."""
        return self._view[_PAD + start : _PAD + end].tobytes()

    def octets(self, places: Ints) -> npt.NDArray[np.uint8]:
        """The byte at each of these places, which may lie a little beyond the end (zeros)."""
        return self._octets[places + _PAD]

    def tails(self, places: Ints, lengths: Ints) -> Words:
        """Address and number of prefixes, by where these end and how long they are, as `Found.tail` has them."""
        return tails(self._words, places + _PAD, lengths)

    def moments(self, places: Ints, prefix: Ints) -> Words:
        """Date and time of prefixes, by where lines begin, as `Found.moment` has them."""
        return moments(self._words, places + _PAD, prefix)

    def scan(self) -> Found:
        """Find the plain training lines of what was put in; the next `put` begins a new block."""
        end, self._filled = _PAD + self._filled, 0
        self._view[end : end + _PAD] = bytes(_PAD)
        octets = self._octets[:end]
        marks, more = self._marks[:end], self._more[:end]
        np.equal(octets, ord("\n"), out=marks)
        np.equal(octets, ord("="), out=more)
        np.logical_or(marks, more, out=marks)
        places = np.flatnonzero(marks)
        lines = np.flatnonzero(octets[places] == ord("\n"))
        ends = places[lines]
        starts = np.empty_like(ends)
        starts[:1] = _PAD
        np.add(ends[:-1], 1, out=starts[1:])
        counts = lines.copy()
        counts[1:] -= lines[:-1] + 1
        groups: list[Found] = []
        for fields in (7, 6):
            chosen = np.flatnonzero(counts == fields)
            if len(chosen) or not groups:
                first = lines[chosen] - fields
                at = [places[first + place] for place in range(fields)]
                groups.append(_read(self._octets, self._words, at, starts[chosen], ends[chosen], chosen))
        found = groups[0] if len(groups) == 1 else _joined(groups)
        found.ends = ends - _PAD
        found.begins = starts - _PAD
        found.starts -= _PAD
        return found


def scan(block: bytes) -> Found:
    """Find the plain training lines of a block that begins at a line's start and ends at a line's end."""
    scanner = Scanner(len(block))
    scanner.put(block, 0, len(block))
    return scanner.scan()


def _joined(groups: list[Found]) -> Found:
    order = np.argsort(np.concatenate([group.lines for group in groups]), kind="stable")
    names = [name for name in groups[0].__dict__ if name not in _OF_ALL_LINES]
    columns = {n: np.concatenate([getattr(g, n) for g in groups])[order] for n in names}
    return Found(ends=_NONE, begins=_NONE, **columns)


def _read(octets: npt.NDArray[np.uint8], words: Words, at: list[Ints], begin: Ints, end: Ints, lines: Ints) -> Found:
    """Of lines with so many `=` (seven with an epoch, six without) those that are plain training lines."""
    clock = words[at[-1] + 1]
    good = _labels(octets, words, at)
    good &= begin <= at[0] - LEAD
    good &= (end == at[-1] + 9) | ((end == at[-1] + 10) & (octets[end - 1] == ord("\r")))
    good &= _is_clock(clock)
    if not good.all():
        kept = np.flatnonzero(good)
        lines, begin, clock = lines[kept], begin[kept], clock[kept]
        at = [place[kept] for place in at]
    step_at, loss_at, rate_at, global_at, time_at = at[-5:]
    has_epoch = len(at) == 7
    device, core, good = _device(words, at[0] + 1, at[1] - (6 if has_epoch else 5))
    if has_epoch:
        epoch, fine = _integer(words, at[1] + 1, step_at - 5)
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
    text_at = at[0] - LEAD
    prefix = text_at - begin
    good &= (prefix == 0) | ((prefix >= MOMENT + TAILS.start) & (prefix < MOMENT + TAILS.stop))
    tail = tails(words, text_at, prefix - MOMENT)
    moment = moments(words, begin, prefix)
    found = Found(
        _NONE, _NONE, lines, begin, prefix, tail, moment, core, device, epoch, step, loss, rate, global_rate, clock
    )
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
    values = (words[end - 8] ^ _ZEROS) & _LAST.take(length, mode="clip")
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
    values &= _LAST.take(length - 1, mode="clip")
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


def moments(words: Words, begin: Ints, prefix: Ints) -> Words:
    """The first twenty bytes of each line that has a prefix."""
    found = np.zeros((len(begin), 3), np.uint64)
    if not prefix.any():
        return found
    for column, mask in enumerate((_ALL, _ALL, int(_LOW_HALF))):
        found[:, column] = words[begin + 8 * column] & np.uint64(mask)
    found[prefix == 0] = 0
    return found


def tails(words: Words, end: Ints, length: Ints) -> Words:
    """The last `length` bytes before a place as three words, what lies before them zero."""
    found = np.zeros((len(end), 3), np.uint64)
    if not (length > 0).any():
        return found
    for column in range(3):
        found[:, column] = words[end - 8 * (column + 1)] & _LAST.take(length - 8 * column, mode="clip")
    return found
