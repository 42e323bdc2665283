"""PyTorch/XLA's training line, a block at a time: numpy finds the fields and turns their digits into numbers.

Eight bytes are gathered as one 64-bit word, so that each check and each conversion is done for every line of a block
at once ("SIMD within a register"). Only lines that are exactly of the common shape are taken, with or without
xla_dist's full prefix; all others (nan, odd numbers, glued or torn lines) are left to the pattern, so that both ways
give the same.
"""

from __future__ import annotations

from dataclasses import dataclass

from tui.logs.arrays import np, npt, places_of
from tui.logs.digits import (
    BYTE,
    DIGITS,
    FIRST,
    LAST,
    TEN,
    Bools,
    Field,
    Ints,
    Words,
    expected,
    field_of,
    strange_bytes,
    word_of,
)

Bytes = bytes | bytearray

LEAD = len("| Training Device")
"""Bytes from where the line's own text begins to its first `=`."""

MOMENT = len("2020-08-06 02:38:57 ")
CLOCK = len("02:38:57")
LOSS_DECIMALS, RATE_DECIMALS = 5, 2

TAILS = range(len("1.1.1.1 [0] "), len("255.255.255.255 [12345] ") + 1)
"""Lengths that address and number can have in a prefix."""

_PAD = 192
"""Blank bytes before and after a block, so that no gathering leaves it: no plain line's own text is longer."""

_NAME_ROOM = 32
"""Bytes gathered before a field's value: its name, and the value of the field before."""

_DEVICE_1, _DEVICE_2 = word_of(b"| Traini"), word_of(b"ng Devic")
_EPOCH, _STEP, _LOSS, _RATE, _TIME = b" Epoch=", b" Step=", b" Loss=", b" Rate=", b" Time="
_GLOBAL = b" GlobalRate="
_GLOBAL_1, _GLOBAL_2 = word_of(_GLOBAL[:8]), word_of(_GLOBAL[-8:])
_MOST_ORDINAL = 6
"""Digits that an ordinal can have."""

_CLOCK, _ABOVE_CLOCK = expected(b"00:00:00")
_ONE_DIGIT, _TWO_DIGITS = expected(b"e=xla:0/"), expected(b"e=xla:00")
_POINTED = {n: expected(b"0" * (7 - n) + b"." + b"0" * n) for n in (LOSS_DECIMALS, RATE_DECIMALS)}


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


