"""How far a run has come: the totals of its steps and epochs, and the time that is left."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from tui.logs._compat_numpy import Floats, Ints, np
from tui.logs.core_row import UNKNOWN

if TYPE_CHECKING:
    from tui.logs.history.history import History


class Progress(NamedTuple):
    """How far a run has come; None is unknown."""

    epochs: int | None
    """The epochs of the run."""
    steps: int | None
    """The number to which `step` counts, in each epoch or over the run."""
    epoch_steps: int | None
    """The steps of an epoch, if they begin again in each; None if they count on, while that is unknown, or without
    steps."""
    first_epoch: int
    """The number of the first epoch: 0 or 1."""
    of: str | None = None
    """What `done` counts: the `epochs` of the run or, if the length of an epoch is unknown, `steps`."""
    done: float | None = None
    """The epochs or steps that are done, with the part of the current epoch."""

    @property
    def total(self) -> int | None:
        """Return the number of which `done` is a part."""
        return self.epochs if self.of == "epochs" else self.steps

    @property
    def share(self) -> float | None:
        """Return the share that is done, 0 to 1."""
        return None if self.done is None or self.total is None else self.done / self.total

    def done_at(self, epoch: Ints, step: Ints) -> Floats:
        """Return what `done` was at these epochs and steps; NaN where they are unknown."""
        if self.of == "steps":
            return np.where(step == UNKNOWN, np.nan, step)
        in_epoch = np.ones(len(step)) if self.epoch_steps is None else np.minimum(step / self.epoch_steps, 1)
        is_unknown = (epoch == UNKNOWN) | ((step == UNKNOWN) & (self.epoch_steps is not None))
        return np.where(is_unknown, np.nan, epoch - self.first_epoch + in_epoch)


def progress_of(
    facts: Mapping[str, Any],
    epoch: int | None,
    step: int | None,
    *,
    first_epoch: int | None,
    epoch_ranges: Mapping[int, tuple[int, int]],
) -> Progress | None:
    """Return how far a run has come at this epoch and step of its median core; None if no total is known.

    `first_epoch` is the smallest that was named; `epoch_ranges` are the smallest and largest step of each epoch. A
    total that the run has exceeded counts something else, such as the batches of an evaluation.
    """
    first_epoch = 0 if first_epoch == 0 else 1
    printed_epochs = facts.get("printed_epochs")
    epochs = facts.get("total_epochs") or printed_epochs
    if epochs and epoch is not None and epoch - first_epoch >= epochs:
        epochs = None
    length, printed = facts.get("steps_per_epoch"), facts.get("printed_steps")
    steps = length or facts.get("total_steps") or printed
    if steps and step is not None and step > steps:
        steps = length = None
    if not length and (highest := _steps_that_begin_again(epoch_ranges)):
        length = steps or highest
    if not epochs and not steps:
        return None
    progress = Progress(epochs or None, steps or None, length or None, first_epoch)
    # Without a step, an epoch whose total is not printed behind it may be one of Transformers' fractions, `0.25`.
    if epochs and epoch is not None and (length or (step is None and printed_epochs)):
        progress = progress._replace(of="epochs")
    elif steps and step is not None:
        progress = progress._replace(of="steps")
    else:
        return progress
    place = (np.array([UNKNOWN if number is None else number]) for number in (epoch, step))
    return progress._replace(done=float(progress.done_at(*place)[0]))


def _steps_that_begin_again(epoch_ranges: Mapping[int, tuple[int, int]]) -> int | None:
    """Return the largest step of the newest complete epoch if steps begin again in each; else None."""
    newest = sorted(epoch for epoch in epoch_ranges if epoch != UNKNOWN)[-2:]
    if len(newest) < 2:
        return None
    (before, highest), (after, _) = (epoch_ranges[epoch] for epoch in newest)
    return highest if after - before < max(1, highest - after) else None


def seconds_left(progress: Progress, history: History, rows: Ints) -> float | None:
    """Return the seconds from the newest line of these rows until all is done; None if unknown.

    They are reckoned at the pace of the newer half of what was done, which includes evaluations and other pauses, but
    nothing before a restart of the job.
    """
    if progress.done is None or progress.total is None or not len(rows):
        return None
    pod = history.pod(rows)
    done, time = progress.done_at(pod.epoch, pod.step), pod.time
    known = ~np.isnan(done) & (time > history.restarted)
    done, time = done[known], time[known]
    begin = newest_count(done)
    done, time = np.maximum.accumulate(done[begin:]), time[begin:]
    if len(done) < 2:
        return None
    middle = int(np.searchsorted(done, (done[0] + done[-1]) / 2, side="right")) - 1
    gained, took = done[-1] - done[middle], time[-1] - time[middle]
    return float(max(0.0, progress.total - progress.done) * took / gained) if gained > 0 and took > 0 else None


def newest_count(count: Ints | Floats) -> int:
    """Return where a count began again for the last time: behind a number that is never exceeded."""
    if not len(count):
        return 0
    highest, later = np.maximum.accumulate(count), np.maximum.accumulate(count[::-1])[::-1]
    ends = np.flatnonzero((count[1:] < count[:-1]) & (later[1:] <= highest[:-1]))
    return int(ends[-1]) + 1 if len(ends) else 0
