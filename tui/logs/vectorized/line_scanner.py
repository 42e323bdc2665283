"""Read PyTorch/XLA's training lines a block at a time: numpy finds the fields and parses their digits.

Eight bytes are gathered as one 64-bit word, so that each check and each conversion is done for all lines of a block
at once ("SIMD within a register"). Only lines of exactly the common shape are read, with or without xla_dist's full
prefix. All others (nan, odd numbers, glued or torn lines) are left to the pattern, so that the result is the same.
"""

from __future__ import annotations

from operator import itemgetter
from typing import NamedTuple

from tui.logs._compat_numpy import Bools, Ints, Words, np, npt, places_of
from tui.logs.files.block_buffer import PAD_BYTES, BlockBuffer
from tui.logs.packed_digits import (
    BYTE,
    CLOCK,
    DIGITS,
    LAST,
    LOSS_DECIMALS,
    RATE_DECIMALS,
    TEN,
    Decimals,
    DigitField,
    Figures,
    expected,
    field_of,
    strange_bytes,
    word_of,
)

LEAD = len("| Training Device")
"""Bytes from the beginning of the line's own text to its first `=`."""

MOMENT = len("2020-08-06 02:38:57 ")
CLOCK_SIZE = len("02:38:57")

TAILS = range(len("1.1.1.1 [0] "), len("255.255.255.255 [12345] ") + 1)
"""Possible lengths of address and number in a prefix."""

_TILE_BYTES = 256 * 1024
"""Bytes that are searched for line ends together, so that they stay in the CPU's cache."""

_LINE_END = np.uint8(ord("\n"))

_ROOM, _HEAD_ROOM = 32, 48
"""Bytes gathered together for a field or two, and for a prefix."""

_WORD = 8

_DEVICE_1, _DEVICE_2 = word_of(b"| Traini"), word_of(b"ng Devic")
_EPOCH, _STEP, _LOSS, _RATE, _TIME = b" Epoch=", b" Step=", b" Loss=", b" Rate=", b" Time="
_GLOBAL = b" GlobalRate="
_MOST_ORDINAL = 6
"""Most digits of an ordinal."""

_ONE_DIGIT, _TWO_DIGITS = expected(b"e=xla:0/"), expected(b"e=xla:00")
_POINTED = {n: expected(b"0" * (7 - n) + b"." + b"0" * n) for n in (LOSS_DECIMALS, RATE_DECIMALS)}


class TrainingLines(NamedTuple):
    """The lines of a block that are plain training lines, in the block's order, as columns."""

    lines: Ints
    """The numbers of these lines in the block, from 0."""
    prefix: Ints
    """The length of each prefix in bytes; 0 for none."""
    core: Ints
    device: Ints
    epoch: Ints
    step: Ints
    loss: Figures
    rate: Figures
    global_rate: Figures
    clock: npt.NDArray[np.bytes_]

    def part(self, chosen: Bools) -> TrainingLines:
        """Return the lines that are marked in `chosen`."""
        return TrainingLines(*map(itemgetter(chosen), self))


def words_at(stretches: npt.NDArray[np.uint8], offset: int) -> Words:
    """Return the eight bytes at an offset of each stretch of bytes, as a view."""
    words: Words = stretches[:, offset : offset + 8].view("<u8")[:, 0]
    return words


