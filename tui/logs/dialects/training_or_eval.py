"""What single lines cannot tell: which of two like bars or rows trains, and samples that are spread over lines."""

from __future__ import annotations

from collections.abc import Mapping

from tui.logs.snapshot import UNKNOWN
from tui.logs.state.samples import Record

MOST_HELD = 8192
"""Unfinished samples held: one of each worker of the largest pod, and then some."""


class BarFilter:
    """Keras draws the same bar when it trains and when it evaluates, but names an epoch only before training.

    So a bar that begins again after it was full, with no epoch named in between, is an evaluation's.
    """

    def __init__(self) -> None:
        self._full: dict[int, tuple[int, bytes]] = {}
        """Of each worker whose bar is full: its last step and total."""
        self._epochs: dict[int, int] = {}
        self._begun: set[int] = set()
        """Workers that have named an epoch and told no loss since."""

    def begin(self, slot: int, epoch: int) -> None:
        """An epoch of a worker was named."""
        self._full.pop(slot, None)
        self._epochs[slot] = epoch
        self._begun.add(slot)

    def is_first(self, slot: int) -> bool:
        """Whether a loss is the first since a worker named an epoch; asked once about each, or when it evaluates."""
        is_first = slot in self._begun
        self._begun.discard(slot)
        return is_first

    def epoch_of(self, slot: int) -> int:
        """The epoch that a worker named last."""
        return self._epochs.get(slot, UNKNOWN)

    def is_training(self, slot: int, told: Mapping[str, bytes]) -> bool:
        """Whether a worker's bar (`step` of `total`) belongs to a training epoch."""
        step, total = int(told.get("step", 0)), told.get("total", b"")
        full = self._full.get(slot)
        if full is not None:
            return full == (step, total)
        if total.isdigit() and step >= int(total):
            self._full[slot] = (step, total)
        return True


class EpochSummaryFilter:
    """Some jobs tell an epoch's loss and no step's, others both: an epoch's is their sum then, and no sample."""

    def __init__(self) -> None:
        self._stepped: set[int] = set()

    def note_sample(self, slot: int, sample: Mapping[str, bytes]) -> None:
        """Note what a worker's sample tells."""
        if "step" in sample and "loss" in sample:
            self._stepped.add(slot)

    def is_sample(self, slot: int, epoch: int) -> bool:
        """Whether the loss of an epoch is all that a worker tells."""
        return epoch != UNKNOWN and slot not in self._stepped


class LowConfidenceFilter:
    """Rows of a step that tell a training loss beside an evaluation's, or none: all there is for some jobs.

    For others they stand between their steps. So the first is held until the next comes with no step between.
    """

    def __init__(self) -> None:
        self._held: dict[int, tuple[int, Record]] = {}
        self._sure: set[int] = set()
        self._stepped: set[int] = set()

    def stepped(self, slot: int) -> None:
        """A worker told a step with its loss."""
        if slot not in self._stepped:
            self._stepped.add(slot)
            self._held.pop(slot, None)

    def samples(self, slot: int, step: int, record: Record) -> tuple[Record, ...]:
        """Which rows are samples, now that a worker told this one: it, and one that was held."""
        if slot in self._stepped:
            return ()
        if slot in self._sure:
            return (record,)
        before, held = self._held.get(slot, (step, record))
        if step <= before:
            self._held[slot] = step, record
            return ()
        self._sure.add(slot)
        del self._held[slot]
        return held, record


class EvaluationFilter:
    """Rows beneath a heading such as `Validation:` look like training's, but do not go on from where that was.

    Those that go on as evenly as before are the evaluation's still, however far it goes.
    """

    def __init__(self) -> None:
        self.opened: dict[int, tuple[int, int, int, int]] = {}
        """Of each worker that evaluates: epoch and step of its training before, the step evaluated last, and how
        many it went on by."""

    def begin(self, slot: int, epoch: int, step: int) -> None:
        """A worker evaluates, which has trained so far."""
        self.opened[slot] = epoch, step, UNKNOWN, UNKNOWN

    def end(self, slot: int) -> None:
        """A worker trains."""
        self.opened.pop(slot, None)

    def is_training(self, slot: int, epoch: int, step: int) -> bool:
        """Whether a worker's row is training's again: it goes on from there, or begins once more."""
        if slot not in self.opened:
            return True
        trained_epoch, trained_step, evaluated, pace = self.opened[slot]
        going = step - evaluated if UNKNOWN != evaluated < step else UNKNOWN
        if UNKNOWN not in (epoch, trained_epoch) and epoch != trained_epoch:
            goes_on = epoch > trained_epoch
        else:
            goes_on = UNKNOWN != trained_step < step and (going == UNKNOWN or going != pace)
        if goes_on or UNKNOWN != step < evaluated:
            self.end(slot)
            return True
        self.opened[slot] = trained_epoch, trained_step, step, going
        return False


class SplitSampleJoiner:
    """Samples that trainers print over several lines: a step, and its figures beneath it or above.

    What is told again belongs to the next sample.
    """

    def __init__(self) -> None:
        self._held: dict[tuple[int, str], dict[str, bytes]] = {}

    def add(self, slot: int, name: str, news: Mapping[str, bytes]) -> Mapping[str, bytes] | None:
        """Add what a line of a worker told; all that is known of the sample, once its step and loss are."""
        held = self._held.setdefault((slot, name), {})
        if not held.keys().isdisjoint(news):
            held.clear()
        held.update(news)
        while len(self._held) > MOST_HELD:
            del self._held[next(iter(self._held))]
        return held if {"step", "loss"} <= held.keys() else None
