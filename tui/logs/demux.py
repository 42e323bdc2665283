"""The demultiplexer: bytes of any number of workers in, every core's sorted state out. Pure: no files, no clock."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any

from tui.logs.attribution.cloud_logging import Chronology, Entry, Exports
from tui.logs.attribution.host_sections import Sections
from tui.logs.attribution.launcher_prefixes import label_of, read_carrier
from tui.logs.attribution.xla_dist_prefix import Moments, Prefix, read_prefix
from tui.logs.dialects.epochs import EpochBook
from tui.logs.dialects.matcher import Matcher
from tui.logs.dialects.registry import BUILT_IN, LONGEST, TRAINING, Dialect
from tui.logs.dialects.training_or_eval import Bars
from tui.logs.files.line_assembler import Piece, Stream
from tui.logs.files.lines import segments_of, without_escapes
from tui.logs.snapshot import UNKNOWN, Snapshot
from tui.logs.state import snapshot_builder
from tui.logs.state.core_table import CoreTable
from tui.logs.state.line_counts import Slot, Tally
from tui.logs.state.sample_queue import Queue
from tui.logs.state.stragglers import Thresholds
from tui.logs.vectorized import block_reader
from tui.logs.vectorized.hint_search import Signs, signs_of
from tui.logs.vectorized.line_scanner import Bytes
from tui.logs.vectorized.numpy_import import np

__all__ = ["MOST_SLOTS", "Demux", "Slot", "Snapshot"]

MOST_SLOTS = 8192
"""Workers kept apart at most: four times those of the largest pod."""

_NAN = float("nan")


class Demux:
    """Takes bytes as they come, in any chunks, and knows the newest state of every core.

    `dialects` are tried in order, a user's own first; `addresses` gives those of known workers; `xla_dist` says that
    short prefixes may be trusted; without `history` no series are kept, with `steps` each of their points keeps its
    step; without `fast` every line is read alone. The same bytes of each worker give the same samples however they
    were cut.
    """

    def __init__(
        self,
        *,
        dialects: Sequence[Dialect] = BUILT_IN,
        addresses: Mapping[int, str] | None = None,
        thresholds: Mapping[str, float] | None = None,
        history: bool = True,
        steps: bool = False,
        xla_dist: bool = False,
        fast: bool = True,
    ) -> None:
        self.thresholds = Thresholds.from_settings(thresholds or {})
        self.table = CoreTable(history=history, steps=steps, recent=int(self.thresholds.slow_samples))
        self.slots: list[Slot] = []
        self.book = EpochBook()
        self.bars = Bars()
        self.sections: Sections | None = None
        """Of a saved log that is in sections, one for each host; it is read line by line."""
        self.exports: Exports | None = None
        """Of a saved log that Cloud Logging has exported; it is read line by line."""
        self.entry_slots: list[int] = []
        """Whose each entry of an export is, by its place there; UNKNOWN nobody's."""
        self._chronology = Chronology()
        self.facts: dict[str, Any] = {}
        self.matched: dict[str, int] = {}
        self.lines = self.bytes = self.samples = self.overlong = 0
        self.begun = 0
        """Samples taken in when the job was last started again."""
        self.first_moment = self.last_moment = _NAN
        self._addresses = dict(addresses or {})
        self._xla_dist = xla_dist
        self._matcher = Matcher(self, dialects)
        self._dialects = tuple(dialects)
        self.looks_at_prefixes = any(dialect.is_own for dialect in dialects)
        """Whether a dialect matches what stands before a line's own text, too."""
        self._streams: dict[int | None, Stream] = {}
        self._slot_numbers: dict[tuple[int | None, str | None], int] = {}
        self.queue = Queue(self.table)
        self.tally = Tally()
        self.moments = Moments()
        self._batch = block_reader.Batch(self)
        self._training = TRAINING in dialects
        self.fast = self._is_fast = fast and self._training
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
        for piece in stream.take(data):
            self._read(stream, piece, now)

    def finish(self, now: float | None = None, *, worker: int | None = None) -> None:
        """No more bytes will come, of a worker or at all: look at last lines that have no line end."""
        self._batch.flush()
        for stream in [self._stream(worker)] if worker is not None else list(self._streams.values()):
            block, offset = stream.rest()
            if block:
                self._read_lines(stream, block, now, offset)
            if self.exports is not None and stream.slot is None:
                self._exported(stream, self.exports.rest(), now, UNKNOWN)
                self._say(stream, self._chronology.rest(), now)
            self._line_ended(stream)

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

    def begin_log(self, worker: int) -> None:
        """Another log of the worker begins: places in the one before are not places in this one."""
        self._batch.flush()
        self.queue.flush()
        stream = self._stream(worker)
        stream.begin_log()
        if stream.slot is not None:
            self.table.first_nans.forget_offsets(np.flatnonzero(self.table.column("slot") == stream.slot))

    def restart(self) -> None:
        """The job was started again on all workers: what its cores told before is no measure for what comes."""
        self._batch.flush()
        self.queue.flush()
        self._matcher.restart()
        self.table.restart()
        self.begun = self.table.sequence

    def snapshot(self, now: float | None = None, *, partial: bool = False) -> Snapshot:
        """Everything known, sorted by core; `now` (UTC seconds) tells who has been silent.

        `partial` says that some workers' lines have been read further than others', which makes nobody a straggler.
        """
        self._batch.flush()
        self.queue.flush()
        self.tally.settle(self.slots)
        return snapshot_builder.snapshot(self, now, partial=partial)

    # -- lines

    def _stream(self, worker: int | None) -> Stream:
        stream = self._streams.get(worker)
        if stream is None:
            slot = None if worker is None else self.slot_named(worker, self._addresses.get(worker))
            stream = Stream(slot, xla_dist=self._xla_dist and worker is None, line_slot=slot)
            self._streams[worker] = stream
        return stream

    @property
    def is_beneath_header(self) -> bool:
        """Whether a line may belong to one before it, though nothing in it says so: each is read alone then."""
        return self._matcher.openings.any

    @cached_property
    def signs(self) -> Signs | None:
        """Finds lines that a dialect could match, or that hold escapes; None where any line could be one."""
        return signs_of(self._dialects)

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

    def _read(self, stream: Stream, piece: Piece, now: float | None) -> None:
        """Take in bytes that end with a line end: whole lines through the batch, what is left of others alone."""
        data, start, end, offset, begun_at = piece
        first = start
        if stream.is_new:
            stream.is_new = False
            if stream.slot is None:
                self._begin(_first_line(data, start, end))
        if self.exports is not None and self.exports.is_none:
            self.exports, self.fast = None, self._is_fast
        if not self.fast:
            stream.begun_at = begun_at
            self._read_lines(stream, bytes(data[start:end]), now, offset)
            return
        batch = self._batch
        if not stream.at_start or begun_at is not None:
            batch.flush()
            stream.begun_at = begun_at
            middle = data.find(b"\n", start, end) + 1 or end
            self._read_lines(stream, bytes(data[start:middle]), now, offset)
            start = middle
        while start < end:
            whole = data.rfind(b"\n", start, min(end, start + max(0, batch.room_for(stream)))) + 1
            if whole:
                batch.add(stream, data, start, whole, now, offset + start - first)
                start = whole
            elif batch.size:
                batch.flush()
            else:
                whole = data.find(b"\n", start, end) + 1 or end
                self._read_lines(stream, bytes(data[start:whole]), now, offset + start - first)
                start = whole

    def _begin(self, first: bytes) -> None:
        """Look at a saved log's first line: some are read line by line."""
        if Sections.begin_with(first):
            self.sections = Sections()
        elif Exports.begin_with(first):
            self.exports = Exports(first)
        else:
            return
        self._batch.flush()
        self.fast = False

    def _read_lines(self, stream: Stream, block: bytes, now: float | None, offset: int) -> None:
        """Read lines that begin at an offset of the stream's log."""
        *lines, rest = block.split(b"\n")
        for line in lines:
            self.read_line(stream, line, now, offset)
            offset += len(line) + 1
        if rest and self.exports is not None and stream.slot is None:
            self.exports.hold(rest)
        elif rest:
            self._read_segments(stream, rest, now, offset)

    def read_line(self, stream: Stream, line: bytes, now: float | None, offset: int) -> None:
        """Take in one line, or what is left of it after a carriage return, without its end.

        `offset` says where it begins in the stream's log.
        """
        self.lines += 1
        if self.exports is not None and stream.slot is None:
            stream.begun_at = None
            self._exported(stream, self.exports.take(line, offset), now, offset + len(line))
            return
        if line:
            self._read_segments(stream, line, now, offset)
        self._count_line(stream, now)
        self._line_ended(stream)

    def _count_line(self, stream: Stream, now: float | None) -> None:
        place = self.slot_of(stream) if stream.line_slot is None else stream.line_slot
        moment = stream.line_moment if now is None else now
        self.slots[place].count(1, 0, _NAN if moment is None else moment, now is not None)

    def _line_ended(self, stream: Stream) -> None:
        stream.at_start = True
        stream.line_slot, stream.line_moment = stream.slot, None

    def _exported(
        self, stream: Stream, brought: Iterable[bytes | tuple[int, Entry]], now: float | None, end: int
    ) -> None:
        """Take in what lines of an export brought: entries in their order, and lines that belong to none.

        The last of those ends at `end` (-1: not known where).
        """
        every = list(brought)
        offset = end - sum(len(each) + 1 for each in every if isinstance(each, bytes)) + 1
        for each in every:
            if not isinstance(each, bytes):
                self._say(stream, self._chronology.take(*each), now)
                continue
            if each:
                self._read_segments(stream, each, now, UNKNOWN if end == UNKNOWN else offset)
            offset += len(each) + 1
            self._count_line(stream, now)
            self._line_ended(stream)

    def _say(self, stream: Stream, entries: Iterable[tuple[int, Entry]], now: float | None) -> None:
        """Take in what entries of an export say."""
        for place, entry in entries:
            stream.is_carried = True
            is_named = entry.number is not None or entry.address is not None
            slot = self.slot_named(entry.number, entry.address) if is_named else None
            self.entry_slots += [UNKNOWN] * (place + 1 - len(self.entry_slots))
            self.entry_slots[place] = UNKNOWN if slot is None else slot
            if entry.moment is not None:
                self.note_moments(entry.moment, entry.moment)
            for line in entry.said.splitlines():
                stream.line_slot, stream.line_moment, stream.line_offset = slot, entry.moment, entry.offset
                self._segment(stream, line, now)
                self._count_line(stream, now)
                self._line_ended(stream)

    def _read_segments(self, stream: Stream, line: bytes, now: float | None, offset: int) -> None:
        stream.look_at(offset)
        is_plain = stream.at_start and not stream.xla_dist and not stream.labels and self.sections is None
        if is_plain and self._matcher.match_known(stream, line, now):
            return
        place = 0
        for segment in segments_of(line):
            if segment:
                self._segment(stream, segment, now)
            place += len(segment)
            if line.startswith(b"\r", place):
                place += 1
                stream.line_offset = UNKNOWN if offset == UNKNOWN else offset + place

    def _segment(self, stream: Stream, text: bytes, now: float | None) -> None:
        clipped = len(text) > LONGEST
        if clipped:
            text = text[-LONGEST:]
            self.overlong += 1
        text = without_escapes(text)
        start = 0
        said: bytes | None = None
        if stream.at_start:
            stream.at_start = False
            prefix = None if clipped else read_prefix(text, stream.xla_dist)
            if prefix is not None and self._apply(stream, prefix):
                start = prefix.length
            elif stream.slot is None and not clipped:
                start, said = self._carried(stream, text)
                if not start and self.sections is not None:
                    self._sectioned(stream, self.sections, text)
        own_text = text[start:] if start else text
        for own in (own_text,) if said is None else without_escapes(said).splitlines():
            whole = TRAINING.pattern.fullmatch(own, 2) if self._training and own.startswith(b"| ") else None
            if whole is not None:
                self._matcher.training(stream, whole, now)
            else:
                self._matcher.match(stream, text, own, now)

    def _sectioned(self, stream: Stream, sections: Sections, text: bytes) -> None:
        """Note whose section a line is in; headers are nobody's."""
        if not sections.take(text) and sections.host is not None:
            stream.line_slot = self.slot_named(None, sections.host)

    def _carried(self, stream: Stream, text: bytes) -> tuple[int, bytes | None]:
        """Note who said a line, by what another tool put before it; how long that is, and what a JSON entry says."""
        carrier = read_carrier(text, stream.labels)
        if carrier is None:
            return 0, None
        stream.is_carried = True
        label = label_of(text)
        if label is not None and len(stream.labels) < MOST_SLOTS:
            stream.labels.add(label)
        if stream.line_slot is None and (carrier.number is not None or carrier.address is not None):
            stream.line_slot = self.slot_named(carrier.number, carrier.address)
        return carrier.length, carrier.said

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


def _first_line(data: Bytes, start: int, end: int) -> bytes:
    """What stands before the first line end, a carriage return too."""
    return bytes(data[start : min(end, start + LONGEST)]).splitlines()[0]
