"""What single lines tell: dialects tried on a line, and the samples, epochs and facts in it taken down."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tui.logs.bars import Parts, Summaries
from tui.logs.dialect import SUFFIXES
from tui.logs.dialects import COLUMNS, TRAINING, Dialect, Kind
from tui.logs.epochs import read_cluster, read_span
from tui.logs.prefix import PREFIX, read_dated_clock, read_prefix
from tui.logs.snapshot import HAS_GLOBAL_RATE, HAS_LOSS, HAS_RATE, LOG_TIME, NO_TIME, UNKNOWN, WALL_TIME
from tui.logs.streams import Stream
from tui.logs.table import CLOCK_BYTES

if TYPE_CHECKING:
    from tui.logs.demux import Demux

_GLUED_WITHIN = 512
"""Bytes before a sample in which a prefix glued into the line is looked for."""

_NAN = float("nan")


class Matcher:
    """Reads single lines for a demultiplexer, dialect by dialect in their order."""

    def __init__(self, demux: Demux, dialects: Sequence[Dialect]) -> None:
        self._demux = demux
        self._hints = _Hints(dialects)
        self._has_own = any(dialect.is_own for dialect in dialects)
        self._parts = Parts()
        self._summaries = Summaries()

    def match(self, stream: Stream, line: bytes, own_text: bytes, now: float | None) -> None:
        """Try every dialect on a line without what tools have put before it; a user's own on the whole line."""
        sampled: Dialect | None = None
        for dialect in self._hints.could_match(line if self._has_own else own_text):
            if dialect.kind is Kind.SAMPLE and sampled is not None and sampled.name != dialect.name:
                continue
            text = line if dialect.is_own else own_text
            matches = list(dialect.pattern.finditer(text, max(0, len(text) - dialect.reach)))
            if not matches:
                continue
            self._demux.matched[dialect.name] = self._demux.matched.get(dialect.name, 0) + 1
            if dialect.kind is Kind.SAMPLE:
                sampled = dialect
                for match in matches[-1:] if dialect.last_only else matches:
                    if not dialect.is_bar or self._demux.bars.is_training(self._where(stream, match, text)[0], match):
                        self.sample(stream, dialect, match, text, now)
            elif dialect.kind is Kind.TEST:
                for match in matches:
                    self._test_row(stream, match, text, now)
            elif dialect.kind is Kind.EPOCH:
                for match in matches:
                    self._epoch_told(dialect, match)
                    self._demux.bars.begin(self._where(stream, match, text)[0], int(match["epoch"]))
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
                        slot, moment = self._demux.slot_named(prefix.number, prefix.address), prefix.moment or moment
        return (self._demux.slot_of(stream) if slot is None else slot), moment

    def sample(
        self, stream: Stream, dialect: Dialect, match: re.Match[bytes], text: bytes, now: float | None
    ) -> None:
        """Take down one core's step, as a dialect found it in a line."""
        told: Mapping[str, bytes | None] | None = match.groupdict()
        if dialect.is_part:
            told = self._parts.add(self._where(stream, match, text)[0], dialect.name, match.groupdict())
        if told is None:
            return
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
            slot = self._demux.slot_named(_count(values["worker"]), None)
        if dialect.is_bar:
            epoch = self._demux.bars.epoch_of(slot)
        if dialect.is_summary and not self._summaries.is_sample(slot, epoch):
            return
        if dialect is not TRAINING:
            self._summaries.told(slot, told)
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
        self._demux.queue.add(
            (slot, core, device, epoch, step, loss, rate, global_rate, known, clock, time, kind, seen)
        )
        self._demux.samples += 1
        self._demux.slots[slot].samples += 1

    def _test_row(self, stream: Stream, match: re.Match[bytes], text: bytes, now: float | None) -> None:
        told = match.groupdict()
        slot, _ = self._where(stream, match, text)
        self._demux.queue.flush()
        row = self._demux.table.row_for(slot, int(told["core"]), _count(told["device"]))
        if row >= 0 and now is not None:
            self._demux.table.columns["seen"][row] = now
        if told.get("accuracy") is not None:
            self._demux.facts["replica_accuracy"] = _number(told["accuracy"])

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
        self._demux.queue.flush()
        self._demux.book.tell(epoch, figures)
        self._demux.book.anchor(epoch, dialect.moment, self._demux.table)
        accuracy = figures.get("accuracy")
        if accuracy is not None:
            self._demux.facts["max_accuracy"] = max(self._demux.facts.get("max_accuracy", accuracy), accuracy)

    def _note_facts(self, told: Mapping[str, bytes | None]) -> None:
        for name, value in told.items():
            if value is None:
                continue
            if name == "cluster":
                self._demux.facts[name] = read_cluster(value.decode("utf-8", "replace"))
            elif name == "total_train_time":
                self._demux.facts[name] = read_span(value.decode())
            elif name == "max_accuracy":
                self._demux.facts[name] = max(self._demux.facts.get(name, float(value)), float(value))
            else:
                self._demux.facts[name] = float(value)


class _Hints:
    """Which dialects could match a line, by the hints it holds: of lines that differ in digits only, told once."""

    _DIGITS_ALIKE = bytes.maketrans(b"123456789", b"000000000")
    _MOST, _LONGEST = 2048, 512
    """Shapes of lines remembered, and the bytes of one that is."""

    def __init__(self, dialects: Sequence[Dialect]) -> None:
        self._dialects = [(each, [hint.translate(self._DIGITS_ALIKE) for hint in each.hints]) for each in dialects]
        self._always = any(not hints for _, hints in self._dialects)
        every = {hint for _, hints in self._dialects for hint in hints}
        self._any = re.compile(b"|".join(map(re.escape, sorted(every))))
        self._known: dict[bytes, tuple[Dialect, ...]] = {}

    def could_match(self, text: bytes) -> tuple[Dialect, ...]:
        """The dialects to be tried on a text, in their order."""
        shape = text.translate(self._DIGITS_ALIKE)
        found = self._known.get(shape)
        if found is None:
            found = self._hinted(shape)
            if len(shape) <= self._LONGEST:
                if len(self._known) >= self._MOST:
                    self._known.clear()
                self._known[shape] = found
        return found

    def _hinted(self, shape: bytes) -> tuple[Dialect, ...]:
        if not self._always and not self._any.search(shape):
            return ()
        return tuple(each for each, hints in self._dialects if not hints or any(hint in shape for hint in hints))


def _number(text: bytes | None) -> float:
    if text is None:
        return _NAN
    if text[-1:] in SUFFIXES:
        return float(text[:-1]) * SUFFIXES[text[-1:]]
    return float(text.replace(b",", b""))


def _count(text: bytes | None) -> int:
    if text is None:
        return UNKNOWN
    if text[-1:] in SUFFIXES:
        return round(_number(text))
    return int(text) if text.isdigit() else int(_number(text))


def _time(now: float | None, moment: float | None) -> tuple[float, int]:
    if now is not None:
        return now, WALL_TIME
    return (_NAN, NO_TIME) if moment is None else (moment, LOG_TIME)
