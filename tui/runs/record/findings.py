"""Findings: problems of single cores of a run, with their beginning and end, folded from its `note` events. Pure.

A note with `stall` begins findings (`behind`, `slow`, `loss`), ends them (`over`, whose `of` names the kinds) or
gives their state at the end of the run (`end`). `found` holds a row for each core or, in logs that name no cores, for
each worker; in notes of earlier versions only `cores` may name them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from tui.text.numbers import is_integer, is_number, round_figure

if TYPE_CHECKING:
    from tui.pod.run import Run
    from tui.runs.record.event_log import Event

BEHIND, SLOW, LOSS = "behind", "slow", "loss"
OVER, AT_THE_END = "over", "end"
STRAGGLING = (BEHIND, SLOW)
KINDS = (*STRAGGLING, LOSS)
MOST_FINDINGS = 512
"""Limit on the findings of one run; the first ones are kept."""
_LARGEST = 2**53 - 1
_LONGEST_WORD = 16

RowKey = tuple[int | None, int | None]
"""A core, which may move to another worker, and None; where lines name no cores, None and the worker."""


def row_key(core: int | None, worker: int | None) -> RowKey:
    """Return what identifies a row of the per-core view throughout a run."""
    return core, worker if core is None else None


@dataclass(frozen=True)
class Finding:
    """A core that was behind the others or slower, or whose loss was not a number. None means unknown."""

    kind: str
    core: int | None
    worker: int | None = None
    address: str | None = None
    since: str | None = None
    """When it was first seen (RFC 3339)."""
    until: str | None = None
    """When it was over; None while it lasts, and if it lasted to the end of the run."""
    recovered: bool = False
    """Whether it ended because the core recovered, not because the attempt ended."""
    pace: float | None = None
    """The core's speed as a share of the median core's."""
    steps_behind: int | None = None
    loss: str | None = None
    epoch: int | None = None
    step: int | None = None
    """The step at which the loss was first seen not to be a number, if known."""
    is_exact: bool = False
    """Whether that is the exact step: a keeper, which reads only some of the lines, may see a later one."""

    @property
    def key(self) -> RowKey:
        """Return what identifies its core throughout the run."""
        return row_key(self.core, self.worker)

    @property
    def is_open(self) -> bool:
        """Return whether it lasts, or lasted to the end of the run."""
        return self.until is None

    @property
    def is_straggling(self) -> bool:
        """Return whether it is about a core's pace."""
        return self.kind in STRAGGLING

    @property
    def share(self) -> float | None:
        """Return the share of the pod's time that goes into waiting for it, or would if the others waited, 0 to 1."""
        return 1 - self.pace if self.pace is not None and 0 < self.pace < 1 else None

    def to_json(self) -> dict[str, Any]:
        """Return the finding as `status --json` lists it."""
        fields = {name: getattr(self, name) for name in self.__dataclass_fields__ if name != "since"}
        values = {"from": self.since, **fields, "share": self.share}
        return {name: round_figure(value) if isinstance(value, float) else value for name, value in values.items()}

    @classmethod
    def from_json(cls, row: Mapping[str, Any]) -> Finding:
        """Return the finding in a row made by `to_json`."""
        fields = {name: row[name] for name in cls.__dataclass_fields__ if name != "since"}
        return cls(since=row["from"], **fields)


def is_about_cores(event: Event) -> bool:
    """Return whether a note begins, updates or ends findings."""
    return event.get("stall") in KINDS or (event.get("stall") in (OVER, AT_THE_END) and bool(_rows(event)))


def fold_note(findings: tuple[Finding, ...], run: Run, event: Event) -> tuple[Finding, ...]:
    """Return the findings after one more note."""
    stall = event.get("stall")
    if stall in KINDS:
        return _with_new(findings, list(_found(str(stall), run, event)))
    rows = _rows(event)
    if stall == OVER and rows:
        kinds = event.get("of")
        over = STRAGGLING if not isinstance(kinds, list) else tuple(kind for kind in KINDS if kind in kinds)
        return tuple(
            replace(finding, until=event.time, recovered=True)
            if finding.is_open and finding.kind in over and finding.key in rows
            else finding
            for finding in findings
        )
    if stall == AT_THE_END:
        return _update_figures(findings, {finding.key: finding for finding in _found(BEHIND, run, event)})
    return findings


