"""Try dialects on single lines, and record the samples, epochs and facts that they find."""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tui.logs.attribution.xla_dist_prefix import PREFIX, read_dated_clock, read_prefix
from tui.logs.core_row import HAS_GLOBAL_RATE, HAS_LOSS, HAS_RATE, UNKNOWN
from tui.logs.dialects.dialect import SUFFIXES, Dialect, Kind, Role
from tui.logs.dialects.facts import read_cluster, read_span
from tui.logs.dialects.match_cache import GLUED_WITHIN_BYTES, DialectMatch, DialectReader, LineMatches
from tui.logs.dialects.multiline import OpenHeaders, Row
from tui.logs.dialects.printed_totals import PRINTED_TOTALS
from tui.logs.dialects.rates import kind_of, number, rate_of
from tui.logs.dialects.registry import TRAINING
from tui.logs.dialects.step_bars import HeldSample, StepBars
from tui.logs.dialects.training_or_eval import TrainingStage
from tui.logs.files.log_stream import LogStream
from tui.logs.log_time import LOG_TIME, NO_TIME, WALL_TIME
from tui.logs.state.demux_state import DemuxState
from tui.logs.state.samples import CLOCK_BYTES

_NAN = float("nan")

_MOST_COUNTED = 1e15
"""The largest step that a run can reach: `2.5e+88` is no step."""
_MOST_DIGITS = 15

_FIGURES: Mapping[str, Callable[[str], Any]] = {
    "epoch": int,
    "seconds": read_span,
    **dict.fromkeys(("replica_samples", "replica_test_samples"), int),
    **dict.fromkeys(("train_began", "train_ended", "test_ended"), str),
}
"""Parsers of an epoch's values by name; the others are floats."""

_TOTALS = ("total_steps", "total_epochs", "steps_per_epoch", *PRINTED_TOTALS.values())
"""Facts that are the number of all steps or epochs."""


