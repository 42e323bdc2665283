"""The figures of every epoch, and the epoch of samples that name none."""

from __future__ import annotations

from typing import Any

from tui.logs._compat_numpy import np
from tui.logs.core_row import UNKNOWN, EpochSummary
from tui.logs.state.core_table import CoreTable

MOST_EPOCHS = 4096
"""Most epochs whose figures are kept, the newest ones."""


class EpochBook:
    """Collects the figures of every epoch and finds the epoch of samples that name none.

    A core begins its next epoch when its step goes back. The number of the epoch comes from a line that names it,
    before or after its samples.
    """

    def __init__(self) -> None:
        self.epochs: dict[int, EpochSummary] = {}
        self.offset: int | None = None
        """The epoch of a core whose step has never gone back; None until an epoch is named."""
        self._anchored: dict[tuple[int, str], None] = {}
        self._earlier: set[int] = set()
        """Epochs with the figures of an earlier attempt, which those of a later one replace."""

    def add_figures(self, epoch: int, figures: dict[str, Any]) -> None:
        """Add figures of an epoch; of several values, as each worker's master prints them, the first counts."""
        summary = self.epochs.get(epoch)
        if summary is None or epoch in self._earlier:
            summary = EpochSummary(epoch)
            self._earlier.discard(epoch)
        news = {name: value for name, value in figures.items() if getattr(summary, name) is None}
        self.epochs[epoch] = summary._replace(**news)
        while len(self.epochs) > MOST_EPOCHS:
            del self.epochs[next(iter(self.epochs))]

    def restart(self) -> None:
        """Note that the job was restarted, so that its lines name epochs again."""
        self._anchored.clear()
        self._earlier = set(self.epochs)

    def anchor(self, epoch: int, moment: str, slot: int, table: CoreTable) -> None:
        """Note that a worker's line named an epoch, before its samples (`begin`) or after them (`end`).

        The samples of other workers may have been read before or after those of the worker that printed the line, so
        only its own cores count, unless it has none.
        """
        if moment not in ("begin", "end") or (epoch, moment) in self._anchored:
            return
        self._anchored[(epoch, moment)] = None
        while len(self._anchored) > 2 * MOST_EPOCHS:
            del self._anchored[next(iter(self._anchored))]
        counted = (table.column("count") > 0) & (table.column("epoch") == UNKNOWN)
        own = counted & (table.column("slot") == slot)
        if own.any() or (self.offset is None and moment == "begin"):
            counted = own
        wraps = int(np.median(table.column("wraps")[counted])) if counted.any() else 0
        goes_back = (table.column("last")[counted] >= table.restarted_at).any()
        self.offset = epoch - wraps + (moment == "end") - bool(goes_back)

    def summaries(self) -> tuple[EpochSummary, ...]:
        """Return every epoch, ascending."""
        return tuple(self.epochs[epoch] for epoch in sorted(self.epochs))
