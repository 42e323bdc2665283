"""The pod's chart over the run, and each core's curve, whose points are the samples that the core printed."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np

from tui.logs.core_row import HAS_LOSS, HAS_RATE, json_number, optional_int
from tui.logs.log_time import format_time
from tui.logs.snapshot import Snapshot
from tui.text.numbers import round_figure

MOST_POINTS = 1 << 18
"""Most points of all curves together: with more than 4,096 cores, each has fewer than 64."""

FEWEST_POINTS = 8
"""Fewest points of a curve, with any number of cores."""

POINT_COLUMNS = ("epoch", "step", "time", "loss", "rate")


@dataclass(frozen=True, slots=True)
class ChartPoint:
    """The pod at one moment of the run, for charts. `step` and `epoch` are numbered as in the log."""

    epoch: int | None
    step: int | None
    loss: float | None
    loss_min: float | None
    loss_max: float | None
    rate: float | None


@dataclass(frozen=True, slots=True)
class ReportCurve:
    """One core's points, oldest first, as lists of equal length; None: unknown; non-finite numbers are strings."""

    core: int | None
    device: str | None
    worker: int | None
    address: str | None
    key: str
    """The core's number; if that is missing or not unique, with worker and device."""
    points: dict[str, list[Any]]


def chart_of(snapshot: Snapshot) -> tuple[ChartPoint, ...]:
    """Return the pod at each recorded moment; none where no history is kept."""
    if snapshot.history is None or not len(snapshot):
        return ()
    pod = snapshot.history.pod(snapshot.row, rates_add=snapshot.rates_add)
    columns = (pod.epoch, pod.step, pod.loss_median, pod.loss_min, pod.loss_max, pod.rate_total)
    return tuple(
        ChartPoint(
            None if epoch < 0 else int(epoch),
            None if step < 0 else int(step),
            *(round_figure(value) if math.isfinite(value) else None for value in figures),
        )
        for epoch, step, *figures in zip(*columns, strict=True)
    )


def curves_of(snapshot: Snapshot) -> tuple[ReportCurve, ...]:
    """Return the curve of every core that has printed a sample."""
    history = snapshot.history
    if history is None or not len(snapshot):
        return ()
    most = max(FEWEST_POINTS, MOST_POINTS // len(snapshot))
    counts = Counter(snapshot.core.tolist())
    curves = []
    for index in range(len(snapshot)):
        curve, row = history.curve(int(snapshot.row[index])), snapshot.row_at(index)
        if not len(curve.loss):
            continue
        chosen = np.unique(np.linspace(0, len(curve.loss) - 1, min(most, len(curve.loss))).round().astype(int))
        known, kind = int(snapshot.known[index]), int(snapshot.time_kind[index])
        points: dict[str, list[Any]] = {
            "epoch": [optional_int(epoch) for epoch in curve.epoch[chosen]],
            "step": [optional_int(step) for step in curve.step[chosen]],
            "time": [format_time(seconds, kind) for seconds in curve.time[chosen].tolist()],
            "loss": [_figure(loss, known & HAS_LOSS) for loss in curve.loss[chosen].tolist()],
            "rate": [_figure(rate, known & HAS_RATE) for rate in curve.rate[chosen].tolist()],
        }
        is_named = row.core is not None and counts[row.core] == 1
        key = str(row.core) if is_named else _key(row.core, row.worker, row.device)
        curves.append(ReportCurve(row.core, row.device, row.worker, row.address, key, points))
    return tuple(curves)


def _key(core: int | None, worker: int | None, device: str | None) -> str:
    parts = (("core", core), ("worker", worker), ("device", device))
    return " ".join(f"{name} {value}" for name, value in parts if value is not None) or "null"


def _figure(value: float, is_known: int) -> Any:
    """Round a number to single precision; None for nan where the core printed no such value."""
    if math.isnan(value) and not is_known:
        return None
    return json_number(float(f"{value:.7g}"))
