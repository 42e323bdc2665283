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
LOSS_DECIMALS, RATE_DECIMALS = 5, 2

TAILS = range(len("1.1.1.1 [0] "), len("255.255.255.255 [12345] ") + 1)
"""Lengths that address and number can have in a prefix."""

_PAD = 64
"""Blank bytes before and after a block, so that no gathering leaves it."""

_ALL = 0xFFFF_FFFF_FFFF_FFFF
_HIGH_BITS = np.uint64(0x8080_8080_8080_8080)
_LAST = np.array([0, *(_ALL << (8 * (8 - n)) & _ALL for n in range(1, 9))], np.uint64)
"""Masks that keep the last n bytes in memory of a word (its high ones: words are little-endian)."""


def _word(text: bytes) -> np.uint64:
    word: np.uint64 = np.uint64(int.from_bytes(text, "little"))
    return word


_DEVICE_1, _DEVICE_2 = _word(b" Trainin"), _word(b"g Device")
_EPOCH, _STEP, _LOSS, _RATE, _GLOBAL, _TIME = b" Epoch", b" Step", b" Loss", b" Rate", b" GlobalRate", b" Time"
_GLOBAL_1, _GLOBAL_2 = _word(_GLOBAL[:8]), _word(_GLOBAL[-8:])
_XLA = _word(b"xla:")
_LOW_HALF, _FIRST_SIX = np.uint64(0xFFFF_FFFF), np.uint64(0xFFFF_FFFF_FFFF)


def _expected(text: bytes) -> tuple[np.uint64, np.uint64]:
    """What a word is xor-ed with and what is then added, so that high bits tell bytes that are wrong.

    A `0` in the text stands for any digit, all else for itself.
    """
    return _word(text), _word(bytes(0x76 if byte == ord("0") else 0x7F for byte in text))


_DIGITS = _expected(b"00000000")
_CLOCK, _ABOVE_CLOCK = _expected(b"00:00:00")
_XLA_1, _ABOVE_XLA_1 = _expected(b"xla:0/00")
_POINTED = {n: _expected(b"0" * (7 - n) + b"." + b"0" * n) for n in (LOSS_DECIMALS, RATE_DECIMALS)}


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
    core: Ints
    device: Ints
    epoch: Ints
    step: Ints
    loss: Words
    """Its digits, a byte each: `LOSS_DECIMALS` of them after the point. See `decimal`."""
    rate: Words
    """Likewise, with `RATE_DECIMALS`."""
    global_rate: Words
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


class Chunk:
    """A stretch of bytes from each of many places."""

    def __init__(self, data: npt.NDArray[np.void]) -> None:
        self._bytes: npt.NDArray[np.uint8] = data.view(np.uint8).reshape(len(data), data.itemsize)

    def words(self, offset: int) -> Words:
        """The eight bytes at an offset in each stretch, as a view."""
        words: Words = self._bytes[:, offset : offset + 8].view("<u8")[:, 0]
        return words

    def octets(self, offset: int) -> npt.NDArray[np.uint8]:
        """The byte at an offset in each stretch, as a view."""
        return self._bytes[:, offset]


