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

from tui.logs.core_row import Spread, json_figure
from tui.reports.layout import number
from tui.reports.rates import rate_over_run
from tui.reports.summary import Summary
from tui.text.durations import UNKNOWN, format_clock
from tui.text.numbers import figure, significant
from tui.text.printable import one_line

_NUMBER = re.compile(r"-\.?\d.*")
"""A negative number, which only looks like an option."""


@dataclass(frozen=True, slots=True)
class Compared:
    """One of the compared runs or logs. Rates are in the job's unit, e.g. examples/s; None: unknown."""

    run: str
    is_run: bool
    slice: str | None
    accelerator_type: str | None
    workers: int | None
    cores: int
    epoch: int | None
    step: int | None
    samples: int
    loss: Spread | None
    """The newest of each core."""
    lowest_loss: float | None
    """Smallest median over the cores, of all that is recorded."""
    max_accuracy: float | None
    rate_total: float | None
    """Sum over all cores: the median over the run, without its first point (compilation)."""
    rate_newest: float | None
    """Newest sum over all cores: `rate_total` of `status` and reports."""
    rate_per_core: float | None
    rate_median: float | None
    """Rate of the median core; over the run where rates cannot be added."""
    rate_unit: str | None
    efficiency: float | None
    """Rate per core relative to that of the first one compared: 1.0 is perfect scaling."""
    speedup: float | None
    """Total rate relative to that of the first one compared."""
    seconds: float | None
    restarts: int
    state: str | None
    cause: str | None
    argv: tuple[str, ...]
    code_hash: str | None

    def to_json(self) -> dict[str, Any]:
        """Return the run as `compare --json` prints it."""
        values = {name: json_figure(getattr(self, name)) for name in self.__slots__}
        return values | {"loss": self.loss.to_json() if self.loss else None, "argv": list(self.argv)}


def compare(summaries: Sequence[Summary]) -> tuple[Compared, ...]:
    """Compare summaries; efficiency and speed-up are relative to the first."""
    if not summaries:
        return ()
    first, unit = _rate(summaries[0]), summaries[0].rate_unit
    base = None if first is None or not summaries[0].cores else first / len(summaries[0].cores)
    alike = (summary.rate_unit == unit for summary in summaries)
    return tuple(
        _compared(summary, first, base) if is_alike else _compared(summary, None, None)
        for summary, is_alike in zip(summaries, alike, strict=True)
    )


def _compared(summary: Summary, first: float | None, base: float | None) -> Compared:
    facts, rate = summary.facts, _rate(summary)
    per_core = None if rate is None or not summary.cores else rate / len(summary.cores)
    newest = [significant(summary.loss.median)] if summary.loss else []
    losses = [loss for loss in (*(point.loss for point in summary.chart), *newest) if loss is not None]
    return Compared(
        run=facts.title,
        is_run=facts.is_run,
        slice=facts.slice,
        accelerator_type=facts.accelerator_type,
        workers=len(summary.workers) or None,
        cores=len(summary.cores),
        epoch=summary.epoch,
        step=summary.step,
        samples=summary.samples,
        loss=summary.loss,
        lowest_loss=min(filter(math.isfinite, losses), default=None),
        max_accuracy=summary.max_accuracy,
        rate_total=rate,
        rate_newest=summary.rate_total,
        rate_per_core=per_core,
        rate_median=_median_rate(summary),
        rate_unit=summary.rate_unit,
        efficiency=None if per_core is None or not base else per_core / base,
        speedup=None if rate is None or not first else rate / first,
        seconds=summary.seconds,
        restarts=facts.attempt,
        state=facts.state,
        cause=facts.cause,
        argv=facts.argv,
        code_hash=facts.code_hash,
    )


def _rate(summary: Summary) -> float | None:
    """Return the rate of all cores over the run; None where it is unknown."""
    return None if summary.rate_total is None else _over_the_run(summary, summary.rate_total)


def _over_the_run(summary: Summary, newest: float | None) -> float | None:
    return rate_over_run(newest, (point.rate for point in summary.chart))


def _median_rate(summary: Summary) -> float | None:
    """Return the median core's rate: over the run where the chart shows that, else the newest."""
    return summary.rate_median if summary.rate_total is not None else _over_the_run(summary, summary.rate_median)


def _with_unit(rate: float | None, run: Compared) -> str | None:
    """Format a rate with its unit, if known."""
    return None if rate is None else f"{number(rate)} {run.rate_unit or ''}".strip()


_ROWS: tuple[tuple[str, Callable[[Compared], str | None]], ...] = (
    ("slice", lambda run: run.slice),
    ("accelerator", lambda run: run.accelerator_type),
    ("workers", lambda run: _text(run.workers)),
    ("cores", lambda run: str(run.cores)),
    ("state", lambda run: run.state),
    ("duration", lambda run: None if run.seconds is None else format_clock(run.seconds)),
    ("restarts", lambda run: _text(run.restarts or None)),
    ("epoch", lambda run: _text(run.epoch)),
    ("step", lambda run: _text(run.step)),
    ("loss", lambda run: None if run.loss is None else number(run.loss.median, 5)),
    ("lowest loss", lambda run: _number(run.lowest_loss, 5)),
    ("best accuracy %", lambda run: _number(run.max_accuracy)),
    ("rate, run's median", lambda run: _with_unit(run.rate_total, run)),
    ("rate, newest", lambda run: _with_unit(run.rate_newest, run)),
    ("rate, median core", lambda run: _with_unit(run.rate_median, run) if run.rate_total is None else None),
    ("rate per core", lambda run: _number(run.rate_per_core)),
    ("speed-up", lambda run: None if run.speedup is None else f"{figure(run.speedup)} x"),
    ("efficiency", lambda run: None if run.efficiency is None else f"{run.efficiency * 100:.0f} %"),
    ("code", lambda run: None if run.code_hash is None else run.code_hash[:12]),
)
"""The figures that are compared, each with the function that formats it; None: unknown."""


def comparison_rows(compared: Sequence[Compared]) -> list[tuple[str, ...]]:
    """Return a row for each figure known of any run, with a column per run, as single-line texts."""
    return _known_rows([(name, [cell(run) for run in compared]) for name, cell in _ROWS])


def comparison_texts(compared: Sequence[Compared]) -> list[tuple[str, ...]]:
    """Return rows of texts too long for a column: why each run ended, and differing parts of its command."""
    return _known_rows([("cause", [run.cause for run in compared])]) + _commands(compared)


def _known_rows(rows: list[tuple[str, list[str | None]]]) -> list[tuple[str, ...]]:
    return [
        (name, *(one_line(cell) if cell else UNKNOWN for cell in cells))
        for name, cells in rows
        if any(cell is not None for cell in cells)
    ]


def _commands(compared: Sequence[Compared]) -> list[tuple[str, ...]]:
    """Return the parts of the commands that not all runs share: options with their values, and other words."""
    commands = [Counter(_parts_of(run.argv)) for run in compared]
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
