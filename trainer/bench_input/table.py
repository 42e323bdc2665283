"""Format the results of the input benchmark, as lines for a terminal and as data for programs."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from statistics import median
from typing import Any

from trainer.bench_input import peers, rows
from trainer.bench_input.cpu_affinity import available, split_cores
from trainer.bench_input.rows import Material, Row

WIDTH, LABEL = 80, 49  # columns of a terminal, and of the table's first column
DELAY_MS = 20.0  # milliseconds before each request: about what a bucket in the same region takes to begin to answer

BASES: dict[bool, Row] = {True: rows.from_files, False: peers.plain_webdataset}
"""The rows that others are compared with: on the cores that the object store leaves, and on all cores."""


@dataclass(frozen=True)
class Case:
    """One row of the table."""

    name: str
    row: Row
    delay: float | None = None  # milliseconds before each request; None: there are no requests
    cold: bool = False  # the page cache holds nothing of what is read
    apart: bool = False  # on the cores that the object store leaves, whether it is used or not
    missing: str = ""  # why it cannot be measured here
    material: Material | None = None  # what it reads, if not the same as the others

    @property
    def label(self) -> str:
        """Return the text of the first column."""
        network = "" if self.delay is None else f", {self.delay:g} ms"
        return f"{self.name}{network}{', cold' if self.cold else ''}"


@dataclass
class Measurement:
    """The rates and CPU times of a case, round by round."""

    rates: list[float] = field(default_factory=list)  # samples per second
    cpu: list[float] = field(default_factory=list)  # microseconds of CPU time per sample, loader processes included
    failure: str = ""

    def ratio(self, base: Measurement | None) -> float | None:
        """Return the median over the rounds of this rate divided by the other one."""
        pairs = [rate / base_rate for rate, base_rate in zip(self.rates, base.rates if base else [], strict=False)]
        return median(pairs) if pairs else None


Results = dict[str, Measurement]


def table(material: Material, chosen: Sequence[Case], results: Results) -> list[str]:
    """Format rates, CPU times and ratios as lines: first relative to A, then relative to plain webdataset."""
    row_cores, stores = split_cores()
    all_cores = available()
    if row_cores == all_cores:
        heading = "All rows, and the object store, on the same cores:"
    else:
        heading = (
            f"On {len(row_cores)} of {len(all_cores)} cores; the object store and the network have {len(stores)}:"
        )
    about = f"{material.images} images, batches of {material.batch} at {material.size} pixels"
    lines = [f"{about}, {material.loaders} loader processes"]
    for apart, title, short in (
        (True, heading, "A"),
        (False, f"On {len(all_cores)} cores, compared with webdataset + PIL (wds):", "wds"),
    ):
        block = [case for case in chosen if case.apart is apart]
        if block:
            lines += ["", title, f"{'':{LABEL}} {'samples/s':>9} {'x ' + short:>7} {'CPU us':>6} {'CPU x':>5}"]
            lines += _lines(block, results, find_measurement(chosen, results, BASES[apart], apart=apart))
    return [*lines, *summary(chosen, results)]


def _lines(block: Sequence[Case], results: Results, base: Measurement | None) -> Iterator[str]:
    for case in block:
        result = results[case.label]
        if not result.rates:
            yield from wrapped(case.label, f"not measured: {' '.join(result.failure.split())}")
            continue
        cpu = median(result.cpu)
        saved = median(base.cpu) / cpu if base and base.cpu else None
        yield (
            f"{case.label:{LABEL}} {median(result.rates):9,.0f} {_factor(result.ratio(base), 7)} {cpu:6,.0f} "
            f"{_factor(saved, 5)}"
        )


def wrapped(label: str, text: str) -> Iterator[str]:
    """Put a text after a label, or below it where both together are wider than a terminal."""
    if len(label) + 1 + len(text) <= WIDTH:
        yield f"{label} {text}"
    else:
        yield label
        yield from textwrap.wrap(text, WIDTH, initial_indent="    ", subsequent_indent="    ")


def find_measurement(
    chosen: Sequence[Case], results: Results, row: Row, delay: float | None = None, *, cold: bool = False, apart: bool
) -> Measurement | None:
    """Return a row's results in these circumstances; None where it was not chosen."""
    key = row, delay, cold, apart
    matches = (results[case.label] for case in chosen if (case.row, case.delay, case.cold, case.apart) == key)
    return next(matches, None)


