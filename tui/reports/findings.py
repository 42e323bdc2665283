"""Problems of single cores: those that a keeper recorded, and those that the logs show. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tui.logs.core_row import json_figure
from tui.logs.snapshot import CoreState, Snapshot
from tui.logs.state.straggler_cost import AS_FAST, straggler_costs
from tui.runs.record.findings import LOSS, MOST_FINDINGS, Finding, RowKey, newest_figures, row_key
from tui.text.printable import format_count
from tui.text.ranks import name_ranks
from tui.text.timestamps import format_utc

if TYPE_CHECKING:
    from tui.runs.read.latest_figures import LatestFigures
    from tui.runs.record.run_status import RunStatus

MOST_NAMED = 3
"""Most findings of one kind that get a sentence each."""
_MOST_MARKS = 2


def findings_of_run(status: RunStatus, snapshot: Snapshot | None) -> tuple[Finding, ...]:
    """Return the problems of a run's cores: those on record and, where its logs were read, those they show.

    The core of a worker that is unreachable at the moment is not behind: it may be as far as the others.
    """
    is_over = status.state.is_over
    found = findings_of(status.findings, snapshot, is_over=is_over, first_failure=status.first_failure)
    lost = {worker.worker for worker in status.workers if worker.link == "lost" and not worker.ended and not is_over}
    return tuple(
        finding for finding in found if finding.since or not finding.is_straggling or finding.worker not in lost
    )


def findings_of(
    recorded: tuple[Finding, ...],
    snapshot: Snapshot | None,
    *,
    is_over: bool = False,
    first_failure: int | None = None,
) -> tuple[Finding, ...]:
    """Return the findings on record, updated with the logs' figures, then those that only the logs show.

    For a run that is over, a core that merely ended earlier than others, or failed first, is not a finding.
    """
    if snapshot is None or not len(snapshot):
        return recorded
    observed = [*_nan_findings(snapshot), *_straggler_findings(snapshot)]
    open_keys = {_key(finding) for finding in recorded if finding.is_open}
    newest = {_key(finding): finding for finding in observed}
    by_logs_alone = [finding for finding in observed if _key(finding) not in open_keys]
    if is_over:
        by_logs_alone = [finding for finding in by_logs_alone if not _ended_sooner(finding, first_failure)]
    return (*(_updated(finding, newest.get(_key(finding))) for finding in recorded), *by_logs_alone)


def _key(finding: Finding) -> tuple[bool, RowKey]:
    """Return whether the finding is about a loss, and what identifies its core."""
    return finding.kind == LOSS, finding.key


def _ended_sooner(finding: Finding, first_failure: int | None) -> bool:
    if not finding.is_straggling:
        return False
    failed = first_failure is not None and finding.worker == first_failure
    return failed or (finding.pace is not None and finding.pace >= AS_FAST)


def _updated(recorded: Finding, observed: Finding | None) -> Finding:
    """Return a recorded finding, updated from the logs if it is still open."""
    if observed is None or not recorded.is_open:
        return recorded
    if recorded.kind == LOSS:
        if not observed.is_exact:
            return recorded
        return replace(recorded, epoch=observed.epoch, step=observed.step, is_exact=True)
    return replace(newest_figures(recorded, observed), kind=observed.kind)


def _nan_findings(snapshot: Snapshot) -> Iterable[Finding]:
    for index in (snapshot.state == CoreState.NAN).nonzero()[0][:MOST_FINDINGS]:
        row = snapshot.row_at(int(index))
        first = row.first_nan
        epoch, step = (None, None) if first is None else (first.epoch, first.step)
        yield Finding(
            LOSS,
            row.core,
            row.worker,
            row.address,
            loss=str(row.loss),
            epoch=epoch,
            step=step,
            is_exact=step is not None,
        )


def _straggler_findings(snapshot: Snapshot) -> Iterable[Finding]:
    for cost in straggler_costs(snapshot):
        steps, kind = cost.steps_behind, cost.reason
        yield Finding(kind, cost.core, cost.worker, cost.address, pace=cost.pace, steps_behind=steps)


def straggler_rows(findings: Sequence[Finding], snapshot: Snapshot | None) -> list[dict[str, Any]]:
    """Return `straggler_costs` of JSON documents: open ones first, the most expensive first in each part."""
    seconds = _seconds(snapshot)
    straggling = [finding for finding in findings if finding.is_straggling]
    straggling.sort(key=lambda finding: (not finding.is_open, -(finding.share or 0.0), -(finding.steps_behind or 0)))
    return [_row(finding, seconds) for finding in straggling]


def open_cores(findings: Iterable[Finding], *, is_loss: bool = False) -> list[int | None]:
    """Return the cores with a finding that is open, or was when the run ended: stragglers, or NaN losses."""
    cores = {finding.core for finding in findings if finding.is_open and (finding.kind == LOSS) is is_loss}
    return sorted(cores, key=lambda core: -1 if core is None else core)


def _seconds(snapshot: Snapshot | None) -> Mapping[RowKey, float | None]:
    if snapshot is None or not len(snapshot):
        return {}
    return {row_key(cost.core, cost.worker): cost.seconds_per_step for cost in straggler_costs(snapshot)}


def _row(finding: Finding, seconds: Mapping[RowKey, float | None]) -> dict[str, Any]:
    row: dict[str, Any] = {
        "core": finding.core,
        "worker": finding.worker,
        "address": finding.address,
        "reason": finding.kind,
        "lag": finding.steps_behind,
        "steps_behind": finding.steps_behind,
        "pace": finding.pace,
        "share": finding.share,
        "seconds_per_step": seconds.get(finding.key) if finding.is_open else None,
        "from": finding.since,
        "until": finding.until,
        "recovered": finding.recovered,
    }
    return {name: json_figure(value) for name, value in row.items()}


# --- as text --------------------------------------------------------------------------------------------------------


def marks(findings: Sequence[Finding]) -> str:
    """Return `nan c21`, or `behind w3` where lines name no cores, for the open findings, in a few words."""
    text = []
    for kind, label in ((LOSS, "nan"), ("behind", "behind"), ("slow", "slow")):
        found = [finding for finding in findings if finding.is_open and finding.kind == kind]
        cores = sorted({finding.core for finding in found if finding.core is not None})
        workers = sorted({finding.worker for finding in found if finding.worker is not None})
        names = [f"c{core}" for core in cores] or [f"w{worker}" for worker in workers]
        more = f" +{len(names) - _MOST_MARKS}" if len(names) > _MOST_MARKS else ""
        if found:
            text.append(" ".join([label, *([",".join(names[:_MOST_MARKS]) + more] if names else [])]))
    return " · ".join(text)


def marks_of_run(status: RunStatus, figures: LatestFigures | None) -> str:
    """Return a run's marks from its record and, where known, from the ends of its logs."""
    findings = status.findings
    if figures is not None:
        known = {_key(finding) for finding in findings if finding.is_open}
        observed = [*(Finding(LOSS, core) for core in figures.nan_cores), *_lasting(status, figures.stragglers)]
        findings = (*findings, *(finding for finding in observed if _key(finding) not in known))
    return marks(findings)


