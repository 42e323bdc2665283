"""Format a pod's rate with its unit: the sum over all cores, or that of the median core. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from statistics import median

from tui.logs.snapshot import Snapshot
from tui.text.numbers import format_figure

_SHORT = {"examples/s": "ex/s", "tokens/s": "tok/s"}


def rate_over_run(newest: float | None, rates: Iterable[float | None]) -> float | None:
    """Return the median of a run's rates in order, without the first one (compilation); else the newest."""
    known = [rate for rate in rates if rate is not None]
    return median(known[1:]) if len(known) > 1 else newest


def rate_in_short(snapshot: Snapshot) -> str:
    """Return `7,900.0 ex/s` or `4.0 it/s each` for a headline; empty where no rate is known."""
    unit = snapshot.rate_unit or ""
    short = _SHORT.get(unit, unit)
    if snapshot.rate_total is not None:
        return f"{format_figure(snapshot.rate_total, 1, apart=True)} {short}".strip()
    if snapshot.rate_median is not None:
        return f"{format_figure(snapshot.rate_median, 1, apart=True)} {short or 'per second'} each"
    return ""


def rate_in_words(total: float | None, median: float | None, unit: str | None, source: str | None) -> str | None:
    """Return `7,900.00 examples/s, 3 of 4 cores` or `4.00 it/s (median worker)`; None where no rate is known."""
    if total is not None:
        return f"{format_figure(total, 2, apart=True)} {unit or ''}".strip() + f", {source}"
    if median is not None:
        return f"{format_figure(median, 2, apart=True)} {unit or '(unknown unit)'} ({source})"
    return None


def rate_title(unit: str | None) -> str:
    """Return the title of a column or chart of rates."""
    return unit.capitalize() if unit == "examples/s" else unit or "Rate"
