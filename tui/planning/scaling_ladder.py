"""The ladder: the smallest slice first, then larger ones as long as they are worth it.

Scaling efficiency is the rate per core against that of the smallest slice of the same generation.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from tui.pod.accelerator import parse
from tui.text.printable import significant

WORTH_GOING_UP = 0.8
"""A rung that keeps less than this of the smallest slice's rate per core costs more than it brings."""
_NO_TYPE = "no type"
"""Stands for the generation of slices whose source names no accelerator type."""
_DOUBLING = tuple(2**power for power in range(3, 14))
SIZES: dict[str, tuple[int, ...]] = {
    "v2": (8, 32, 128, 256, 512),
    "v3": (8, 32, 64, 128, 256, 512, 1024, 2048),
    "v4": _DOUBLING,
    "v5p": _DOUBLING,
    "v5litepod": (1, 4, 8, 16, 32, 64, 128, 256),
    "v6e": (1, 4, 8, 16, 32, 64, 128, 256),
}
"""The usual sizes of each generation, as the number in the type's name (Cloud TPU documentation, TPU versions)."""


@dataclass(frozen=True)
class Finished:
    """One finished run, as far as the ladder needs it; `rate_total` in examples/s over all cores.

    `cores` counts XLA devices where the type does not say it, as a local pod's or a hosts file's.
    """

    run: str
    accelerator_type: str | None
    succeeded: bool
    rate_total: float | None
    cores: int | None = None


@dataclass(frozen=True)
class _Size:
    """A slice size that runs were made on; sizes are held against each other within their generation."""

    generation: str
    name: str
    cores: int


@dataclass(frozen=True)
class Rung:
    """One slice size that was tried: its fastest run that succeeded, and how it compares with the smallest.

    `rate_per_core` in examples/s. Figures are None where no run succeeded and reported a rate.
    """

    accelerator_type: str
    cores: int
    run: str
    rate_total: float | None
    rate_per_core: float | None
    efficiency: float | None
    verdict: str

    def to_json(self) -> dict[str, Any]:
        """The rung as `--json` outputs carry it."""
        return {
            "accelerator_type": self.accelerator_type,
            "cores": self.cores,
            "run": self.run,
            "rate_total": self.rate_total,
            "rate_per_core": self.rate_per_core,
            "efficiency": self.efficiency,
            "verdict": self.verdict,
        }


@dataclass(frozen=True)
class Ladder:
    """The rungs of one generation, smallest first; `go_up` to `next_type`, with the reason either way."""

    generation: str
    rungs: tuple[Rung, ...]
    go_up: bool
    next_type: str | None
    advice: str

    def to_json(self) -> dict[str, Any]:
        """The ladder as `--json` outputs carry it."""
        return {
            "generation": self.generation,
            "rungs": [rung.to_json() for rung in self.rungs],
            "go_up": self.go_up,
            "next_type": self.next_type,
            "advice": self.advice,
        }


def ladders(runs: Iterable[Finished], *, worth: float = WORTH_GOING_UP) -> tuple[Ladder, ...]:
    """A ladder for each generation that runs finished on; runs whose cores are unknown are left out.

    `worth` is the efficiency from which going up is worth it.
    """
    found: dict[str, dict[_Size, list[Finished]]] = {}
    for run in runs:
        size = _size_of(run)
        if size is not None:
            found.setdefault(size.generation, {}).setdefault(size, []).append(run)
    return tuple(_ladder(generation, sizes, worth) for generation, sizes in sorted(found.items()))


def is_comparable(run: Finished) -> bool:
    """Whether it is known how many cores the run had, so that it can stand on a rung."""
    return _size_of(run) is not None


def _size_of(run: Finished) -> _Size | None:
    """The size by the type's own arithmetic, else by the cores counted."""
    name = run.accelerator_type or ""
    kind = parse(name)
    if kind is not None:
        return _Size(kind.generation, kind.name, kind.devices)
    if not run.cores:
        return None
    generation, dash, number = name.rpartition("-")
    if dash and number.isdecimal():
        return _Size(generation, name, run.cores)
    return _Size(_NO_TYPE, f"{run.cores} cores", run.cores)


def _ladder(generation: str, sizes: dict[_Size, list[Finished]], worth: float) -> Ladder:
    rungs: list[Rung] = []
    smallest: float | None = None
    for size in sorted(sizes, key=lambda size: size.cores):
        rung = _rung(size, sizes[size], smallest, worth)
        smallest = smallest or rung.rate_per_core
        rungs.append(rung)
    go_up, next_type, advice = _advice(generation, rungs, worth)
    return Ladder(generation, tuple(rungs), go_up, next_type, advice)


def _rung(size: _Size, runs: list[Finished], smallest: float | None, worth: float) -> Rung:
    measured = [(run.rate_total, run) for run in runs if run.succeeded and _is_rate(run.rate_total)]
    if not measured:
        worked = any(run.succeeded for run in runs)
        verdict = "works, but reported no rate" if worked else "no run succeeded here yet"
        return Rung(size.name, size.cores, runs[-1].run, None, None, None, verdict)
    rate, run = max(measured, key=lambda pair: pair[0] or 0.0)
    assert rate is not None
    per_core = significant(rate / size.cores)
    if smallest is None:
        verdict = "the smallest: what others are held against"
        return Rung(size.name, size.cores, run.run, significant(rate), per_core, 1.0, verdict)
    efficiency = significant(per_core / smallest)
    verdict = "scales" if efficiency >= worth else f"scales badly: {1 - efficiency:.0%} of each core is lost"
    return Rung(size.name, size.cores, run.run, significant(rate), per_core, efficiency, verdict)


def _is_rate(rate: float | None) -> bool:
    return rate is not None and math.isfinite(rate) and rate > 0


def _advice(generation: str, rungs: list[Rung], worth: float) -> tuple[bool, str | None, str]:
    top = rungs[-1]
    if top.efficiency is None:
        return False, None, f"stay on {top.accelerator_type}: {top.verdict}"
    if top.efficiency < worth:
        better = [rung for rung in rungs if rung.efficiency is not None and rung.efficiency >= worth][-1]
        return (
            False,
            None,
            (
                f"stay: {top.accelerator_type} keeps {top.efficiency:.0%} of each core's rate, below {worth:.0%}; "
                f"{better.accelerator_type} is the largest that pays. Look at the input first: loaders, bucket region"
            ),
        )
    share = f"{top.accelerator_type} keeps {top.efficiency:.0%} of the rate per core"
    if generation not in SIZES:
        return True, None, f"go up to twice as many cores: {share}"
    next_type = _next_size(generation, top.accelerator_type)
    if next_type is None:
        return False, None, f"{top.accelerator_type} is the largest there is"
    return True, next_type, f"go up to {next_type}: {share}"


def _next_size(generation: str, name: str) -> str | None:
    number = int(name.rpartition("-")[2])
    return next((f"{generation}-{size}" for size in SIZES[generation] if size > number), None)