def _lasting(status: RunStatus, stragglers: Iterable[Finding]) -> Iterable[Finding]:
    """Return the stragglers; of a run that is over not those that merely ended earlier or failed."""
    return (
        finding
        for finding in stragglers
        if not (status.state.is_over and _ended_sooner(finding, status.first_failure))
    )


def shown_figures(status: RunStatus, figures: LatestFigures | None) -> str:
    """Return a run's newest figures; empty where its cause says more: it waits, is stopped, or has ended."""
    return str(figures or "") if status.is_training_again or not status.cause else ""


def place_of(finding: Finding, cores: Sequence[int] = ()) -> str:
    """Return `core 37 (worker 4, 127.0.4.5)`, without unknown parts; for several cores, their worker with them."""
    core, worker = (
        None if number is None else f"{noun} {number}"
        for noun, number in (("core", finding.core), ("worker", finding.worker))
    )
    parts = (worker, name_ranks("core", cores), finding.address) if cores else (core, worker, finding.address)
    named, *location = [part for part in parts if part] or ["the job"]
    return f"{named} ({', '.join(location)})" if location else named


def sentences(findings: Sequence[Finding], *, is_over: bool) -> list[tuple[str, Finding]]:
    """Return a sentence for each of the first few findings of a kind, and one for the cores of the others.

    Cores of a worker with the same sentence share one: a worker that hangs stops all of its cores.
    """
    listed: list[tuple[str, Finding]] = []
    for lasting in (True, False):
        for is_loss in (True, False):
            alike = [
                finding for finding in findings if finding.is_open is lasting and (finding.kind == LOSS) is is_loss
            ]
            alike.sort(key=lambda finding: -(finding.share or 0.0))
            groups: dict[object, list[Finding]] = {}
            for finding in alike:
                of_worker = sentence(replace(finding, core=None), is_over=is_over)
                is_placed = finding.worker is not None and finding.core is not None
                groups.setdefault(of_worker if is_placed else finding.key, []).append(finding)
            named, rest = [*groups.values()][:MOST_NAMED], [*groups.values()][MOST_NAMED:]
            for group in named:
                cores = [finding.core for finding in group if finding.core is not None] if len(group) > 1 else []
                listed.append((sentence(group[0], cores, is_over=is_over), group[0]))
            others = [finding for group in rest for finding in group]
            if others:
                cores = [finding.core for finding in others if finding.core is not None]
                workers = (finding.worker for finding in others if finding.worker is not None)
                place = name_ranks("core", cores) if cores else name_ranks("worker", workers)
                listed.append((f"also {place}", others[0]))
    return listed


