"""The newest figures of a run from the ends of its logs alone: what a list of many runs can afford."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tui.runs.read.mirror_tail import MirrorTail
from tui.runs.record.findings import Finding
from tui.runs.record.run_directory import RunDirectory
from tui.text.numbers import figure

if TYPE_CHECKING:
    from tui.logs.dialects.registry import Dialect
    from tui.logs.snapshot import Snapshot

WORKERS_READ = 8
"""Workers whose logs are read, spread over the pod: workers train in step."""
MOST_NAN = 16
"""Cores without a loss that are named."""
MOST_STRAGGLERS = 16
SLOW_PACE = 0.8
"""Share of the median core's rate up to which a core counts as a straggler here."""
TAIL_BYTES = 16 * 1024
"""Bytes read of each: some hundred lines."""


@dataclass(frozen=True)
class LatestFigures:
    """Where a run is: median epoch, step and loss of the cores that were read, None for what none of them reports.

    The loss is nan where no core has a finite one.
    """

    epoch: int | None = None
    step: int | None = None
    loss: float | None = None
    nan_cores: tuple[int | None, ...] = ()
    """Cores, of those whose logs were read, whose newest loss is not a number."""

    stragglers: tuple[Finding, ...] = ()
    """Cores, of those whose logs were read, that are behind or slow, and whose rates show it, too: one log may have
    come later than another. A keeper reports only what lasts."""

    def __str__(self) -> str:
        """Return `loss 1.03036 step 28 epoch 4`, as far as it is known."""
        loss = None if self.loss is None else figure(self.loss, 5)
        parts = (("loss", loss), ("step", self.step), ("epoch", self.epoch))
        return " ".join(f"{name} {value}" for name, value in parts if value is not None)


class FiguresCache:
    """The newest figures of runs, read again only where a log has grown. `dialects` are a user's own."""

    def __init__(self, dialects: Sequence[Dialect] = ()) -> None:
        self._dialects = dialects
        self._known: dict[str, tuple[tuple[int, ...], LatestFigures]] = {}

    def get(self, directory: RunDirectory) -> LatestFigures:
        """Return the run's newest figures; a log that cannot be read counts as empty."""
        tail, workers = MirrorTail(directory), _spread([worker.index for worker in directory.run.workers])
        sizes = tuple(map(tail.size, workers))
        cached = self._known.get(directory.id)
        if cached is None or cached[0] != sizes:
            cached = sizes, self._read(tail, workers) if any(sizes) else LatestFigures()
            self._known[directory.id] = cached
        return cached[1]

    def _read(self, tail: MirrorTail, workers: Sequence[int]) -> LatestFigures:
        from tui.logs.demux import Demux
        from tui.logs.dialects.registry import BUILT_IN

        demux = Demux(dialects=(*self._dialects, *BUILT_IN), history=False)
        for worker in workers:
            demux.feed(worker, tail.read_newest(worker, TAIL_BYTES, unfinished=True))
        demux.finish()
        snapshot = demux.snapshot()
        spread = snapshot.loss_spread
        loss = spread.median if spread else float("nan") if snapshot.nan_cores else None
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
