"""The scaling ladder: start with the smallest slice, then use larger ones while they are worth their cost.

Scaling efficiency is the rate per core relative to that of the smallest slice of the same generation.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from typing import Any

from tui.pod.accelerator import parse
from tui.text.numbers import round_figure
from tui.text.printable import format_count

WORTH_GOING_UP = 0.8
"""Scaling efficiency below which a larger slice is not worth its cost."""
_ONLY_SIZE = "the only size with a rate"
_MADE_UP = "; a rehearsal: its rate is made up"
_NO_TYPE = "no type"
"""The generation of slices without an accelerator type."""
_DOUBLING = tuple(2**power for power in range(3, 14))
SIZES: dict[str, tuple[int, ...]] = {
    "v2": (8, 32, 128, 256, 512),
    "v3": (8, 32, 64, 128, 256, 512, 1024, 2048),
    "v4": _DOUBLING,
    "v5p": _DOUBLING,
    "v5litepod": (1, 4, 8, 16, 32, 64, 128, 256),
    "v6e": (1, 4, 8, 16, 32, 64, 128, 256),
    "tpu7x": _DOUBLING,
}
"""The usual sizes of each generation, as the number in the type's name (Cloud TPU documentation, TPU versions)."""


@dataclass(frozen=True)
class FinishedRun:
    """A finished run for the ladder; `rate_total` in examples/s over all cores.

    `cores` counts XLA devices. It is used for slices whose type does not give the number: a local pod, a hosts file.
    """

    run: str
    accelerator_type: str | None
    succeeded: bool
    rate_total: float | None
    cores: int | None = None
    rehearsal: bool = False
    """Whether its figures are invented; they are used only if no other run of the size has a rate."""


@dataclass(frozen=True)
class _Size:
    """A slice size with finished runs; sizes are compared within their generation."""

    generation: str
    name: str
    cores: int


@dataclass(frozen=True)
class Rung:
    """One slice size: its fastest successful run, and how it compares with the smallest size.

    `rate_per_core` is in examples/s. Figures are None where no successful run reported a rate.
    """

    accelerator_type: str
    cores: int
    run: str
    rate_total: float | None
    rate_per_core: float | None
    efficiency: float | None
    verdict: str
    rehearsal: bool = False


@dataclass(frozen=True)
class Ladder:
    """The rungs of one generation, smallest first, and whether to go up to `next_type`, with the reason."""

    generation: str
    rungs: tuple[Rung, ...]
    go_up: bool
    next_type: str | None
    advice: str

    def to_json(self) -> dict[str, Any]:
        """Return the ladder for `--json` output; names are stable."""
        return asdict(self)


def make_ladders(runs: Iterable[FinishedRun]) -> tuple[Ladder, ...]:
    """Return a ladder for each generation; runs with an unknown number of cores are left out."""
    by_generation: dict[str, dict[_Size, list[FinishedRun]]] = {}
    for run in runs:
        size = _size_of(run)
        if size is not None:
            by_generation.setdefault(size.generation, {}).setdefault(size, []).append(run)
    return tuple(_ladder(generation, sizes) for generation, sizes in sorted(by_generation.items()))


def is_comparable(run: FinishedRun) -> bool:
    """Return whether the run's number of cores is known, so that it belongs to a rung."""
    return _size_of(run) is not None


def _size_of(run: FinishedRun) -> _Size | None:
    """Return the size that the type gives, or else the one by the counted cores."""
    name = run.accelerator_type or ""
    kind = parse(name)
    if kind is not None:
        return _Size(kind.generation, kind.name, kind.devices)
    if not run.cores:
        return None
    generation, dash, number = name.rpartition("-")
    if dash and number.isdecimal():
        return _Size(generation, name, run.cores)
    return _Size(_NO_TYPE, format_count(run.cores, "core"), run.cores)


