"""Whole blocks of logs at once: plain training lines and plain noise by numpy, the rest line by line, in order."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tui.logs.arrays import np, npt
from tui.logs.dialects import TRAINING
from tui.logs.fast import MOMENT, TAILS, Bytes, Found, Scanner, Words
from tui.logs.prefix import PREFIX, read_moment
from tui.logs.snapshot import LOG_TIME, NO_TIME, WALL_TIME
from tui.logs.streams import LONGEST, Stream
from tui.logs.table import ALL_KNOWN, CLOCK_BYTES, Bools, Floats, Ints, Samples

if TYPE_CHECKING:
    from tui.logs.demux import Demux

BLOCK = 1024 * 1024
"""Bytes looked at together: what fits the caches, with room for the columns made of it."""

LEAST = 2048
"""Shorter blocks are read line by line, which then costs less."""

FIRST = 16 * 1024
"""Bytes looked at together while no prefix of the stream is known: lines with a new one are read one by one."""

_FEW_LINES = 12
"""So many other lines are read one by one at once."""

_MOST_LEARNED = 256
"""Prefixes learned from one block."""

_MOMENT = re.compile(rb"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d ")
_TAIL_PLACES = np.arange(MOMENT + TAILS.start - 2, MOMENT + TAILS.stop - 2)
"""Where the bracket that closes a prefix can stand, from a line's beginning."""

_ESCAPE = b"\x1b"


@dataclass(frozen=True, slots=True)
class Part:
    """Bytes of one stream from a line's start to a line's end, and when they came."""

    stream: Stream
    data: Bytes
    start: int
    end: int
    now: float | None


class Batch:
    """Blocks of any number of streams that are looked at together."""

    def __init__(self, demux: Demux) -> None:
        self._demux = demux
        self._parts: list[Part] = []
        self._size = 0

    @staticmethod
    def room_for(stream: Stream) -> int:
        """Bytes of a stream that are best added next."""
        return BLOCK if stream.slot is not None else min(BLOCK, FIRST + stream.looked_at)

    def add(self, part: Part) -> None:
        """Add whole lines; what is full is read."""
        size = part.end - part.start
        mixed = self._parts and (self._parts[-1].now is None) != (part.now is None)
        if mixed or self._size + size > BLOCK:
            self.flush()
        self._parts.append(part)
        self._size += size
        part.stream.looked_at += size
        if self._size >= BLOCK // 2 or part.stream.slot is None:
            self.flush()

    def flush(self) -> None:
        """Read all that was added."""
        parts, size = self._parts, self._size
        self._parts, self._size = [], 0
        if size < LEAST or not self._demux.fast:
            for part in parts:
                for line in bytes(part.data[part.start : part.end - 1]).split(b"\n"):
                    self._demux.read_line(part.stream, line, part.now)
        else:
            _Reading(self._demux, parts).read()