class Heads:
    """The beginnings of lines: room for a prefix each."""

    def __init__(self, chunk: Chunk) -> None:
        self._chunk = chunk

    def tails(self, prefix: Ints) -> Words:
        """Address and number of each line's prefix of a length as three rows of words; zeros where there is none."""
        lengths = prefix - MOMENT
        found = np.empty((3, len(prefix)), np.uint64)
        for row, words in enumerate(found):
            mask = FIRST.take(lengths - 8 * row, mode="clip")
            np.bitwise_and(self._chunk.words(MOMENT + 8 * row), mask, out=words)
        return found

    def moments_change(self, dated: Ints | None) -> Ints:
        """Which of these lines (None: all) begin with another date and time than the one before them."""
        at = slice(None) if dated is None else dated
        late, early, middle = (self._chunk.words(offset)[at] for offset in (MOMENT - 8, 0, 8))
        differ = np.ones(len(late), bool)
        np.not_equal(late[1:], late[:-1], out=differ[1:])
        differ[1:] |= early[1:] != early[:-1]
        differ[1:] |= middle[1:] != middle[:-1]
        return places_of(differ)


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
        self._marks = np.empty(room, bool)
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
        return self._octets.take(places + _PAD)

    def heads(self, places: Ints) -> Heads:
        """The beginnings of lines, which are at these places."""
        return Heads(self._chunks.at(places + _PAD, 64))

    def joined(self, starts: Ints, ends: Ints) -> bytes:
        """These stretches of the block, one after the other."""
        spans = map(slice, (starts + _PAD).tolist(), (ends + _PAD).tolist())
        return b"".join(map(self._view.__getitem__, spans))

    def scan(self) -> Found:
        """Find the plain training lines of what was put in; the next `put` begins a new block."""
        end, self._filled = _PAD + self._filled, 0
        self._view[end : end + _PAD] = bytes(_PAD)
        octets, marks = self._octets[:end], self._marks[:end]
        np.equal(octets, ord("\n"), out=marks)
        ends = places_of(marks)
        starts = np.empty_like(ends)
        starts[:1] = _PAD
        np.add(ends[:-1], 1, out=starts[1:])
        found = self._read(starts, ends)
        found.ends = ends - _PAD
        found.begins = starts - _PAD
        found.starts -= _PAD
        return found

    def _read(self, begins: Ints, ends: Ints) -> Found:
        """Of all lines those that are plain training lines, read from their ends to their beginnings."""
        returns = self._octets.take(ends - 1) == ord("\r")
        if returns.any():
            ends = ends - returns
        lines = places_of(self._octets.take(ends - (CLOCK + 1)) == ord("="))
        begin, at = begins[lines], ends[lines]
        chunks, room = self._chunks, _NAME_ROOM
        check = _Check(len(lines))
        last = chunks.at(at - room, room)
        at -= CLOCK
        clock = check.clock(last.words(room - CLOCK))
        check.ends_with(last, _TIME, CLOCK)
        global_rate = check.decimal(last, len(_TIME) + CLOCK, RATE_DECIMALS)
        at -= global_rate.length
        at -= len(_TIME)
        chunk = chunks.at(at - room, room)
        check.is_same(chunk.words(room - 8), _GLOBAL_2)
        check.is_same(chunk.words(room - len(_GLOBAL)), _GLOBAL_1)
        rate = check.decimal(chunk, len(_GLOBAL), RATE_DECIMALS)
        at -= rate.length
        at -= len(_GLOBAL)
        chunk = chunks.at(at - room, room)
        check.ends_with(chunk, _RATE)
        loss = check.decimal(chunk, len(_RATE), LOSS_DECIMALS)
        at -= loss.length
        at -= len(_RATE)
        chunk = chunks.at(at - room, room)
        check.ends_with(chunk, _LOSS)
        step = check.integer(chunk, len(_LOSS))
        at -= step.length
        at -= len(_LOSS)
        chunk = chunks.at(at - room, room)
        check.ends_with(chunk, _STEP)
        epoch, core, chunk, text_at = self._core(check, chunk, at)
        device, is_short = check.device(chunk)
        text_at -= LEAD + len("=xla:0/")
        if is_short is not None:
            text_at -= ~is_short
        prefix = text_at - begin
        check.good &= (prefix == 0) | ((prefix >= MOMENT + TAILS.start) & (prefix < MOMENT + TAILS.stop))
        found = Found(
            *(_NONE, _NONE, lines, begin, prefix),
            core=core,
            device=device,
            epoch=epoch,
            step=step.number(),
            loss=loss.digits,
            rate=rate.digits,
            global_rate=global_rate.digits,
            clock=clock,
        )
        return found if check.good.all() else found.part(check.good)

    def _core(self, check: _Check, chunk: Chunk, at: Ints) -> tuple[Ints, Ints, Chunk, Ints]:
        """Epoch (-1 none) and ordinal before the step, and where the ordinal begins with what is before it.

        What is before the step is the epoch where its name is before that, else the ordinal.
        """
        before = check.integer(chunk, len(_STEP))
        at = at - before.length
        at -= len(_STEP)
        chunk = self._chunks.at(at - _NAME_ROOM, _NAME_ROOM)
        has_epoch = _ends_with(chunk, _EPOCH, 0)
        if not has_epoch.any():
            check.good &= before.length <= _MOST_ORDINAL
            return np.full(len(at), -1, np.int64), before.number(), chunk, at
        every = bool(has_epoch.all())
        core = check.integer(chunk, len(_EPOCH), None if every else has_epoch)
        further = core.length + len(_EPOCH)
        at -= further if every else np.where(has_epoch, further, 0)
        chunk = self._chunks.at(at - _NAME_ROOM, _NAME_ROOM)
        numbers, ordinals = before.number(), core.number()
        if every:
            check.good &= core.length <= _MOST_ORDINAL
            return numbers, ordinals, chunk, at
        check.good &= np.where(has_epoch, core.length, before.length) <= _MOST_ORDINAL
        return np.where(has_epoch, numbers, -1), np.where(has_epoch, ordinals, numbers), chunk, at