class _Chunks:
    """Gathers stretches of a buffer: 64 bytes at once cost no more than 8."""

    def __init__(self, view: memoryview) -> None:
        self._every = {size: np.ndarray((len(view) - size + 1,), f"V{size}", view, strides=(1,)) for size in (32, 64)}

    def at(self, places: Ints, size: int) -> Chunk:
        """So many (32 or 64) bytes from each place."""
        return Chunk(self._every[size][places])


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
        self._chunks = _Chunks(self._view)
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
        """The last bytes (at most 24) before each place as three rows of words, zeros before what belongs to it."""
        chunks = self._chunks.at(places + (_PAD - 24), 32)
        found = np.empty((3, len(places)), np.uint64)
        for row, words in enumerate(found):
            mask = _LAST.take(lengths - 8 * row, mode="clip")
            np.bitwise_and(chunks.words(16 - 8 * row), mask, out=words)
        return found

    def moments_change(self, places: Ints) -> Ints:
        """Which of these lines (their first bytes are given) begin with another date and time than the one before."""
        differ = np.ones(len(places), bool)
        differ[1:] = False
        chunks = self._chunks.at(places + _PAD, 32)
        for offset in (MOMENT - 8, 8, 0):
            words = chunks.words(offset)
            differ[1:] |= words[1:] != words[:-1]
        return np.flatnonzero(differ)

    def joined(self, starts: Ints, ends: Ints) -> bytes:
        """These stretches of the block, one after the other."""
        view = self._view
        spans = zip((starts + _PAD).tolist(), (ends + _PAD).tolist(), strict=True)
        return b"".join([view[start:end] for start, end in spans])

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
                groups.append(self._read(at, starts[chosen], ends[chosen], chosen))
        found = groups[0] if len(groups) == 1 else _joined(groups)
        found.ends = ends - _PAD
        found.begins = starts - _PAD
        found.starts -= _PAD
        return found

    def _read(self, at: list[Ints], begin: Ints, end: Ints, lines: Ints) -> Found:
        """Of lines with so many `=` (seven with an epoch, six without) those that are plain training lines."""
        chunks = self._chunks
        text_at = at[0] - LEAD
        prefix = text_at - begin
        good: Bools = (prefix == 0) | ((prefix >= MOMENT + TAILS.start) & (prefix < MOMENT + TAILS.stop))
        after = end - at[-1]
        if not (after == 9).all():
            good &= (after == 9) | ((after == 10) & (self._octets[end - 1] == ord("\r")))
        if not good.all():
            kept = np.flatnonzero(good)
            lines, begin, prefix, text_at = lines[kept], begin[kept], prefix[kept], text_at[kept]
            at = [place[kept] for place in at]
        check = _Check(len(lines))
        first = chunks.at(text_at, 32)
        check.is_same(first.words(1), _DEVICE_1)
        check.is_same(first.words(9), _DEVICE_2)
        step_at, loss_at, rate_at, global_at, time_at = at[-5:]
        # What is before each `=`: the value of the field before, then the name.
        before_step, before_loss, before_rate, before_global = (
            chunks.at(place - 32, 32) for place in (step_at, loss_at, rate_at, global_at)
        )
        last = chunks.at(time_at - 32, 64)
        check.ends_with(before_step, _STEP)
        check.ends_with(before_loss, _LOSS)
        check.ends_with(before_rate, _RATE)
        check.is_same(before_global.words(24), _GLOBAL_2)
        check.is_same(before_global.words(21), _GLOBAL_1)
        check.ends_with(last, _TIME)
        before_second, second = before_step, _STEP
        epoch = np.full(len(lines), -1, np.int64)
        if len(at) == 7:
            before_second, second = chunks.at(at[1] - 32, 32), _EPOCH
            check.ends_with(before_second, _EPOCH)
            epoch = check.integer(before_step, _STEP, step_at - at[1])
        device, core = check.device(first, before_second, second, at[1] - at[0])
        found = Found(
            _NONE,
            _NONE,
            lines,
            begin,
            prefix,
            core=core,
            device=device,
            epoch=epoch,
            step=check.integer(before_loss, _LOSS, loss_at - step_at),
            loss=check.decimal(before_rate, _RATE, rate_at - loss_at, LOSS_DECIMALS),
            rate=check.decimal(before_global, _GLOBAL, global_at - rate_at, RATE_DECIMALS),
            global_rate=check.decimal(last, _TIME, time_at - global_at, RATE_DECIMALS),
            clock=check.clock(last.words(33)),
        )
        good = check.passed(first.octets(0) == ord("|"))
        return found if good.all() else found.part(good)


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