def sentence(finding: Finding, cores: Sequence[int] = (), *, is_over: bool) -> str:
    """Return one finding, also of all these cores, as a sentence, in the past tense for a run that is over."""
    place = place_of(finding, cores)
    if finding.kind == LOSS:
        return _of_loss(finding, place, is_over=is_over)
    if finding.recovered:
        start, end = _clock(finding.since), _clock(finding.until)
        pace = f" ({finding.pace * 100:.0f} % of the median pace)" if finding.kind == "slow" and finding.pace else ""
        return f"{place} was {_how_late(finding)}{pace} from {start} and recovered at {end}"
    was = "was" if is_over or not finding.is_open else "is"
    when = " when the run ended" if is_over and finding.is_open else ""
    text = f"{place} {was} {_how_late(finding)}{when}"
    if finding.share is None or finding.pace is None:
        return text
    text += f", at {finding.pace * 100:.0f} % of the median pace"
    wait = "waited" if was == "was" else "wait"
    return text + (f": the others {wait} for it {_time_lost(finding)}" if finding.kind == "slow" else "")


def straggler_in_short(finding: Finding) -> str:
    """Return `core 37 (worker 4, 127.0.4.5): 33 % of the pace, 94 steps behind`, without unknown parts."""
    text = [f"{finding.pace * 100:.0f} % of the pace"] if finding.pace is not None and finding.share else []
    text += [_steps_behind(finding.steps_behind)] if finding.steps_behind else []
    text += [f"costs {_time_lost(finding)}"] if finding.share and finding.kind == "slow" else []
    return ": ".join(part for part in (place_of(finding), ", ".join(text)) if part)


def _time_lost(finding: Finding) -> str:
    """Return the share of the time for which the others wait for a core that keeps step; none wait for one behind."""
    return f"{(finding.share or 0.0) * 100:.0f} % of the time"


def _how_late(finding: Finding) -> str:
    if finding.kind == "slow":
        return "slow"
    return _steps_behind(finding.steps_behind) if finding.steps_behind else "behind the others"


def _steps_behind(steps: int) -> str:
    return f"{format_count(steps, 'step')} behind"


def _of_loss(finding: Finding, place: str, *, is_over: bool) -> str:
    numbers = (("epoch", finding.epoch), ("step", finding.step))
    at = ", ".join(f"{name} {number}" for name, number in numbers if number is not None)
    since = "from" if finding.recovered else "since"
    when = f", {since if finding.is_exact else 'seen by'} {at}" if at else ""
    loss = finding.loss or "nan"
    if finding.recovered:
        until = f" until {_clock(finding.until)}, when it was finite again"
        return f"the loss was {loss} on {place}{when}{until}"
    return f"the loss {'was' if is_over or not finding.is_open else 'is'} {loss} on {place}{when}"


def _clock(moment: str | None) -> str:
    return format_utc(moment) or "an unknown time"


def finding_remarks(findings: Sequence[Finding], *, is_over: bool) -> list[str]:
    """Return a report's sentences about stragglers, and about losses that became finite again."""
    return [
        f"{text[0].upper()}{text[1:]}."
        for text, finding in sentences(findings, is_over=is_over)
        if finding.is_straggling or not finding.is_open
    ]
