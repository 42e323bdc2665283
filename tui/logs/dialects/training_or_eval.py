"""Separate training samples from the evaluations, summaries and repeats that look like them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tui.logs.core_row import HAS_LOSS, HAS_RATE, UNKNOWN
from tui.logs.dialects.dialect import Dialect, Role
from tui.logs.state.samples import Record

_PACE_WITHIN_BYTES = 2048
"""Most bytes between the beginnings of a sample and of the line with its rate."""

_MOST_OF_AN_EPOCH = 5
"""Most losses without a name of their own that a job prints once an epoch: of training, evaluations and tests."""


@dataclass(slots=True)
class _Evaluation:
    """Rows below a heading such as `Validation:`, which look like training's but do not continue where it stopped."""

    trained_epoch: int
    trained_step: int
    step: int = UNKNOWN
    """The step evaluated last."""
    stride: int = UNKNOWN
    """The difference between the last two steps."""
    begins_again: bool = False
    """Whether the last two steps were the same, so that the second may be training's."""

    def is_training(self, epoch: int, step: int) -> bool:
        """Return whether a row is training's again: it continues where training stopped, or its step goes back.

        A row whose step has the same difference as the one before is the evaluation's, however large the step is.
        Of two rows with the same step the second may be training's, which the next step shows.
        """
        stride = step - self.step if UNKNOWN != self.step < step else UNKNOWN
        if UNKNOWN not in (epoch, self.trained_epoch) and epoch != self.trained_epoch:
            continues = epoch > self.trained_epoch
        else:
            continues = UNKNOWN != self.trained_step < step and (stride == UNKNOWN or stride != self.stride)
        if continues or UNKNOWN != step < self.step or (self.begins_again and step > self.step):
            return True
        self.step, self.stride, self.begins_again = step, stride, UNKNOWN != step == self.step
        return False


@dataclass(slots=True)
class _WorkerState:
    """What a worker has printed so far that decides what its next lines are."""

    epoch: int = UNKNOWN
    """The epoch that a line about the epoch named last."""
    heading: int = UNKNOWN
    """The epoch of the last heading, to which the steps below belong."""
    is_epoch_new: bool = False
    """Whether no loss was printed since an epoch was named."""
    losses: int = 0
    """Losses without a step since an epoch was named, or an evaluation began."""
    repeats_losses: bool = False
    """Whether it has printed more of them than the ends of an epoch have: they are those of batches."""
    full_bar: tuple[int, bytes] | None = None
    """Last step and total of its progress bar, once that is full."""
    total: bytes | None = None
    """The total of the first bar without a name below the heading of an epoch; one with another total evaluates."""
    has_steps: bool = False
    """Whether it prints steps with a loss; then an epoch's loss is their mean, and no sample."""
    has_epochs: bool = False
    """Whether it prints epochs with a loss; then a loss without an epoch is no sample."""
    has_certain_steps: bool = False
    """Whether a step with a loss was a certain sample; then doubtful rows are no samples."""
    held_row: Record | None = None
    """The first doubtful row, a sample if another follows without a certain step in between."""
    trusts_rows: bool = False
    """Whether it prints only doubtful rows, which therefore are samples."""
    held_loss: Record | None = None
    """The first loss without step and epoch, which may be a final result."""
    trusts_losses: bool = False
    """Whether it prints only losses without step and epoch, which therefore are samples."""
    is_evaluating: bool = False
    """Whether the last heading was an evaluation's, and no loss without a step was printed since."""
    evaluation: _Evaluation | None = None
    newest: Record | None = None
    """The newest sample, which a rate on another line may complete."""
    parts: dict[str, dict[str, bytes]] = field(default_factory=dict)
    """Unfinished samples by the name of the dialect."""

    def continues_bar(self, values: Mapping[str, bytes]) -> bool:
        """Return whether a bar belongs to a training epoch.

        Keras draws the same bar when it trains and when it evaluates, but names an epoch only before training: a bar
        that begins again without a new epoch is an evaluation's.
        """
        step, total = int(values.get("step", 0)), values.get("total", b"")
        if self.full_bar is not None:
            return self.full_bar == (step, total)
        if total.isdigit() and step >= int(total):
            self.full_bar = step, total
        return True

    def draws_again(self, total: bytes) -> bool:
        """Return whether a bar without a name has the total of the first one below the heading of the epoch."""
        self.total = self.total or total
        return self.total == total

    def take_pace(self, pace: Record) -> tuple[Record, ...]:
        """Return the newest step with only this rate, which completes its sample; nothing if it has a rate."""
        newest, self.newest = self.newest, None
        if newest is None or newest[4] == UNKNOWN or newest[8] & HAS_RATE or not pace[8] & HAS_RATE:
            return ()
        return ((*newest[:5], *pace[5:]),) if 0 <= pace[-1] - newest[-1] <= _PACE_WITHIN_BYTES else ()

    def take_first_loss(self) -> bool:
        """Return whether this loss is the first since an epoch was named, or one of its batches."""
        was_new, self.is_epoch_new = self.is_epoch_new, False
        self._count_loss()
        return was_new or self.repeats_losses

    def _count_loss(self) -> None:
        self.losses += 1
        self.repeats_losses |= self.losses > _MOST_OF_AN_EPOCH

    def take_doubtful(self, record: Record) -> tuple[Record, ...]:
        """Return the doubtful rows that this one shows to be samples."""
        if self.has_certain_steps:
            return ()
        if self.trusts_rows:
            return (record,)
        held = self.held_row
        if held is None or record[4] <= held[4]:
            self.held_row = record
            return ()
        self.trusts_rows, self.held_row = True, None
        return held, record

    def take_lone_loss(self, record: Record) -> tuple[Record, ...]:
        """Return the losses without step and epoch that this one shows to be samples.

        A single one may be a final result; the first one below an evaluation's heading is the evaluation's.
        """
        if self.is_evaluating:
            self.is_evaluating = False
            return ()
        self._count_loss()
        if self.trusts_losses:
            return (record,)
        held, self.held_loss = self.held_loss, record
        if held is None:
            return ()
        self.trusts_losses, self.held_loss = True, None
        return held, record