class _Reading:
    """One look at a batch."""

    def __init__(self, demux: Demux, parts: list[Part]) -> None:
        self.demux = demux
        self.parts = parts
        if demux.scanner is None or demux.scanner.size < BLOCK:
            demux.scanner = Scanner(BLOCK)
        self.scanner = demux.scanner
        for part in parts:
            self.scanner.put(part.data, part.start, part.end)
        self.is_wall = parts[0].now is not None
        self.nows = np.array([np.nan if part.now is None else part.now for part in parts])
        self._bounds = np.cumsum([part.end - part.start for part in parts])
        self._news: list[tuple[Ints, Ints, Words]] = []

    def read(self) -> None:
        """Take in the batch."""
        demux = self.demux
        found = self.scanner.scan()
        owners = self._owners(found.starts)
        slots = self._slots(owners, found.prefix, found.tail)
        dates, good = self._dates(found.starts, found.prefix, found.moment)
        good &= slots >= 0
        unknown = (found.prefix > 0) & (slots < 0)
        self._news.append((found.starts[unknown], found.prefix[unknown], found.tail[unknown]))
        if not good.all():
            found, slots, dates, owners = found.part(good), slots[good], dates[good], owners[good]
        demux.queue.begin(self._samples(found, slots, dates, owners), found.lines)
        demux.samples += len(slots)
        if len(slots):
            demux.matched[TRAINING.name] = demux.matched.get(TRAINING.name, 0) + len(slots)
        self._count(slots, dates, owners, samples=1)
        others = np.ones(len(found.ends), bool)
        others[found.lines] = False
        self._others(np.flatnonzero(others), found)
        demux.queue.end()
        for news in self._news:
            self._learn(*news)

    def _owners(self, starts: Ints) -> Ints:
        """The part that each line belongs to."""
        if len(self.parts) == 1:
            return np.zeros(len(starts), np.int64)
        return np.searchsorted(self._bounds, starts, side="right")

    def _slots(self, owners: Ints, prefix: Ints, tail: Words) -> Ints:
        """The slot of each line; -1 where the prefix is none, or was not seen before."""
        bare = prefix == 0
        some_bare = bool(bare.any())
        homes = [part.stream.slot for part in self.parts]
        named = [
            self.demux.slot_of(self.parts[n].stream) if h is None and some_bare else h for n, h in enumerate(homes)
        ]
        slots = np.array([-1 if slot is None else slot for slot in named], np.int64)[owners]
        prefixed = np.flatnonzero(~bare)
        if not len(prefixed):
            return slots
        of = owners[prefixed]
        for place in np.flatnonzero(np.bincount(of)).tolist():
            mine = prefixed if len(self.parts) == 1 else prefixed[of == place]
            slots[mine] = self.parts[place].stream.known.find(tail[mine])
        return slots

    def _dates(self, starts: Ints, prefix: Ints, words: Words) -> tuple[Floats, Bools]:
        """The date of each line's prefix (NaN none), and which lines' beginnings are bare or a prefix's."""
        dates, good = np.full(len(starts), np.nan), np.ones(len(starts), bool)
        dated = np.flatnonzero(prefix)
        if not len(dated):
            return dates, good
        whole = len(dated) == len(starts)
        first, second, third = (words if whole else words[dated]).T
        differ = (first[1:] != first[:-1]) | (second[1:] != second[:-1]) | (third[1:] != third[:-1])
        changes = np.concatenate(([0], np.flatnonzero(differ) + 1))
        values, fine = [], []
        for start in starts[dated[changes]].tolist():
            text = self.scanner.text(start, start + MOMENT)
            is_prefix = _MOMENT.fullmatch(text) is not None
            value = read_moment(text[:-1]) if is_prefix else None
            values.append(np.nan if value is None else value)
            fine.append(is_prefix)
        sizes = np.diff(np.concatenate((changes, [len(dated)])))
        dates[dated], good[dated] = np.repeat(values, sizes), np.repeat(fine, sizes)
        return dates, good

    def _samples(self, found: Found, slots: Ints, dates: Floats, owners: Ints) -> Samples:
        size = len(found)
        if self.is_wall:
            time, kind = self.nows[owners], np.full(size, WALL_TIME, np.uint8)
        else:
            time, kind = dates, np.where(np.isnan(dates), NO_TIME, LOG_TIME).astype(np.uint8)
        clock = np.zeros(size, f"S{CLOCK_BYTES}")
        clock.view(np.uint64).reshape(size, CLOCK_BYTES // 8)[:, 0] = found.clock
        return Samples(
            slot=slots,
            core=found.core,
            device=found.device,
            epoch=found.epoch,
            step=found.step,
            loss=found.loss,
            rate=found.rate,
            global_rate=found.global_rate,
            known=np.full(size, ALL_KNOWN, np.uint8),
            clock=clock,
            time=time,
            time_kind=kind,
            seen=self.nows[owners],
        )

    def _count(self, slots: Ints, dates: Floats, owners: Ints, *, samples: int) -> None:
        """What `Demux` counts of every line, and of samples that are lines."""
        if not len(slots):
            return
        demux = self.demux
        demux.lines += len(slots)
        dated = dates[~np.isnan(dates)]
        if len(dated):
            demux.note_moments(float(dated.min()), float(dated.max()))
        counts = np.bincount(slots)
        newest = np.full(len(counts), np.nan)
        if self.is_wall or len(dated):
            np.fmax.at(newest, slots, self.nows[owners] if self.is_wall else dates)
        for slot in np.flatnonzero(counts).tolist():
            count = int(counts[slot])
            demux.slots[slot].count(count, samples * count, float(newest[slot]), self.is_wall)

    def _others(self, lines: Ints, found: Found) -> None:
        """Read all other lines: those that can tell nothing together, then the rest in their order."""
        starts, ends = found.begins[lines], found.ends[lines]
        owners = self._owners(starts)
        left = np.arange(len(lines))
        if len(lines) > _FEW_LINES and self.demux.hints is not None:
            left = self._noise(starts, ends, owners)
        for place in left.tolist():
            self.demux.queue.line = int(lines[place])
            part = self.parts[owners[place]]
            self.demux.read_line(part.stream, self.scanner.text(int(starts[place]), int(ends[place])), part.now)

    def _noise(self, starts: Ints, ends: Ints, owners: Ints) -> Ints:
        """Count lines of a known worker that no dialect can match; the others are handed back."""
        scanner = self.scanner
        first, second = scanner.octets(starts), scanner.octets(starts + 1)
        odd = (first == ord("\r")) | (ends - starts > LONGEST)
        odd |= (first == ord("[")) & (second >= ord("0")) & (second <= ord("9"))
        quiet = np.flatnonzero(~odd)
        spans = zip(starts[quiet].tolist(), ends[quiet].tolist(), strict=True)
        texts = [scanner.text(start, end) for start, end in spans]
        told = np.ones(len(texts), bool)
        told[_holding(texts, (*(self.demux.hints or ()), _ESCAPE))] = False
        prefix, tails, is_none = self._prefixes(starts[quiet], ends[quiet], first[quiet], texts)
        told &= (prefix > 0) | is_none
        quiet, prefix, tails = quiet[told], prefix[told], tails[told]
        slots = self._slots(owners[quiet], prefix, tails)
        dates, good = self._dates(starts[quiet], prefix, scanner.moments(starts[quiet], prefix))
        unknown = quiet[slots < 0]
        self._news.append((starts[unknown], prefix[slots < 0], tails[slots < 0]))
        good &= slots >= 0
        self._count(slots[good], dates[good], owners[quiet][good], samples=0)
        left = np.ones(len(starts), bool)
        left[quiet[good]] = False
        return np.flatnonzero(left)

    def _prefixes(
        self, starts: Ints, ends: Ints, first: npt.NDArray[np.uint8], texts: list[bytes]
    ) -> tuple[Ints, Words, Bools]:
        """How long the prefix of each line could be, its address and number; and which lines surely have none."""
        dated = (first >= ord("0")) & (first <= ord("9"))
        closing = self.scanner.octets(starts[:, None] + _TAIL_PLACES) == ord("]")
        prefix = np.where(dated, _TAIL_PLACES[np.argmax(closing, axis=1)] + 2, 0)
        prefix[~closing.any(axis=1) | (prefix > ends - starts)] = 0
        is_none = ~dated
        for place in np.flatnonzero(dated & (prefix == 0)).tolist():
            is_none[place] = PREFIX.match(texts[place]) is None
        return prefix, self.scanner.tails(starts + prefix, prefix - MOMENT), is_none

    def _learn(self, starts: Ints, prefix: Ints, tails: Words) -> None:
        """Note the prefixes of lines that have been read one by one because of them."""
        left = np.arange(len(starts))
        for _ in range(_MOST_LEARNED):
            if not len(left):
                return
            place = int(left[0])
            start = int(starts[place])
            text = self.scanner.text(start, start + int(prefix[place]))
            whole, tail_only = PREFIX.fullmatch(text), PREFIX.fullmatch(text[MOMENT:])
            if tail_only is not None and (whole is None or whole["moment"] is None):
                left = left[1:]
                continue
            stream = self.parts[int(self._owners(starts[place : place + 1])[0])].stream
            slot = -1
            if whole is not None and whole["address"] is not None:
                number, address = int(whole["number"]), whole["address"].decode()
                slot = self.demux.slot_named(number, address) if stream.slot is None else stream.slot
            stream.known.add(tails[place], slot)
            left = left[(tails[left] != tails[place]).any(axis=1)]


def _holding(texts: list[bytes], parts: tuple[bytes, ...]) -> Ints:
    """The places of texts that hold any of some parts."""
    joined = b"\n".join(texts)
    hits: list[int] = []
    for part in parts:
        place = joined.find(part)
        while place >= 0:
            hits.append(place)
            after = joined.find(b"\n", place)
            place = joined.find(part, after) if after >= 0 else -1
    if not hits:
        return np.zeros(0, np.int64)
    ends = np.cumsum([len(text) + 1 for text in texts])
    return np.searchsorted(ends, np.array(hits), side="right").astype(np.int64)