class _Check:
    """Takes fields of lines as digits, and gathers which lines are right in all of them.

    A field's bytes are xor-ed with what they should be, 0 for each digit: what is then above 9 (above 0 where only
    one byte is right) shows in the high bit once the complement is added.
    """

    def __init__(self, size: int) -> None:
        self._good: Bools = np.ones(size, bool)
        self._wrong = np.zeros(size, np.uint64)

    def passed(self, good: Bools) -> Bools:
        """Which lines are right, out of those that are otherwise good."""
        good &= self._good
        good &= self._wrong & _HIGH_BITS == 0
        return good

    def is_same(self, words: Words, text: np.uint64) -> None:
        """Require a text of eight bytes."""
        self._good &= words == text

    def ends_with(self, chunk: Chunk, name: bytes) -> None:
        """Require a field's name (of less than eight bytes) right before the place a chunk was taken for."""
        self._good &= chunk.words(24) & _LAST[len(name)] == _word(name.rjust(8, b"\0"))

    def _field(self, words: Words, length: Ints, expected: tuple[np.uint64, np.uint64]) -> Words:
        pattern, above = expected
        values = words ^ pattern
        values &= _LAST.take(length, mode="clip")
        sums = values + above
        sums |= values
        self._wrong |= sums
        return values

    def integer(self, chunk: Chunk, name: bytes, room: Ints, extra: int = 0, longest: int = 8) -> Ints:
        """Integers of one to `longest` (at most eight) digits before a field's name.

        `room` is how far apart the two `=` are that these lie between, `extra` the other bytes there.
        """
        length = room - (len(name) + 1 + extra)
        self._good &= (length - 1).view(np.uint64) < longest
        return eight_digits(self._field(chunk.words(24 - len(name)), length, _DIGITS)).view(np.int64)

    def decimal(self, chunk: Chunk, name: bytes, room: Ints, decimals: int) -> Words:
        """The digits and the (zero) point of numbers of at most eight characters with so many decimals."""
        length = room - (len(name) + 1)
        shortest = decimals + len("0.")
        self._good &= (length - shortest).view(np.uint64) <= 8 - shortest
        return self._field(chunk.words(24 - len(name)), length, _POINTED[decimals])

    def clock(self, words: Words) -> Words:
        """The eight bytes of clocks."""
        values = words ^ _CLOCK
        self._wrong |= (values + _ABOVE_CLOCK) | values
        clock: Words = words.copy()
        return clock

    def device(self, first: Chunk, chunk: Chunk, name: bytes, room: Ints) -> tuple[Ints, Ints]:
        """Device and ordinal of `xla:0/14`, for devices of one or two digits and ordinals of up to six."""
        words = first.words(LEAD + 1)
        short = (words ^ _XLA_1) & _FIRST_SIX
        if (((short + _ABOVE_XLA_1) | short) & _HIGH_BITS == 0).all():
            core = self.integer(chunk, name, room, extra=len("xla:0/"), longest=6)
            return (short >> np.uint64(32)).view(np.int64), core
        slash, eight = np.uint64(ord("/")), np.uint64(0xFF)
        one = (words >> np.uint64(40)) & eight == slash
        two = (words >> np.uint64(48)) & eight == slash
        self._good &= (words & _LOW_HALF == _XLA) & (one | two)
        tens = ((words >> np.uint64(32)) & eight).astype(np.int64) - ord("0")
        ones = ((words >> np.uint64(40)) & eight).astype(np.int64) - ord("0")
        self._good &= (tens >= 0) & (tens <= 9) & (one | ((ones >= 0) & (ones <= 9)))
        core = self.integer(chunk, name, room - np.where(one, 0, 1), extra=len("xla:0/"), longest=6)
        return np.where(one, tens, tens * 10 + ones), core


def eight_digits(values: Words) -> Words:
    """The number that eight decimal digits (0 to 9 a byte) in a word stand for, the first in memory the highest."""
    values = values * np.uint64(10) + (values >> np.uint64(8))
    pairs = np.uint64(0x0000_00FF_0000_00FF)
    low = (values & pairs) * np.uint64(0x000F_4240_0000_0064)
    high = ((values >> np.uint64(16)) & pairs) * np.uint64(0x0000_2710_0000_0001)
    number: Words = (low + high) >> np.uint64(32)
    return number


def decimal(digits: Words, decimals: int) -> Floats:
    """The numbers that digits with a zero for the point, as `Found` has them, stand for."""
    whole = (digits & np.uint64((1 << 8 * (7 - decimals)) - 1)) << np.uint64(8)
    return eight_digits((digits & _LAST[decimals]) | whole).astype(np.float64) / 10.0**decimals
