"""Compare runs and saved logs: results, speed, and how the speed grew with the cores."""

from __future__ import annotations

import math
import re
import shlex
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import and_
from typing import Any

from tui.logs.core_row import json_figure
from tui.reports.layout import number
from tui.reports.rates import rate_over_run
from tui.reports.summary import Summary
from tui.text.durations import UNKNOWN, format_clock
from tui.text.numbers import format_figure, round_figure
from tui.text.printable import one_line

_NUMBER = re.compile(r"-\.?\d.*")
"""A negative number, which only looks like an option."""


@dataclass(frozen=True, slots=True)
class Compared:
    """One of the compared runs or logs. Rates are in the job's unit, e.g. examples/s; None: unknown."""

    summary: Summary
    lowest_loss: float | None
    """Smallest median over the cores, of all that is recorded."""
    rate_total: float | None
    """Sum over all cores: the median over the run, without its first point (compilation)."""
    rate_per_core: float | None
    rate_median: float | None
    """Rate of the median core; over the run where rates cannot be added."""
    efficiency: float | None
    """Rate per core relative to that of the first one compared: 1.0 is perfect scaling."""
    speedup: float | None
    """Total rate relative to that of the first one compared."""

    def to_json(self) -> dict[str, Any]:
        """Return the run as `compare --json` prints it; `rate_newest` is `rate_total` of `status` and reports."""
        summary, facts, snapshot = self.summary, self.summary.facts, self.summary.snapshot
        return {
            "run": facts.title,
            "is_run": facts.is_run,
            "slice": facts.slice,
            "accelerator_type": facts.accelerator_type,
            "workers": len(summary.workers) or None,
            "cores": len(summary.cores),
            "epoch": snapshot.median_epoch,
            "step": snapshot.median_step,
            "samples": snapshot.samples,
            "loss": summary.loss.to_json() if summary.loss else None,
            "lowest_loss": json_figure(self.lowest_loss),
            "max_accuracy": json_figure(snapshot.max_accuracy),
            "rate_total": json_figure(self.rate_total),
            "rate_newest": json_figure(snapshot.rate_total),
            "rate_per_core": json_figure(self.rate_per_core),
            "rate_median": json_figure(self.rate_median),
            "rate_unit": snapshot.rate_unit,
            "efficiency": json_figure(self.efficiency),
            "speedup": json_figure(self.speedup),
            "seconds": json_figure(summary.seconds),
            "restarts": facts.attempt,
            "state": facts.state,
            "cause": facts.cause,
            "argv": list(facts.argv),
            "code_hash": facts.code_hash,
        }


def compare(summaries: Sequence[Summary]) -> tuple[Compared, ...]:
    """Compare summaries; efficiency and speed-up are relative to the first."""
    if not summaries:
        return ()
    first, unit = _rate(summaries[0]), summaries[0].snapshot.rate_unit
    base = _per_core(summaries[0], first)
    return tuple(
        _compare(summary, first, base) if summary.snapshot.rate_unit == unit else _compare(summary, None, None)
        for summary in summaries
    )


def _compare(summary: Summary, first: float | None, base: float | None) -> Compared:
    rate = _rate(summary)
    per_core = _per_core(summary, rate)
    newest = [round_figure(summary.loss.median)] if summary.loss else []
    losses = [loss for loss in (*(point.loss for point in summary.chart), *newest) if loss is not None]
    return Compared(
        summary,
        lowest_loss=min(filter(math.isfinite, losses), default=None),
        rate_total=rate,
        rate_per_core=per_core,
        rate_median=_median_rate(summary),
        efficiency=None if per_core is None or not base else per_core / base,
        speedup=None if rate is None or not first else rate / first,
    )


def _rate(summary: Summary) -> float | None:
    """Return the rate of all cores over the run; None where it is unknown."""
    newest = summary.snapshot.rate_total
    return None if newest is None else rate_over_run(newest, (point.rate for point in summary.chart))


def _per_core(summary: Summary, rate: float | None) -> float | None:
    cores = _cores(summary)
    return rate / cores if rate is not None and cores else None


def _cores(summary: Summary) -> int | None:
    """Return the number of cores: those that the lines name, else those of the slice; None: unknown."""
    return len(summary.cores) if summary.snapshot.noun == "core" else summary.facts.cores_expected


