"""What is wrong with a run's cores, in the words of the run screen. Pure functions of the feed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tui.logs._compat_numpy import Bools
from tui.logs.core_row import UNKNOWN
from tui.logs.snapshot import CoreState
from tui.reports.findings import findings_of, findings_of_run, marks, sentences, straggler_in_short
from tui.text.printable import format_count
from tui.text.ranks import format_ranks, name_ranks

if TYPE_CHECKING:
    from tui.console.data.run_feed import Feed
    from tui.logs.snapshot import Snapshot
    from tui.operator import Finding, RunStatus

_MOST_NAMED = 6
"""Most ranges of numbers that are listed."""

ToneLines = list[tuple[str, str]]
"""Sentences with their tones."""


def find_live_core_problems(status: RunStatus | None, snapshot: Snapshot, unseen: frozenset[int]) -> ToneLines:
    """Return NaN cores and stragglers of a live run or a saved log, except stragglers on `unseen` workers."""
    lines: ToneLines = []
    if snapshot.nan_cores:
        lines.append((_name_rows("nan", snapshot, snapshot.state == CoreState.NAN) + _since(snapshot), "bad"))
    behind = _behind(snapshot, unseen)
    if behind.any():
        lines.append((_stragglers(status, snapshot, behind), "warn"))
    return lines


def list_ended_run_findings(feed: Feed) -> ToneLines:
    """Return the findings of an ended run: those open at its end, then those resolved before."""
    return [(text, _tone(finding)) for text, finding in sentences(collect_findings(feed), is_over=True)]


def format_marks(feed: Feed) -> tuple[str, str]:
    """Return a few words for the headline of an ended run, and their tone."""
    findings = collect_findings(feed)
    is_broken = any(finding.is_open and not finding.is_straggling for finding in findings)
    return marks(findings), "bad" if is_broken else "warn"


def _name_rows(kind: str, snapshot: Snapshot, flagged: Bools) -> str:
    """Return `nan: cores 1-3`, with the workers where no line names a core; only the kind where none names either."""
    numbers = (snapshot.core if snapshot.noun == "core" else snapshot.worker)[flagged]
    known = sorted(set(numbers[numbers != UNKNOWN].tolist()))
    if not known:
        return kind
    spans = format_ranks(known).split(",")
    if len(spans) > _MOST_NAMED:
        return f"{kind}: {format_count(len(known), snapshot.noun)} ({','.join(spans[:_MOST_NAMED])},…)"
    return f"{kind}: {name_ranks(snapshot.noun, known)}"


def _since(snapshot: Snapshot) -> str:
    """Return the epoch and step of the first NaN loss; empty if unknown."""
    epoch, step = snapshot.nan_since or (UNKNOWN, UNKNOWN)
    parts = [f"{name} {number}" for name, number in (("epoch", epoch), ("step", step)) if number >= 0]
    return f", since {', '.join(parts)}" if parts else ""


def collect_findings(feed: Feed) -> tuple[Finding, ...]:
    """Return the findings on a run's cores: recorded ones, and those of its logs once these were read."""
    snapshot = feed.snapshot if feed.has_caught_up else None
    return findings_of((), snapshot) if feed.status is None else findings_of_run(feed.status, snapshot)


def _tone(finding: Finding) -> str:
    return "dim" if not finding.is_open else "warn" if finding.is_straggling else "bad"


def _stragglers(status: RunStatus | None, snapshot: Snapshot, flagged: Bools) -> str:
    """Return the stragglers; where the slowest is, how slow it is, and what waiting for it costs."""
    recorded, count = () if status is None else status.findings, int(np.count_nonzero(flagged))
    stragglers = [finding for finding in findings_of(recorded, snapshot) if finding.is_straggling and finding.is_open]
    places = zip(snapshot.core[flagged].tolist(), snapshot.worker[flagged].tolist(), strict=True)
    keys = {(None, worker) if core == UNKNOWN else (core, None) for core, worker in places}
    slowest = max(
        (finding for finding in stragglers if finding.key in keys),
        key=lambda finding: finding.share or 0.0,
        default=None,
    )
    if slowest is None or (slowest.share is None and (slowest.worker is None or count > 1)):
        return _name_rows("straggler" if count == 1 else "stragglers", snapshot, flagged)
    text = straggler_in_short(slowest)
    return f"straggler: {text}" if count == 1 else f"{_name_rows('stragglers', snapshot, flagged)}; slowest: {text}"


def _behind(snapshot: Snapshot, unseen: frozenset[int]) -> Bools:
    """Return the stragglers, except on workers without a connection: those may be as far as the others."""
    going = snapshot.state != CoreState.ENDED
    flagged: Bools = snapshot.straggling & going & ~np.isin(snapshot.worker, list(unseen))
    return flagged