class Matcher:
    """Tries the dialects in their order on single lines."""

    def __init__(self, state: DemuxState, dialects: Sequence[Dialect]) -> None:
        self._state = state
        self._reader = DialectReader(dialects)
        self._stage = TrainingStage()
        self._openings = OpenHeaders()
        self._bars = StepBars()

    @property
    def has_open_header(self) -> bool:
        """Return whether the next line may belong to a header or sample above, although its text does not show it."""
        return self._openings.has_any or self._bars.is_waiting

    def restart(self) -> None:
        """Note that the job was restarted."""
        self._stage.restart()
        self._bars = StepBars()

    def finish(self, stream: LogStream) -> None:
        """Record the samples that wait for another line, since none will come."""
        self._record(self._bars.finish(stream.slot))

    def expire(self, now: float) -> None:
        """Record the samples that have waited too long for another line."""
        self._record(self._bars.expire(now))

    def match(self, stream: LogStream, line: bytes, own_text: bytes, now: float | None) -> None:
        """Try all dialects on a line's own text, without prefixes, and a profile's on the whole line."""
        own_text = own_text.removeprefix(codecs.BOM_UTF8)
        self._take(stream, self._reader.read(line, own_text), line, own_text, now)

    def match_known(self, stream: LogStream, line: bytes, now: float | None) -> bool:
        """Record a line if it has no prefix and a shape that was read before; return whether it was recorded."""
        reading = self._reader.find_known(line)
        if reading is None or not reading.is_bare:
            return False
        stream.at_start = False
        self._take(stream, reading, line, line, now)
        return True

    def training(self, stream: LogStream, match: re.Match[bytes], now: float | None) -> None:
        """Record a line that is nothing but a PyTorch/XLA training line."""
        self._state.count_match(TRAINING.name)
        values = {name: value for name, value in match.groupdict().items() if value is not None}
        slot = self._state.slot_or_unnamed(stream.known_slot)
        self.sample(stream, TRAINING, values, (slot, stream.line_moment), now)

    def _take(self, stream: LogStream, reading: LineMatches, line: bytes, own_text: bytes, now: float | None) -> None:
        if self._bars.is_waiting:
            self._record(self._bars.take(self._state.slot_or_unnamed(stream.known_slot), own_text))
        if self._openings.has_any and not reading.is_own and self._take_value(stream, own_text, now):
            return
        for dialect, matches in reading.found:
            self._state.count_match(dialect.name)
            if dialect.role.is_summary and dialect.role.has_epoch_above and self._take_beneath(stream, own_text, now):
                # The step above is more precise than the epoch further up.
                continue
            self._take_matches(stream, dialect, matches, line if dialect.is_own else own_text, now)
            if dialect.kind is Kind.SECTION:
                self._take_beneath(stream, own_text, now)
        if self._openings.has_any and not reading.found:
            self._take_beneath(stream, own_text, now)

    def _take_matches(
        self, stream: LogStream, dialect: Dialect, matches: Sequence[DialectMatch], text: bytes, now: float | None
    ) -> None:
        for match in matches:
            values, origin = match.values(text), self._where(stream, match, text)
            slot = origin[0]
            if dialect.kind is Kind.SAMPLE:
                if dialect.role is not Role.PACE:
                    self._openings.end_step(slot)
                elif self._openings.has_step(slot):
                    continue  # the rate of a sample whose loss follows
                self._add(HeldSample(stream, dialect, values, origin, now))
            elif dialect.kind is Kind.TEST:
                self._test_row(values, slot, now)
            elif dialect.kind is Kind.EPOCH:
                self._record_epoch(dialect, values, slot)
            elif dialect.kind is Kind.SECTION:
                self._section(slot, "training" in values)
            elif dialect.kind is Kind.HEADER:
                self._openings.begin(slot, dialect, values, text)
            else:
                self._note_facts(values)

    def _add(self, sample: HeldSample) -> None:
        """Record a sample, or hold it while a bar below may show its step."""
        waits = sample.dialect.role is Role.ABOVE_BAR and "step" not in sample.values
        self._record(self._bars.add(sample) if waits else [sample])

    def _record(self, samples: Sequence[HeldSample]) -> None:
        for sample in samples:
            self.sample(*sample)

    def _section(self, slot: int, trains: bool) -> None:
        """Note that a worker's next lines are training's or an evaluation's."""
        if trains:
            self._stage.begin_training(slot)
        else:
            self._state.queue.flush()
            self._stage.begin_evaluation(slot, self._state.table.newest_of(slot))

    def _take_value(self, stream: LogStream, line: bytes, now: float | None) -> bool:
        """Record a line of an open table of values; return whether the line is one."""
        slot = self._state.slot_or_unnamed(stream.known_slot)
        return self._record_rows(stream, slot, self._openings.take_value(slot, line), now)

    def _take_beneath(self, stream: LogStream, line: bytes, now: float | None) -> bool:
        """Record a line below an open header; return whether the line belongs to it."""
        if not self._openings.has_any:
            return False
        slot = self._state.slot_or_unnamed(stream.known_slot)
        return self._record_rows(stream, slot, self._openings.take(slot, line), now)

    def _record_rows(self, stream: LogStream, slot: int, rows: Sequence[Row] | None, now: float | None) -> bool:
        for dialect, values in rows or ():
            self._state.count_match(dialect.name)
            self.sample(stream, dialect, values, (slot, stream.line_moment), now)
        return rows is not None

    def _where(self, stream: LogStream, match: DialectMatch, text: bytes) -> tuple[int, float | None]:
        """Return slot and date of a match: the line's, or those of a prefix in the middle of the line before it."""
        slot, moment = stream.line_slot, stream.line_moment
        if match.is_glued and stream.slot is None:
            nearest = max(0, match.start - GLUED_WITHIN_BYTES)
            for glued in PREFIX.finditer(text, nearest, match.start):
                if glued["address"] is not None:
                    prefix = read_prefix(text, glued.start(), xla_dist=True)
                    if prefix is not None:
                        slot, moment = self._state.slot_for(prefix.number, prefix.address), prefix.moment or moment
        return self._state.slot_or_unnamed(stream.slot if slot is None else slot), moment

    def sample(
        self,
        stream: LogStream,
        dialect: Dialect,
        values: Mapping[str, bytes],
        where: tuple[int, float | None],
        now: float | None,
    ) -> None:
        """Record a core's step from the values that a dialect matched; `where` is its slot and date."""
        slot, moment = where
        if dialect.role is Role.PART:
            joined = self._stage.join_parts(slot, dialect.name, values)
            if joined is None:
                return
            values = joined
        get = values.get
        try:
            loss, rate, global_rate = _number(get("loss")), rate_of(values), _number(get("global_rate"))
            core, device = _count(get("core")), _count(get("device"))
            epoch, step = _count(get("epoch")), _count(get("step"))
            if "worker" in values and stream.slot is None:
                slot = self._state.slot_for(_count(values["worker"]), None)
        except (ValueError, OverflowError):
            return
        has_loss = "loss" in values
        if has_loss and loss == dialect.ignored_loss:
            has_loss, loss = False, _NAN
        if dialect.role.has_epoch_above:
            epoch = self._stage.epoch_of(slot)
        elif epoch == UNKNOWN and step != UNKNOWN:
            epoch = self._stage.heading_of(slot)
        known = (
            (HAS_LOSS if has_loss else 0)
            | (0 if rate is None else HAS_RATE)
            | (HAS_GLOBAL_RATE if "global_rate" in values else 0)
        )
        clock = values.get("clock", b"")[:CLOCK_BYTES]
        if moment is None and len(clock) > len(b"00:00:00"):
            moment = read_dated_clock(clock)
        time, kind = _time(now, moment)
        seen = _NAN if now is None else now
        record = (
            slot,
            core,
            device,
            epoch,
            step,
            loss,
            _NAN if rate is None else rate,
            global_rate,
            known,
            clock,
            time,
            kind,
            seen,
            kind_of(values, dialect.rate),
            stream.line_offset,
        )
        add = self._state.queue.add if dialect.role is Role.PACE else self._state.add_sample
        samples = (record,) if dialect is TRAINING else self._stage.samples(dialect, values, record)
        for sample in samples:
            add(sample)
        if samples:
            self._note_totals(values)

    def _test_row(self, values: Mapping[str, bytes], slot: int, now: float | None) -> None:
        self._state.queue.flush()
        self._state.table.add_core(slot, int(values["core"]), _count(values.get("device")), now)
        if "accuracy" in values:
            self._state.facts["replica_accuracy"] = _number(values["accuracy"])

    def _record_epoch(self, dialect: Dialect, raw: Mapping[str, bytes], slot: int) -> None:
        if "epoch" not in raw:  # it is a fraction
            return
        self._note_totals(raw)
        figures = {
            name: _FIGURES.get(name, float)(value.decode()) for name, value in raw.items() if name not in _TOTALS
        }
        epoch = figures.pop("epoch")
        self._state.queue.flush()
        self._state.epochs.add_figures(epoch, figures)
        self._state.epochs.anchor(epoch, dialect.moment, slot, self._state.table)
        if "accuracy" in figures:
            self._note_accuracy(figures["accuracy"])
        self._stage.name_epoch(slot, epoch, dialect.moment)

    def _note_totals(self, values: Mapping[str, bytes]) -> None:
        for name in _TOTALS:
            if name in values:
                self._state.facts[name] = int(values[name].replace(b",", b""))

    def _note_facts(self, values: Mapping[str, bytes]) -> None:
        self._note_totals(values)
        for name, value in values.items():
            if name in _TOTALS:
                continue
            if name == "cluster":
                self._state.facts[name] = read_cluster(value.decode("utf-8", "replace"))
            elif name == "total_train_time":
                self._state.facts[name] = read_span(value.decode())
            elif name == "max_accuracy":
                self._note_accuracy(float(value))
            else:
                self._state.facts[name] = float(value)

    def _note_accuracy(self, accuracy: float) -> None:
        facts = self._state.facts
        facts["max_accuracy"] = max(facts.get("max_accuracy", accuracy), accuracy)


def _number(text: bytes | None) -> float:
    return _NAN if text is None else number(text)


def _count(text: bytes | None) -> int:
    if text is None:
        return UNKNOWN
    if text.isdigit() and len(text) <= _MOST_DIGITS:
        return int(text)
    count = _number(text)
    if count > _MOST_COUNTED:
        raise OverflowError
    return round(count) if text[-1:] in SUFFIXES else int(count)


def _time(now: float | None, moment: float | None) -> tuple[float, int]:
    if now is not None:
        return now, WALL_TIME
    return (_NAN, NO_TIME) if moment is None else (moment, LOG_TIME)