def scan(block: bytes) -> Found:
    """Find the plain training lines of a block that begins at a line's start and ends at a line's end."""
    scanner = Scanner(len(block))
    scanner.put(block, 0, len(block))
    return scanner.scan()


class _Check:
    """Takes fields of lines as digits, and gathers which lines are right in all of them."""

    def __init__(self, size: int) -> None:
        self.good: Bools = np.ones(size, bool)

    def is_same(self, words: Words, text: np.uint64) -> None:
        """Require a text of eight bytes."""
        self.good &= words == text

    def ends_with(self, chunk: Chunk, name: bytes, after: int = 0) -> None:
        """Require a field's name (of less than eight bytes), so many bytes before the end of a chunk."""
        self.good &= _ends_with(chunk, name, after)

    def integer(self, chunk: Chunk, after: int, asked: Bools | None = None) -> Field:
        """Integers of one to eight digits, so many bytes before the end of a chunk; of the lines asked for."""
        field = field_of(chunk.words(_NAME_ROOM - 8 - after), DIGITS)
        there = field.length > 0
        self.good &= there if asked is None else there | ~asked
        return field

    def decimal(self, chunk: Chunk, after: int, decimals: int) -> Field:
        """Numbers of at most eight characters with so many decimals; their digits hold a zero for the point."""
        field = field_of(chunk.words(_NAME_ROOM - 8 - after), _POINTED[decimals])
        self.good &= field.length >= decimals + len("0.")
        return field

    def clock(self, words: Words) -> Words:
        """The eight bytes of clocks."""
        self.good &= strange_bytes(words ^ _CLOCK, _ABOVE_CLOCK) == 0
        clock: Words = words.copy()
        return clock

    def device(self, chunk: Chunk) -> tuple[Ints, Bools | None]:
        """The device before an ordinal, of one or two digits; and which have one (None: all)."""
        end = _NAME_ROOM
        device, is_right = _device(chunk, end - 8, _ONE_DIGIT)
        device >>= np.uint64(48)
        if is_right.all():
            return device.view(np.int64), None
        longer, is_longer = _device(chunk, end - 9, _TWO_DIGITS)
        is_longer &= chunk.octets(end - 1) == ord("/")
        self.good &= is_right | is_longer
        longer >>= np.uint64(48)
        both = (longer & np.uint64(0xFF)) * TEN + (longer >> BYTE)
        return np.where(is_right, device, both).view(np.int64), is_right


def _ends_with(chunk: Chunk, name: bytes, after: int) -> Bools:
    words = chunk.words(_NAME_ROOM - 8 - after)
    found: Bools = words & LAST[len(name)] == word_of(name.rjust(8, b"\0"))
    return found


def _device(chunk: Chunk, place: int, expected: tuple[np.uint64, np.uint64]) -> tuple[Words, Bools]:
    """The digits of devices whose text ends eight bytes after a place, xor-ed, and which lines have one."""
    pattern, above = expected
    values: Words = chunk.words(place) ^ pattern
    is_right = strange_bytes(values, above) == 0
    is_right &= chunk.words(place - 8) == _DEVICE_2
    is_right &= chunk.words(place - 16) == _DEVICE_1
    return values, is_right