class TrainingStage:
    """Decides which matches are training samples, from what each worker has printed before."""

    def __init__(self) -> None:
        self._workers: dict[int, _WorkerState] = {}
        """By slot."""

    def restart(self) -> None:
        """Note that the job was restarted, perhaps during an evaluation, and trains from an earlier step."""
        for worker in self._workers.values():
            worker.evaluation, worker.heading, worker.is_evaluating = None, UNKNOWN, False

    def name_epoch(self, slot: int, epoch: int, moment: str) -> None:
        """Note that a worker named an epoch, at a `Dialect.moment`; one named again may head its evaluation."""
        worker = self._worker(slot)
        is_again = epoch == worker.epoch
        worker.epoch, worker.is_epoch_new = epoch, worker.is_epoch_new if is_again else bool(moment)
        worker.losses = 0
        if not moment:
            return
        if moment == "above":
            worker.heading = epoch
        worker.full_bar = worker.total = None
        if not is_again:
            worker.evaluation, worker.is_evaluating = None, False

    def begin_training(self, slot: int) -> None:
        """Note that a worker's next lines are training's."""
        worker = self._worker(slot)
        worker.evaluation, worker.is_evaluating = None, False

    def begin_evaluation(self, slot: int, newest: tuple[int, int] | None) -> None:
        """Note that a worker's next lines are an evaluation's; `newest` are epoch and step of its newest sample."""
        worker = self._worker(slot)
        worker.is_epoch_new, worker.is_evaluating, worker.newest, worker.losses = False, True, None, 0
        worker.evaluation = None if newest is None else _Evaluation(*newest)

    def epoch_of(self, slot: int) -> int:
        """Return the epoch that a worker named last."""
        return self._worker(slot).epoch

    def heading_of(self, slot: int) -> int:
        """Return the epoch of the last heading of a worker."""
        return self._worker(slot).heading

    def join_parts(self, slot: int, dialect: str, values: Mapping[str, bytes]) -> Mapping[str, bytes] | None:
        """Add values to a sample that a worker prints on several lines; return it once step and loss are known.

        A value that is printed again belongs to the next sample.
        """
        parts = self._worker(slot).parts.setdefault(dialect, {})
        if not parts.keys().isdisjoint(values):
            parts.clear()
        parts.update(values)
        return parts if {"step", "loss"} <= parts.keys() else None

    def samples(self, dialect: Dialect, values: Mapping[str, bytes], record: Record) -> tuple[Record, ...]:
        """Return the training samples that a match shows to be certain: itself, a held one before it, or none."""
        slot, epoch, step = record[0], record[3], record[4]
        worker, role = self._worker(slot), dialect.role
        if role is Role.PACE:
            return worker.take_pace(record)
        if role.has_epoch_above and not worker.continues_bar(values):
            return ()
        if (
            role is Role.SAMPLE
            and "total" in values
            and worker.heading != UNKNOWN
            and not worker.draws_again(values["total"])
        ):
            return ()
        if role.is_summary and worker.has_steps:
            return ()
        if role.is_summary and epoch == UNKNOWN:
            return () if worker.has_epochs else worker.take_lone_loss(record)
        if role is Role.FIRST_LOSS_OF_EPOCH and not worker.take_first_loss():
            return ()
        if worker.evaluation is not None:
            if not worker.evaluation.is_training(epoch, step):
                return ()
            worker.evaluation = None
        worker.has_steps |= step != UNKNOWN and "loss" in values
        worker.has_epochs |= epoch != UNKNOWN
        if role is Role.DOUBTFUL:
            return worker.take_doubtful(record)
        if step != UNKNOWN and record[8] & HAS_LOSS and not worker.has_certain_steps:
            worker.has_certain_steps, worker.held_row = True, None
        worker.newest = record
        return (record,)

    def _worker(self, slot: int) -> _WorkerState:
        worker = self._workers.get(slot)
        if worker is None:
            worker = self._workers[slot] = _WorkerState()
        return worker