def ended_with_attempt(findings: tuple[Finding, ...], moment: str) -> tuple[Finding, ...]:
    """Return the findings after their attempt has ended: none of them lasts into the next one."""
    return tuple(replace(finding, until=moment) if finding.is_open else finding for finding in findings)


def _with_new(findings: tuple[Finding, ...], new: list[Finding]) -> tuple[Finding, ...]:
    """Add new findings; update the figures of cores that are stragglers already."""
    open_keys = {(finding.kind == LOSS, finding.key) for finding in findings if finding.is_open}
    again = {finding.key: finding for finding in new if finding.is_straggling and (False, finding.key) in open_keys}
    added = [finding for finding in new if (finding.kind == LOSS, finding.key) not in open_keys]
    return (*_update_figures(findings, again), *added)[:MOST_FINDINGS]


def _update_figures(findings: tuple[Finding, ...], newest: Mapping[RowKey, Finding]) -> tuple[Finding, ...]:
    return tuple(
        newest_figures(finding, newest[finding.key])
        if finding.is_open and finding.is_straggling and finding.key in newest
        else finding
        for finding in findings
    )


def newest_figures(known: Finding, newest: Finding) -> Finding:
    """Return a known finding with the figures of a newer one about the same core."""
    return replace(
        known,
        worker=known.worker if newest.worker is None else newest.worker,
        address=known.address or newest.address,
        pace=known.pace if newest.pace is None else newest.pace,
        steps_behind=known.steps_behind if newest.steps_behind is None else newest.steps_behind,
    )


def _found(kind: str, run: Run, event: Event) -> Iterable[Finding]:
    """Yield a note's finding for each core, or worker."""
    addresses = {worker.index: worker.internal_ip or worker.external_ip for worker in run.workers}
    for (core, _worker), row in (_rows(event) or {(None, None): {}}).items():
        worker = _whole(row.get("worker"))
        worker = _worker_of(core, run, event) if worker is None else worker
        yield Finding(
            kind,
            core,
            worker,
            addresses.get(worker) if worker is not None else None,
            _before(event.time, _finite(row.get("seconds"))),
            pace=_finite(row.get("pace")),
            steps_behind=_whole(row.get("steps_behind")),
            loss=str(row.get("loss") or "nan")[:_LONGEST_WORD] if kind == LOSS else None,
            epoch=_whole(row.get("epoch")),
            step=_whole(row.get("step")),
        )


def _before(moment: str, seconds: float | None) -> str:
    """Return the moment `seconds` earlier; the same moment if they are unknown."""
    with suppress(ValueError, OverflowError):
        return (datetime.fromisoformat(moment) - timedelta(seconds=max(0.0, seconds or 0.0))).isoformat()
    return moment


def _rows(event: Event) -> dict[RowKey, Mapping[str, Any]]:
    """Return the figures of the cores and workers that a note is about, by key."""
    cores, found = (
        value[:MOST_FINDINGS] if isinstance(value, list) else [] for value in map(event.get, ("cores", "found"))
    )
    rows: dict[RowKey, Mapping[str, Any]] = {row_key(core, None): {} for core in map(_whole, cores)}
    for row in found:
        if isinstance(row, dict):
            rows[row_key(_whole(row.get("core")), _whole(row.get("worker")))] = row
    rows.pop((None, None), None)
    return rows


def _worker_of(core: int | None, run: Run, event: Event) -> int | None:
    """Return the worker that a note is about; of several, the one to which the core's number belongs."""
    if event.worker is not None:
        return event.worker
    workers = event.get("workers")
    per_worker = run.cores_per_worker
    if core is None or not per_worker or not isinstance(workers, list):
        return None
    return core // per_worker if core // per_worker in workers else None


def _whole(value: Any) -> int | None:
    return value if is_integer(value, -_LARGEST, _LARGEST) else None


def _finite(value: Any) -> float | None:
    return float(value) if is_number(value, -_LARGEST, _LARGEST) else None
