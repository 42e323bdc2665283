"""The demultiplexer: bytes of any number of workers in, every core's sorted state out. Pure: no files, no clock."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from tui.logs import bulk, view
from tui.logs.bars import Bars
from tui.logs.batches import Queue
from tui.logs.carriers import label_of, read_carrier
from tui.logs.dialects import BUILT_IN, COLUMNS, LONGEST, TRAINING, Dialect, Kind
from tui.logs.epochs import EpochBook, read_cluster, read_span
from tui.logs.fast import Bytes
from tui.logs.lines import without_escapes
from tui.logs.noise import Signs
from tui.logs.prefix import PREFIX, Prefix, read_dated_clock, read_prefix
from tui.logs.sections import Sections
from tui.logs.snapshot import (
    HAS_GLOBAL_RATE,
    HAS_LOSS,
    HAS_RATE,
    LOG_TIME,
    NO_TIME,
    UNKNOWN,
    WALL_TIME,
    Snapshot,
)
from tui.logs.streams import Stream
from tui.logs.table import CLOCK_BYTES, CoreTable

__all__ = ["MOST_SLOTS", "Demux", "Slot", "Snapshot"]

MOST_SLOTS = 8192
"""Workers kept apart at most: four times those of the largest pod."""

_GLUED_WITHIN = 512
"""Bytes before a sample in which a prefix glued into the line is looked for."""

_NAN = float("nan")


@dataclass(eq=False)
class Slot:
    """One worker as the stream tells it: its number, its address, what came from it."""

    number: int | None
    address: str | None
    lines: int = 0
    samples: int = 0
    last_seen: float = _NAN
    last_kind: int = NO_TIME
    ended: bool = False

    def count(self, lines: int, samples: int, seen: float, is_wall: bool) -> None:
        """Count lines and samples that came from it, the newest at `seen` (NaN: not known when)."""
        self.lines += lines
        self.samples += samples
        if seen == seen and not seen <= self.last_seen:
            self.last_seen = seen
            self.last_kind = WALL_TIME if is_wall else LOG_TIME


class Demux:
    """Takes bytes as they come, in any chunks, and knows the newest state of every core.

    `dialects` are tried in order, a user's own first; `addresses` gives those of known workers; `xla_dist` says that
    short prefixes may be trusted; without `history` no series are kept; without `fast` every line is read alone. The
    same bytes of each worker give the same samples however they were cut.
    """

    def __init__(
        self,
        *,
        dialects: Sequence[Dialect] = BUILT_IN,
        addresses: Mapping[int, str] | None = None,
        thresholds: Mapping[str, float] | None = None,
        history: bool = True,
        xla_dist: bool = False,
        fast: bool = True,
    ) -> None:
        self.table = CoreTable(history=history)
        self.slots: list[Slot] = []
        self.book = EpochBook()
        self.bars = Bars()
        self.sections: Sections | None = None
        """Of a saved log that is in sections, one for each host; it is read line by line."""
        self.facts: dict[str, Any] = {}
        self.matched: dict[str, int] = {}
        self.lines = self.bytes = self.samples = self.overlong = 0
        self.first_moment = self.last_moment = _NAN
        self.thresholds = view.Thresholds.from_settings(thresholds or {})
        self._addresses = dict(addresses or {})
        self._xla_dist = xla_dist
        self._dialects = tuple(dialects)
        self.hints = all_hints(self._dialects)
        """What a line holds that any dialect could match; None when that cannot be told."""
        self._streams: dict[int | None, Stream] = {}
        self._slot_numbers: dict[tuple[int | None, str | None], int] = {}
        self.queue = Queue(self.table)
        self.tally = bulk.Tally()
        self._batch = bulk.Batch(self)
        self._training = TRAINING in self._dialects
        self.fast = fast and self._training
        for worker in self._addresses:
            self._stream(worker)

    # -- bytes in

    def feed(self, worker: int | None, data: Bytes, now: float | None = None) -> None:
        """Take the next bytes of a worker's log, or of a saved log that holds many (`None`).

        Small chunks of many workers are gathered and read together, at the latest when a snapshot is taken. `now` is
        when they came, in UTC seconds; without it only the log's own dates are known.
        """
        stream = self._stream(worker)
        self.bytes += len(data)
        for block, start, end in stream.take(data):
            self._read(stream, block, start, end, now)

    def finish(self, now: float | None = None, *, worker: int | None = None) -> None:
        """No more bytes will come, of a worker or at all: look at last lines that have no line end."""
        self._batch.flush()
        for stream in [self._stream(worker)] if worker is not None else list(self._streams.values()):
            block = stream.rest()
            if block:
                self._read_lines(stream, block, now)
            stream.at_start = True
            stream.line_slot, stream.line_moment = stream.slot, None

    def end(self, worker: int) -> None:
        """The worker's process has ended, so its cores have."""
        stream = self._stream(worker)
        if stream.slot is not None:
            self.slots[stream.slot].ended = True

    def resume(self, worker: int) -> None:
        """The worker's process was started again."""
        stream = self._stream(worker)
        if stream.slot is not None:
            self.slots[stream.slot].ended = False

    def snapshot(self, now: float | None = None) -> Snapshot:
        """Everything known, sorted by core; `now` (UTC seconds) tells who has been silent."""
        self._batch.flush()
        self.queue.flush()
        self.tally.settle(self.slots)
        return view.snapshot(self, now)

    # -- lines

    def _stream(self, worker: int | None) -> Stream:
        stream = self._streams.get(worker)
        if stream is None:
            slot = None if worker is None else self.slot_named(worker, self._addresses.get(worker))
            stream = Stream(slot, xla_dist=self._xla_dist and worker is None, line_slot=slot)
            self._streams[worker] = stream
        return stream

    @cached_property
    def signs(self) -> Signs:
        """Finds lines that a dialect could match, or that hold escapes."""
        return Signs((*(self.hints or ()), b"\x1b"))

    @cached_property
    def _hinted(self) -> re.Pattern[bytes]:
        return re.compile(b"|".join(re.escape(hint) for hint in self.hints or ()))

    def slot_named(self, number: int | None, address: str | None) -> int:
        """The slot of a worker by its number and address, made when new."""
        key = (number, address)
        place = self._slot_numbers.get(key)
        if place is None:
            if len(self.slots) >= MOST_SLOTS:
                return self._slot_numbers.get((None, None), 0)
            place = self._slot_numbers[key] = len(self.slots)
            self.slots.append(Slot(number, address))
        return place

    def slot_of(self, stream: Stream) -> int:
        """The slot of a line without a prefix."""
        return self.slot_named(None, None) if stream.slot is None else stream.slot

    def note_moments(self, first: float, last: float) -> None:
        """Widen the time that the log's own dates span."""
        if not first >= self.first_moment:
            self.first_moment = first
        if not last <= self.last_moment:
            self.last_moment = last

    def _read(self, stream: Stream, data: Bytes, start: int, end: int, now: float | None) -> None:
        """Take in bytes that end with a line end: whole lines through the batch, what is left of others alone."""
        if stream.is_new:
            stream.is_new = False
            if stream.slot is None and Sections.begin_with(_first_line(data, start, end)):
                self._batch.flush()
                self.sections, self.fast = Sections(), False
        if not self.fast:
            self._read_lines(stream, bytes(data[start:end]), now)
            return
        batch = self._batch
        if not stream.at_start:
            batch.flush()
            middle = data.find(b"\n", start, end) + 1 or end
            self._read_lines(stream, bytes(data[start:middle]), now)
            start = middle
        while start < end:
            whole = data.rfind(b"\n", start, min(end, start + max(0, batch.room_for(stream)))) + 1
            if whole:
                batch.add(stream, data, start, whole, now)
                start = whole
            elif batch.size:
                batch.flush()
            else:
                whole = data.find(b"\n", start, end) + 1 or end
                self._read_lines(stream, bytes(data[start:whole]), now)
                start = whole

    def _read_lines(self, stream: Stream, block: bytes, now: float | None) -> None:
        *lines, rest = block.split(b"\n")
        for line in lines:
            self.read_line(stream, line, now)
        if rest:
            self._read_segments(stream, rest, now)

    def read_line(self, stream: Stream, line: bytes, now: float | None) -> None:
        """Take in one line, or what is left of it after a carriage return, without its end."""
        if line:
            self._read_segments(stream, line, now)
        self.lines += 1
        place = self.slot_of(stream) if stream.line_slot is None else stream.line_slot
        moment = stream.line_moment if now is None else now
        self.slots[place].count(1, 0, _NAN if moment is None else moment, now is not None)
        stream.at_start = True
        stream.line_slot, stream.line_moment = stream.slot, None

    def _read_segments(self, stream: Stream, line: bytes, now: float | None) -> None:
        if b"\r" not in line:
            self._segment(stream, line, now)
            return
        for segment in line.split(b"\r"):
            if segment:
                self._segment(stream, segment, now)

    def _segment(self, stream: Stream, text: bytes, now: float | None) -> None:
        clipped = len(text) > LONGEST
        if clipped:
            text = text[-LONGEST:]
            self.overlong += 1
        text = without_escapes(text)
        start = 0
        if stream.at_start:
            stream.at_start = False
            prefix = None if clipped else read_prefix(text, stream.xla_dist)
            if prefix is not None and self._apply(stream, prefix):
                start = prefix.length
            elif stream.slot is None and not clipped:
                start = self._carried(stream, text)
                if not start and self.sections is not None:
                    self._sectioned(stream, self.sections, text)
        own_text = text[start:] if start else text
        whole = TRAINING.pattern.fullmatch(own_text, 2) if self._training and own_text.startswith(b"| ") else None
        if whole is not None:
            self.matched[TRAINING.name] = self.matched.get(TRAINING.name, 0) + 1
            self._sample(stream, TRAINING, whole, own_text, now)
        elif self.hints is None or self._hinted.search(text):
            self._match(stream, text, own_text, now)

    def _sectioned(self, stream: Stream, sections: Sections, text: bytes) -> None:
        """Note whose section a line is in; headers are nobody's."""
        if not sections.take(text) and sections.host is not None:
            stream.line_slot = self.slot_named(None, sections.host)

    def _carried(self, stream: Stream, text: bytes) -> int:
        """Note who said a line, by what another tool put before it; how long that is."""
        carrier = read_carrier(text, stream.labels)
        if carrier is None:
            return 0
        stream.is_carried = True
        label = label_of(text)
        if label is not None and len(stream.labels) < MOST_SLOTS:
            stream.labels.add(label)
        if carrier.number is not None or carrier.address is not None:
            stream.line_slot = self.slot_named(carrier.number, carrier.address)
        return carrier.length

    @property
    def is_carried(self) -> bool:
        """Whether tools other than xla_dist have put labels before the lines of a saved log."""
        return self._stream(None).is_carried

    def labels(self) -> frozenset[bytes]:
        """Hosts and tasks that stood before samples in a saved log."""
        return frozenset(self._stream(None).labels)

    def _apply(self, stream: Stream, prefix: Prefix) -> bool:
        if stream.slot is not None and prefix.number is not None and prefix.address is None:
            return False
        stream.xla_dist = True
        if prefix.moment is not None:
            stream.line_moment = prefix.moment
            self.note_moments(prefix.moment, prefix.moment)
        if stream.slot is None:
            stream.line_slot = None if prefix.own else self.slot_named(prefix.number, prefix.address)
        elif prefix.address is not None and self.slots[stream.slot].address is None:
            self.slots[stream.slot].address = prefix.address
        return True

    def _match(self, stream: Stream, line: bytes, own_text: bytes, now: float | None) -> None:
        """Try every dialect on a line without what tools have put before it; a user's own on the whole line."""
        sampled: Dialect | None = None
        for dialect in self._dialects:
            text = line if dialect.is_own else own_text
            if dialect.hints and not any(hint in text for hint in dialect.hints):
                continue
            if dialect.kind is Kind.SAMPLE and sampled is not None and sampled.name != dialect.name:
                continue
            matches = list(dialect.pattern.finditer(text, max(0, len(text) - dialect.reach)))
            if not matches:
                continue
            self.matched[dialect.name] = self.matched.get(dialect.name, 0) + 1
            if dialect.kind is Kind.SAMPLE:
                sampled = dialect
                for match in matches[-1:] if dialect.last_only else matches:
                    if not dialect.is_bar or self.bars.is_training(self._where(stream, match, text)[0], match):
                        self._sample(stream, dialect, match, text, now)
            elif dialect.kind is Kind.TEST:
                for match in matches:
                    self._test_row(stream, match, text, now)
            elif dialect.kind is Kind.EPOCH:
                for match in matches:
                    self._epoch_told(dialect, match)
                    self.bars.begin(self._where(stream, match, text)[0], int(match["epoch"]))
            else:
                self._note_facts(matches[-1].groupdict())

    def _where(self, stream: Stream, match: re.Match[bytes], text: bytes) -> tuple[int, float | None]:
        """Slot and date of a match: the line's own, or those of a prefix glued into the line before it."""
        slot, moment = stream.line_slot, stream.line_moment
        if stream.slot is None and match.start() > 2:
            nearest = max(0, match.start() - _GLUED_WITHIN)
            for glued in PREFIX.finditer(text, nearest, match.start()):
                if glued["address"] is not None:
                    prefix = read_prefix(text, True, glued.start())
                    if prefix is not None:
                        slot, moment = self.slot_named(prefix.number, prefix.address), prefix.moment or moment
        return (self.slot_of(stream) if slot is None else slot), moment

    # -- what lines tell

    def _sample(
        self, stream: Stream, dialect: Dialect, match: re.Match[bytes], text: bytes, now: float | None
    ) -> None:
        told = match.groupdict()
        values = {name: told.get(name) for name in COLUMNS}
        try:
            loss, rate, global_rate = (_number(values[name]) for name in ("loss", "rate", "global_rate"))
            core, device, epoch, step = (_count(values[name]) for name in ("core", "device", "epoch", "step"))
        except (ValueError, OverflowError):
            return
        if values["loss"] is not None and loss == dialect.ignored_loss:
            values["loss"], loss = None, _NAN
        slot, moment = self._where(stream, match, text)
        if values["worker"] is not None and stream.slot is None:
            slot = self.slot_named(_count(values["worker"]), None)
        if dialect.is_bar:
            epoch = self.bars.epoch_of(slot)
        known = (
            (HAS_LOSS if values["loss"] is not None else 0)
            | (HAS_RATE if values["rate"] is not None else 0)
            | (HAS_GLOBAL_RATE if values["global_rate"] is not None else 0)
        )
        clock = (values["clock"] or b"")[:CLOCK_BYTES]
        if moment is None and len(clock) > len(b"00:00:00"):
            moment = read_dated_clock(clock)
        time, kind = _time(now, moment)
        seen = _NAN if now is None else now
        self.queue.add((slot, core, device, epoch, step, loss, rate, global_rate, known, clock, time, kind, seen))
        self.samples += 1
        self.slots[slot].samples += 1

    def _test_row(self, stream: Stream, match: re.Match[bytes], text: bytes, now: float | None) -> None:
        told = match.groupdict()
        slot, _ = self._where(stream, match, text)
        self.queue.flush()
        row = self.table.row_for(slot, int(told["core"]), _count(told["device"]))
        if row >= 0 and now is not None:
            self.table.columns["seen"][row] = now
        if told.get("accuracy") is not None:
            self.facts["replica_accuracy"] = _number(told["accuracy"])

    def _epoch_told(self, dialect: Dialect, match: re.Match[bytes]) -> None:
        told = {name: value.decode() for name, value in match.groupdict().items() if value is not None}
        epoch = int(told.pop("epoch"))
        figures: dict[str, Any] = {}
        for name, value in told.items():
            if name == "seconds":
                figures[name] = read_span(value)
            elif name in ("replica_samples", "replica_test_samples"):
                figures[name] = int(value)
            elif name in ("train_began", "train_ended", "test_ended"):
                figures[name] = value
            else:
                figures[name] = float(value)
        self.queue.flush()
        self.book.tell(epoch, figures)
        self.book.anchor(epoch, dialect.moment, self.table)
        accuracy = figures.get("accuracy")
        if accuracy is not None:
            self.facts["max_accuracy"] = max(self.facts.get("max_accuracy", accuracy), accuracy)

    def _note_facts(self, told: Mapping[str, bytes | None]) -> None:
        for name, value in told.items():
            if value is None:
                continue
            if name == "cluster":
                self.facts[name] = read_cluster(value.decode("utf-8", "replace"))
            elif name == "total_train_time":
                self.facts[name] = read_span(value.decode())
            elif name == "max_accuracy":
                self.facts[name] = max(self.facts.get(name, float(value)), float(value))
            else:
                self.facts[name] = float(value)


def _first_line(data: Bytes, start: int, end: int) -> bytes:
    """What stands before the first line end, a carriage return too."""
    return bytes(data[start : min(end, start + LONGEST)]).splitlines()[0]


def all_hints(dialects: Sequence[Dialect]) -> tuple[bytes, ...] | None:
    """Every dialect's hints; None when a dialect has none, so that every line is tried."""
    if any(not dialect.hints for dialect in dialects):
        return None
    return tuple(sorted({hint for dialect in dialects for hint in dialect.hints}))


def _number(text: bytes | None) -> float:
    return _NAN if text is None else float(text.replace(b",", b""))


_SUFFIXES = {b"k": 1e3, b"M": 1e6, b"G": 1e9}


def _count(text: bytes | None) -> int:
    if text is None:
        return UNKNOWN
    if text[-1:] in _SUFFIXES:
        return round(float(text[:-1]) * _SUFFIXES[text[-1:]])
    return int(text) if text.isdigit() else int(float(text))


def _time(now: float | None, moment: float | None) -> tuple[float, int]:
    if now is not None:
        return now, WALL_TIME
    return (_NAN, NO_TIME) if moment is None else (moment, LOG_TIME)