def _median_rate(summary: Summary) -> float | None:
    """Return the median core's rate: over the run where the chart shows that, else the newest."""
    newest = summary.snapshot.rate_median
    rates = (point.rate for point in summary.chart)
    return newest if summary.snapshot.rate_total is not None else rate_over_run(newest, rates)


def _with_unit(rate: float | None, run: Compared) -> str | None:
    return None if rate is None else f"{number(rate)} {run.summary.snapshot.rate_unit or ''}".strip()


_ROWS: tuple[tuple[str, Callable[[Compared], str | None]], ...] = (
    ("slice", lambda run: run.summary.facts.slice),
    ("accelerator", lambda run: run.summary.facts.accelerator_type),
    ("workers", lambda run: _text(len(run.summary.workers) or None)),
    ("cores", lambda run: _text(_cores(run.summary))),
    ("state", lambda run: run.summary.facts.state),
    ("duration", lambda run: None if run.summary.seconds is None else format_clock(run.summary.seconds)),
    ("restarts", lambda run: _text(run.summary.facts.attempt or None)),
    ("epoch", lambda run: _text(run.summary.snapshot.median_epoch)),
    ("step", lambda run: _text(run.summary.snapshot.median_step)),
    ("loss", lambda run: None if run.summary.loss is None else number(run.summary.loss.median, 5)),
    ("lowest loss", lambda run: _number(run.lowest_loss, 5)),
    ("best accuracy %", lambda run: _number(run.summary.snapshot.max_accuracy)),
    ("rate, run's median", lambda run: _with_unit(run.rate_total, run)),
    ("rate, newest", lambda run: _with_unit(run.summary.snapshot.rate_total, run)),
    ("rate, median core", lambda run: _with_unit(run.rate_median, run) if run.rate_total is None else None),
    ("rate per core", lambda run: _number(run.rate_per_core)),
    ("speed-up", lambda run: None if run.speedup is None else f"{format_figure(run.speedup)} x"),
    ("efficiency", lambda run: None if run.efficiency is None else f"{run.efficiency * 100:.0f} %"),
    ("code", lambda run: None if run.summary.facts.code_hash is None else run.summary.facts.code_hash[:12]),
)
"""The figures that are compared, each with the function that formats it; None: unknown."""


def comparison_rows(compared: Sequence[Compared]) -> list[tuple[str, ...]]:
    """Return a row for each figure known of any run, with a column per run, as single-line texts."""
    return _known_rows([(name, [cell(run) for run in compared]) for name, cell in _ROWS])


def comparison_texts(compared: Sequence[Compared]) -> list[tuple[str, ...]]:
    """Return rows of texts too long for a column: why each run ended, and differing parts of its command."""
    return _known_rows([("cause", [run.summary.facts.cause for run in compared])]) + _commands(compared)


def _known_rows(rows: list[tuple[str, list[str | None]]]) -> list[tuple[str, ...]]:
    return [
        (name, *(one_line(cell) if cell else UNKNOWN for cell in cells))
        for name, cells in rows
        if any(cell is not None for cell in cells)
    ]


def _commands(compared: Sequence[Compared]) -> list[tuple[str, ...]]:
    """Return the parts of the commands that not all runs share: options with their values, and other words."""
    commands = [Counter(_parts_of(run.summary.facts.argv)) for run in compared]
    shared = reduce(and_, commands, commands[0]) if commands else Counter()
    differing = [[part for part in command if command[part] > shared[part]] for command in commands]
    if not any(differing):
        return []
    return [("command", *("  ".join(map(one_line, parts)) or UNKNOWN for parts in differing))]


def _parts_of(argv: Sequence[str]) -> list[str]:
    """Split a command into options, each with its values, and the words before the first option."""
    parts: list[list[str]] = []
    for word in argv:
        is_option = word.startswith("-") and _NUMBER.fullmatch(word) is None
        if is_option or not parts or not parts[-1][0].startswith("-"):
            parts.append([])
        parts[-1].append(word)
    return [shlex.join(part) for part in parts]


def _number(value: float | None, digits: int = 2) -> str | None:
    return None if value is None else number(value, digits)


def _text(value: int | None) -> str | None:
    return None if value is None else str(value)
