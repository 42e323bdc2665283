"""Each core's curve over the run, for programs: a point is a sample that the core printed, with its own step."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np

from tui.logs.snapshot import HAS_LOSS, HAS_RATE, Snapshot, format_time, json_number, optional_int

MOST_POINTS = 1 << 18
"""Points of all curves together: a pod of more than 4,096 cores has fewer than 64 for each."""

FEWEST_POINTS = 8
"""Points of a curve, however many cores there are."""

POINT_COLUMNS = ("epoch", "step", "time", "loss", "rate")


@dataclass(frozen=True, slots=True)
class ReportCurve:
    """One core's points, oldest first: lists of equal length; None is unknown, non-finite numbers are strings."""

    core: int | None
    device: str | None
    worker: int | None
    address: str | None
    key: str
    """The core's number; where several have one number, or none, with the worker and device that tell them apart."""
    points: dict[str, list[Any]]


def curves_of(snapshot: Snapshot) -> tuple[ReportCurve, ...]:
    """Return the curve of every core that has printed a sample."""
    history = snapshot.history
    if history is None or not len(snapshot):
        return ()
    most = max(FEWEST_POINTS, MOST_POINTS // len(snapshot))
    named = Counter(snapshot.core.tolist())
    curves = []
    for place in range(len(snapshot)):
        curve, row = history.curve(int(snapshot.row[place])), snapshot.row_at(place)
        if not len(curve.loss):
            continue
        chosen = np.unique(np.linspace(0, len(curve.loss) - 1, min(most, len(curve.loss))).round().astype(int))
        known, kind = int(snapshot.known[place]), int(snapshot.time_kind[place])
        points: dict[str, list[Any]] = {
            "epoch": [optional_int(epoch) for epoch in curve.epoch[chosen]],
            "step": [optional_int(step) for step in curve.step[chosen]],
            "time": [format_time(seconds, kind) for seconds in curve.time[chosen].tolist()],
            "loss": [_figure(loss, known & HAS_LOSS) for loss in curve.loss[chosen].tolist()],
            "rate": [_figure(rate, known & HAS_RATE) for rate in curve.rate[chosen].tolist()],
        }
        is_named = row.core is not None and named[row.core] == 1
        key = str(row.core) if is_named else _key(row.core, row.worker, row.device)
        curves.append(ReportCurve(row.core, row.device, row.worker, row.address, key, points))
    return tuple(curves)


def _key(core: int | None, worker: int | None, device: str | None) -> str:
    parts = (("core", core), ("worker", worker), ("device", device))
    return " ".join(f"{name} {value}" for name, value in parts if value is not None) or "null"


def _figure(value: float, is_known: int) -> Any:
    """A number as single precision keeps it; None for a nan where the core's lines tell none."""
    if math.isnan(value) and not is_known:
        return None
    return json_number(float(f"{value:.7g}"))