def _ladder(generation: str, sizes: dict[_Size, list[FinishedRun]]) -> Ladder:
    rungs: list[Rung] = []
    smallest: float | None = None
    for size in sorted(sizes, key=lambda size: size.cores):
        rung = _rung(size, sizes[size], smallest)
        smallest = smallest or rung.rate_per_core
        rungs.append(rung)
    measured = [rung for rung in rungs if rung.efficiency is not None]
    if len(measured) == 1:
        rungs = [replace(rung, verdict=_ONLY_SIZE) if rung in measured else rung for rung in rungs]
    go_up, next_type, advice = _advice(generation, rungs)
    made_up = [rung.accelerator_type for rung in rungs if rung.rehearsal]
    if made_up:
        advice += f"; the rate on {', '.join(made_up)} is made up, by a rehearsal"
        rungs = [replace(rung, verdict=rung.verdict + _MADE_UP * rung.rehearsal) for rung in rungs]
    return Ladder(generation, tuple(rungs), go_up, next_type, advice)


def _rung(size: _Size, runs: list[FinishedRun], smallest: float | None) -> Rung:
    rates = [(_rate_of(run), run) for run in runs if run.succeeded and _rate_of(run)]
    if not rates:
        succeeded = [run for run in runs if run.succeeded]
        verdict = "works, but reported no rate" if succeeded else "no successful run yet"
        return Rung(size.name, size.cores, (succeeded or runs)[-1].run, None, None, None, verdict)
    real = [(rate, run) for rate, run in rates if not run.rehearsal]
    rate, run = max(real or rates, key=lambda pair: pair[0])
    per_core = round_figure(rate / size.cores)
    if smallest is None:
        verdict = "smallest (baseline)"
        return Rung(size.name, size.cores, run.run, round_figure(rate), per_core, 1.0, verdict, run.rehearsal)
    efficiency = round_figure(per_core / smallest)
    verdict = "scales" if efficiency >= WORTH_GOING_UP else f"scales badly: loses {1 - efficiency:.0%} per core"
    return Rung(size.name, size.cores, run.run, round_figure(rate), per_core, efficiency, verdict, run.rehearsal)


def _rate_of(run: FinishedRun) -> float:
    """Return the run's rate; 0 if it has none that can be compared."""
    rate = run.rate_total or 0.0
    return rate if math.isfinite(rate) and rate > 0 else 0.0


def _advice(generation: str, rungs: list[Rung]) -> tuple[bool, str | None, str]:
    top = rungs[-1]
    if top.efficiency is None:
        return False, None, f"{top.verdict} on {top.accelerator_type}"
    if top.verdict == _ONLY_SIZE:
        return _advice_without_comparison(generation, top.accelerator_type)
    if top.efficiency < WORTH_GOING_UP:
        better = [rung for rung in rungs if rung.efficiency is not None and rung.efficiency >= WORTH_GOING_UP][-1]
        advice = (
            f"do not go up: {top.accelerator_type} keeps {top.efficiency:.0%} of the rate per core, less than "
            f"{WORTH_GOING_UP:.0%}; {better.accelerator_type} is the largest size worth using. "
            "Check the input first: loaders, bucket region"
        )
        return False, None, advice
    share = f"{top.accelerator_type} keeps {top.efficiency:.0%} of the rate per core"
    if generation not in SIZES:
        return True, None, f"go up to twice as many cores: {share}"
    next_type = _next_size(generation, top.accelerator_type)
    if next_type is None:
        return False, None, f"{top.accelerator_type} is the largest size"
    return True, next_type, f"go up to {next_type}: {share}"


def _advice_without_comparison(generation: str, only: str) -> tuple[bool, str | None, str]:
    """Return the advice where a single size has a rate."""
    next_type = _next_size(generation, only) if generation in SIZES else None
    if next_type is None and generation in SIZES:
        return False, None, f"nothing to compare with, and {only} is the largest"
    larger = next_type or "twice as many cores"
    advice = f"nothing to compare with: run on {larger}, too, and compare its rate per core with {only}'s"
    return False, next_type, advice


def _next_size(generation: str, name: str) -> str | None:
    number = int(name.rpartition("-")[2])
    return next((f"{generation}-{size}" for size in SIZES[generation] if size > number), None)