class Scanner:
    """Finds lines, and the plain training lines among them, in a block."""

    def __init__(self, buffer: BlockBuffer) -> None:
        self._view = buffer.view
        self._end = PAD_BYTES + buffer.size
        self._view[self._end : self._end + PAD_BYTES] = bytes(PAD_BYTES)
        self._octets = np.frombuffer(self._view, np.uint8)
        self._marks = np.empty(_TILE_BYTES, bool)

    def octets(self, places: Ints) -> npt.NDArray[np.uint8]:
        """Return the byte at each of these positions; zeros a little beyond the end."""
        return self._octets.take(places + PAD_BYTES)

    def prefix_bytes(self, places: Ints) -> npt.NDArray[np.uint8]:
        """Return the first bytes of lines that begin at these positions."""
        return self._gather(places + PAD_BYTES, _HEAD_ROOM)

    def field_bytes(self, ends: Ints) -> npt.NDArray[np.uint8]:
        """Return the 32 bytes before each of these positions of the buffer; fewer would cost as much."""
        return self._gather(ends - _ROOM, _ROOM)

    def _gather(self, places: Ints, size: int) -> npt.NDArray[np.uint8]:
        windows = np.ndarray((len(self._view) - size + 1,), f"V{size}", self._view, strides=(1,))
        gathered: npt.NDArray[np.uint8] = windows[places].view(np.uint8).reshape(len(places), size)
        return gathered

    def join(self, starts: Ints, ends: Ints) -> tuple[bytes, Ints]:
        """Return lines from `starts` to `ends` concatenated, and the position at which each then ends."""
        view, spans = self._view, zip((starts + PAD_BYTES).tolist(), (ends + (PAD_BYTES + 1)).tolist(), strict=True)
        return b"".join([view[start:end] for start, end in spans]), np.cumsum(ends + 1 - starts)

    def lines(self) -> tuple[Ints, Ints]:
        """Return the positions at which the lines of the block begin and end."""
        tiles = range(PAD_BYTES, self._end, _TILE_BYTES)
        ends = np.concatenate([self._line_ends(start, min(self._end, start + _TILE_BYTES)) for start in tiles])
        ends -= PAD_BYTES
        begins = np.empty_like(ends)
        begins[:1] = 0
        np.add(ends[:-1], 1, out=begins[1:])
        return begins, ends

    def _line_ends(self, start: int, end: int) -> Ints:
        """Return the positions of line ends in a tile; the few words of eight bytes that hold any are found first."""
        marks = self._marks
        np.equal(self._octets[start:end], _LINE_END, out=marks[: end - start])
        marks[end - start :] = False
        words = places_of(marks.view(np.uint64) != 0)
        inside = places_of(marks.view(np.uint64).take(words).view(bool))
        ends: Ints = words.take(inside >> 3)
        ends <<= 3
        ends += inside & 7
        ends += start
        return ends

    def training_lines(self, begins: Ints, ends: Ints) -> TrainingLines:
        """Return the plain training lines, each read from its end to its beginning."""
        ends = ends + PAD_BYTES
        returns = self._octets.take(ends - 1) == ord("\r")
        if returns.any():
            ends -= returns
        lines = places_of(self._octets.take(ends - (CLOCK_SIZE + 1)) == ord("="))
        fields = _Fields(self, ends[lines])
        clock = fields.clock()
        fields.name(_TIME)
        global_rate = fields.decimal(RATE_DECIMALS)
        fields.name(_GLOBAL)
        rate = fields.decimal(RATE_DECIMALS)
        fields.name(_RATE)
        loss = fields.decimal(LOSS_DECIMALS)
        fields.name(_LOSS)
        step = fields.integer()
        fields.name(_STEP)
        epoch, core = self._core(fields)
        device = fields.device()
        prefix = fields.places() - (begins[lines] + PAD_BYTES)
        good = fields.good
        good &= (prefix == 0) | ((prefix >= MOMENT + TAILS.start) & (prefix < MOMENT + TAILS.stop))
        training = TrainingLines(lines, prefix, core, device, epoch, step.number(), loss, rate, global_rate, clock)
        return training if good.all() else training.part(good)

    def _core(self, fields: _Fields) -> tuple[Ints, Ints]:
        """Return epoch (-1 for none) and ordinal, the fields before the step; not all lines name an epoch."""
        before = fields.integer()
        numbers = before.number()
        has_epoch = fields.ends_with(_EPOCH)
        if not has_epoch.any():
            fields.good &= before.length <= _MOST_ORDINAL
            return np.full(len(numbers), -1, np.int64), numbers
        if has_epoch.all():
            fields.skip(len(_EPOCH))
            core = fields.integer()
            fields.good &= core.length <= _MOST_ORDINAL
            return numbers, core.number()
        fields.skip(np.where(has_epoch, len(_EPOCH), 0))
        core = fields.integer(has_epoch)
        fields.good &= np.where(has_epoch, core.length, before.length) <= _MOST_ORDINAL
        return np.where(has_epoch, numbers, -1), np.where(has_epoch, core.number(), numbers)


