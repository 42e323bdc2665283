"""The newest figures of a run, read cheaply from the ends of its logs for lists of many runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tui.runs.read.mirror_tail import MirrorTail
from tui.runs.record.findings import Finding
from tui.runs.record.run_directory import RunDirectory
from tui.text.numbers import format_figure

if TYPE_CHECKING:
    from tui.logs.dialects.dialect import Dialect
    from tui.logs.snapshot import Snapshot

WORKERS_READ = 8
"""Limit on the workers whose logs are read, spread over the pod: all workers train in step."""
MOST_NAN = 16
"""Limit on the cores listed whose loss is not a number."""
MOST_STRAGGLERS = 16
SLOW_PACE = 0.8
"""A core counts as a straggler here up to this share of the median core's rate."""
TAIL_BYTES = 16 * 1024
"""Bytes read of each log: about a hundred lines."""


@dataclass(frozen=True)
class LatestFigures:
    """The progress of a run: median epoch, step and loss of the cores that were read, None where none reports it.

    The loss is nan where no core has a finite one.
    """

    epoch: int | None = None
    step: int | None = None
    loss: float | None = None
    nan_cores: tuple[int | None, ...] = ()
    """Cores among those read whose newest loss is not a number."""
    stragglers: tuple[Finding, ...] = ()
    """Cores among those read that are behind or slow and whose rates show it too: the log of a worker may just have
    arrived later than another. A keeper reports only what lasts."""

    def __str__(self) -> str:
        """Return `loss 1.03036 step 28 epoch 4`, without the figures that are unknown."""
        loss = None if self.loss is None else format_figure(self.loss, 5)
        parts = (("loss", loss), ("step", self.step), ("epoch", self.epoch))
        return " ".join(f"{name} {value}" for name, value in parts if value is not None)


class FiguresCache:
    """The newest figures of runs, read again only if a log has grown. `dialects` are the user's own."""

    def __init__(self, dialects: Sequence[Dialect] = ()) -> None:
        self._dialects = dialects
        self._known: dict[str, tuple[tuple[int, ...], LatestFigures]] = {}

    def get(self, directory: RunDirectory) -> LatestFigures:
        """Return the run's newest figures; a log that cannot be read counts as empty."""
        workers = _spread([worker.index for worker in directory.run.workers])
        sizes = tuple(map(directory.log_size, workers))
        cached = self._known.get(directory.id)
        if cached is None or cached[0] != sizes:
            cached = sizes, self._read(directory, workers) if any(sizes) else LatestFigures()
            self._known[directory.id] = cached
        return cached[1]

    def _read(self, directory: RunDirectory, workers: Sequence[int]) -> LatestFigures:
        from tui.logs.demux import Demux
        from tui.logs.dialects.registry import BUILT_IN

        tail, demux = MirrorTail(directory), Demux(dialects=(*self._dialects, *BUILT_IN), history=False)
        for worker in workers:
            demux.feed(worker, tail.read_newest(worker, TAIL_BYTES, unfinished=True))
        demux.finish()
        snapshot = demux.snapshot()
        spread = snapshot.loss_spread
        loss = spread.median if spread else None
        nan_cores, stragglers = snapshot.nan_cores[:MOST_NAN], _stragglers(snapshot)
        return LatestFigures(snapshot.median_epoch, snapshot.median_step, loss, nan_cores, stragglers)


def _stragglers(snapshot: Snapshot) -> tuple[Finding, ...]:
    from tui.logs.state.straggler_cost import straggler_costs

    return tuple(
        Finding(cost.reason, cost.core, cost.worker, pace=cost.pace, steps_behind=cost.steps_behind)
        for cost in straggler_costs(snapshot)
        if cost.pace is not None and cost.pace <= SLOW_PACE
    )[:MOST_STRAGGLERS]


def _spread(workers: Sequence[int]) -> list[int]:
    """Return at most `WORKERS_READ` of the workers, at even distances."""
    return list(workers[:: -(-len(workers) // WORKERS_READ) or 1])