def _factor(value: float | None, width: int) -> str:
    return f"{value:{width}.2f}" if value is not None else " " * width


def summary(chosen: Sequence[Case], results: Results) -> list[str]:
    """Return the ratios that the experiment is about, one per line."""
    result = partial(find_measurement, chosen, results, apart=True)
    delay = f"at {DELAY_MS:g} ms"
    local, remote = result(rows.from_shards), result(rows.from_bucket, DELAY_MS)
    remote_all_cores = result(rows.from_bucket, DELAY_MS, apart=False)
    pairs = {
        "B / A": (local, result(rows.from_files)),
        "B / A, page cache cold": (result(rows.from_shards, cold=True), result(rows.from_files, cold=True)),
        f"C / B {delay}": (remote, local),
        f"C / A' {delay}": (remote, result(rows.from_single_objects, DELAY_MS)),
        f"C / A' {delay}, all cores": (remote_all_cores, result(rows.from_single_objects, DELAY_MS, apart=False)),
        "B / webdataset + PIL, all cores": (
            result(rows.from_shards, apart=False),
            result(peers.plain_webdataset, apart=False),
        ),
    }
    measured = {
        name: (measurement, base)
        for name, (measurement, base) in pairs.items()
        if measurement and base and measurement.rates and base.rates
    }
    return ["", *(f"{name}: {_factor(measurement.ratio(base), 1)}" for name, (measurement, base) in measured.items())]


def sweep_table(found: dict[str, dict[int, Measurement]]) -> list[str]:
    """Return a line per value, the fastest marked, and a last line with the best of each variable."""
    lines = [f"C, shards from the bucket at {DELAY_MS:g} ms, one variable at a time"]
    best = {}
    for variable, by_value in found.items():
        rates = {value: median(result.rates) for value, result in by_value.items() if result.rates}
        if rates:
            best[variable] = max(rates, key=lambda value: rates[value])
        for value, result in by_value.items():
            label = f"{variable:18} {value:6}"
            if value in rates:
                lines.append(
                    f"{label} {rates[value]:9,.0f} samples/s{'  <- best' if value == best[variable] else ''}"
                )
            else:
                lines += wrapped(label, f"not measured: {' '.join(result.failure.split())}")
    named = ", ".join(f"{variable} {value}" for variable, value in best.items())
    return [*lines, "", f"Best: {named or 'nothing could be measured'}"]


def as_json(material: Material, chosen: Sequence[Case], results: Results) -> dict[str, Any]:
    """Return the results as data: every round of every case."""
    bases = {apart: find_measurement(chosen, results, row, apart=apart) for apart, row in BASES.items()}
    return {
        "images": material.images,
        "cores": {"all": len(available()), "beside the store": len(split_cores()[0])},
        "batch": material.batch,
        "size": material.size,
        "loader_workers": material.loaders,
        "cases": [
            {
                "name": case.name,
                "delay_ms": case.delay,
                "cache": "cold" if case.cold else "warm",
                "beside_store": case.apart,
                "samples_per_second": results[case.label].rates,
                "cpu_us_per_sample": results[case.label].cpu,
                "ratio_to_a": results[case.label].ratio(bases[True]) if case.apart else None,
                "ratio_to_webdataset": None if case.apart else results[case.label].ratio(bases[False]),
                "not_measured": results[case.label].failure or None,
            }
            for case in chosen
        ],
    }