class _Fields:
    """Reads the fields of many lines from the last to the first, and notes which lines are valid in all of them.

    Bytes are gathered again only after a field whose length differs between lines, or when all have been read.
    """

    def __init__(self, scanner: Scanner, places: Ints) -> None:
        self._scanner = scanner
        self._places = places
        """The position at which the gathered bytes of each line end."""
        self._passed = 0
        """The number of gathered bytes that have been read, the same for all lines."""
        self._chunk: npt.NDArray[np.uint8] | None = None
        self.good: Bools = np.ones(len(places), bool)

    def places(self) -> Ints:
        """Return the position down to which each line has been read."""
        return self._places - self._passed if self._passed else self._places

    def skip(self, length: Ints | int) -> None:
        """Pass over bytes that have been read: one number for all lines, or one for each."""
        if isinstance(length, int):
            self._passed += length
        else:
            self._places, self._passed, self._chunk = self.places() - length, 0, None

    def name(self, name: bytes) -> None:
        """Require the name of a field (of twelve bytes, or fewer than eight)."""
        if len(name) < _WORD:
            self.good &= self.ends_with(name)
        else:
            self.good &= self._words() == word_of(name[-_WORD:])
            self.good &= self._words(len(name) - _WORD) == word_of(name[:_WORD])
        self.skip(len(name))

    def ends_with(self, name: bytes) -> Bools:
        """Return which lines have this name next (of fewer than eight bytes)."""
        matches: Bools = self._words() & LAST[len(name)] == word_of(name.rjust(_WORD, b"\0"))
        return matches

    def integer(self, wanted: Bools | None = None) -> DigitField:
        """Read integers of one to eight digits, in the `wanted` lines only."""
        field = field_of(self._words(), DIGITS)
        has_digits = field.length > 0
        self.good &= has_digits if wanted is None else has_digits | ~wanted
        self.skip(field.length if wanted is None else np.where(wanted, field.length, 0))
        return field

    def decimal(self, decimals: int) -> Decimals:
        """Read numbers of at most eight characters with this many decimals."""
        field = field_of(self._words(), _POINTED[decimals])
        self.good &= field.length >= decimals + len("0.")
        self.skip(field.length)
        return Decimals(field.digits, decimals)

    def clock(self) -> npt.NDArray[np.bytes_]:
        """Read clocks."""
        words = self._words()
        pattern, above = CLOCK
        self.good &= strange_bytes(words ^ pattern, above) == 0
        self.skip(CLOCK_SIZE)
        clock: npt.NDArray[np.bytes_] = words.copy().view(f"S{CLOCK_SIZE}")
        return clock

    def device(self) -> Ints:
        """Read the device before an ordinal (one or two digits), and the rest of the line's own text before it."""
        device, is_right = self._device(0, _ONE_DIGIT)
        device >>= np.uint64(48)
        length = LEAD + len("=xla:0/")
        if is_right.all():
            self.skip(length)
            return device.view(np.int64)
        longer, is_longer = self._device(1, _TWO_DIGITS)
        is_longer &= self._words() >> np.uint64(56) == ord("/")
        self.good &= is_right | is_longer
        longer >>= np.uint64(48)
        both = (longer & np.uint64(0xFF)) * TEN + (longer >> BYTE)
        self.skip(np.where(is_right, length, length + 1))
        return np.where(is_right, device, both).view(np.int64)

    def _device(self, after: int, expected: tuple[np.uint64, np.uint64]) -> tuple[Words, Bools]:
        """Return the xor-ed digits of devices whose text ends `after` bytes earlier, and which lines have one."""
        pattern, above = expected
        values: Words = self._words(after) ^ pattern
        is_right = strange_bytes(values, above) == 0
        is_right &= self._words(after + 8) == _DEVICE_2
        is_right &= self._words(after + 16) == _DEVICE_1
        return values, is_right

    def _words(self, after: int = 0) -> Words:
        """Return the last eight unread bytes before the last `after` ones."""
        if self._chunk is None or self._passed + after + _WORD > _ROOM:
            self._places, self._passed = self.places(), 0
            self._chunk = self._scanner.field_bytes(self._places)
        return words_at(self._chunk, _ROOM - _WORD - self._passed - after)
