"""Epochs: what the job says about each, and which one a core is in that does not say so itself."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

from tui.logs.snapshot import UNKNOWN, EpochSummary
from tui.logs.state.core_table import CoreTable
from tui.logs.vectorized.numpy_import import np

MOST_EPOCHS = 4096
"""Epochs whose figures are kept: the newest."""

_SPAN = re.compile(r"(?:(?P<days>-?\d+) days?, )?(?P<hours>\d+):(?P<minutes>\d\d):(?P<seconds>\d\d(?:\.\d+)?)")
_MEMBER = re.compile(r"\{([^{}]*)\}")


class EpochBook:
    """Figures of every epoch, and how the epoch of samples without one follows from what is told around them.

    A core's step going back starts its next epoch; a line that names an epoch, before its samples or after
    them, says which one that is.
    """

    def __init__(self) -> None:
        self.epochs: dict[int, EpochSummary] = {}
        self.offset: int | None = None
        """Epoch of a core whose step has never gone back; None while no epoch was named."""
        self._anchored: dict[tuple[int, str], None] = {}

    def tell(self, epoch: int, figures: dict[str, Any]) -> None:
        """Note figures of an epoch; each worker's master prints them, the first to tell one holds."""
        known = self.epochs.get(epoch) or EpochSummary(epoch)
        news = {name: value for name, value in figures.items() if getattr(known, name) is None}
        self.epochs[epoch] = replace(known, **news)
        while len(self.epochs) > MOST_EPOCHS:
            del self.epochs[next(iter(self.epochs))]

    def anchor(self, epoch: int, moment: str, table: CoreTable) -> None:
        """A line named an epoch: `begin` before its samples, `end` after them."""
        if not moment or (epoch, moment) in self._anchored:
            return
        self._anchored[(epoch, moment)] = None
        while len(self._anchored) > 2 * MOST_EPOCHS:
            del self._anchored[next(iter(self._anchored))]
        counted = (table.column("count") > 0) & (table.column("epoch") == UNKNOWN)
        if not counted.any():
            self.offset = epoch if moment == "begin" else epoch + 1
            return
        wraps = int(np.median(table.column("wraps")[counted]))
        self.offset = epoch - wraps - (1 if moment == "begin" else 0)

    def summaries(self) -> tuple[EpochSummary, ...]:
        """Every epoch, ascending."""
        return tuple(self.epochs[epoch] for epoch in sorted(self.epochs))


def read_span(text: str) -> float | None:
    """Seconds of `0:00:28` or `1 day, 1:01:01`."""
    match = _SPAN.fullmatch(text)
    if match is None:
        return None
    return (
        int(match["days"] or 0) * 86_400
        + int(match["hours"]) * 3_600
        + int(match["minutes"]) * 60
        + float(match["seconds"])
    )


def read_cluster(text: str) -> dict[str, Any]:
    """xla_dist's `Cluster configuration`: machines by address, and the TPU they drive."""
    clients_text, _, services_text = text.partition("service_workers:")
    clients = [[part.strip() for part in member.split(",")] for member in _MEMBER.findall(clients_text.lstrip("{"))]
    services = [[part.strip() for part in member.split(",")] for member in _MEMBER.findall(services_text)]
    first = services[0] if services and len(services[0]) >= 6 else [None] * 6
    return {
        "clients": [
            {"address": parts[0], "machine_type": parts[1], "zone": parts[2], "hostname": parts[3]}
            for parts in clients
            if len(parts) >= 4
        ],
        "accelerator_type": first[2],
        "zone": first[3],
        "runtime_version": first[4],
        "tpu": first[5],
        "service_workers": len(services),
    }
