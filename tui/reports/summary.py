"""Summarize a run or a saved log: plain facts and a snapshot in, one frozen summary out. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from statistics import median
from typing import Any

from tui.logs.core_row import CoreRow, Spread, json_figure
from tui.logs.snapshot import CoreState, Snapshot
from tui.logs.state.missing_cores import MissingCores, missing_cores
from tui.pod.accelerator import parse
from tui.pod.run import LAST_WORDS, RunState
from tui.pod.secrets import mask_secrets
from tui.reports.curves import ChartPoint, ReportCurve, chart_of, curves_of
from tui.reports.findings import finding_remarks, findings_of, straggler_rows
from tui.runs.record.exit_summary import restart_sentences
from tui.runs.record.findings import Finding
from tui.runs.record.run_status import Restart
from tui.text.numbers import format_figure
from tui.text.ranks import name_ranks
from tui.text.timestamps import parse_time

RATES_AGREE = 0.10
"""Largest relative difference between the sum of the cores' GlobalRate and the job's Reduced GlobalRate."""


@dataclass(frozen=True, slots=True)
class WorkerSummary:
    """One worker: what the run's record says, None for a saved log, and then the figures of its log.

    `loss` is the median over the worker's cores that make the pod's figures, or over all of its cores if none does;
    `rate` is the sum over them, or their median where rates do not add.
    """

    worker: int | None
    hostname: str | None = None
    address: str | None = None
    exit_code: int | None = None
    signal: str | None = None
    ended: bool | None = None
    detail: str | None = None
    lines: int = 0
    samples: int = 0
    cores: int = 0
    loss: float | None = None
    rate: float | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the worker as in the JSON report."""
        return {name: json_figure(getattr(self, name)) for name in self.__slots__}


@dataclass(frozen=True)
class RunFacts:
    """What is known about a run apart from its logs. Times are RFC 3339 or a log's own; None: unknown."""

    title: str
    is_run: bool = True
    """False for a saved log, which has no record."""
    source: str = ""
    """Identifies the run or log in a report's file; empty: its title does."""
    slice: str | None = None
    zone: str | None = None
    accelerator_type: str | None = None
    runtime_version: str | None = None
    versions: Mapping[str, str] = field(default_factory=dict)
    """Versions of torch, torch_xla and libtpu in the job's interpreter."""
    spot: bool | None = None
    argv: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    code_hash: str | None = None
    state: str | None = None
    cause: str | None = None
    attempt: int = 0
    restarts: tuple[Restart, ...] = ()
    started: str | None = None
    ended: str | None = None
    workers: tuple[WorkerSummary, ...] = ()
    notes: tuple[str, ...] = ()
    cores_expected: int | None = None
    """Number of XLA devices of the slice."""
    findings: tuple[Finding, ...] = ()
    """Problems of single cores that a keeper recorded."""
    first_failure: int | None = None

    @property
    def is_over(self) -> bool:
        """Return whether a run has ended."""
        return self.state is not None and RunState(self.state).is_over

    @property
    def is_final(self) -> bool:
        """Return whether no more lines can come, as for a saved log."""
        return self.is_over or not self.is_run


@dataclass(frozen=True, slots=True)
class RateCheck:
    """Compares the sum of the cores' rates with the rate that the job reports (examples/s)."""

    epoch: int
    cores_sum: float
    reported: float

    @property
    def rates_agree(self) -> bool:
        """Return whether they differ by at most `RATES_AGREE`."""
        return self.reported > 0 and abs(self.cores_sum - self.reported) <= RATES_AGREE * self.reported

    def to_json(self) -> dict[str, Any]:
        """Return the check as in the JSON report, whose names are stable."""
        cores_sum = json_figure(self.cores_sum)
        return {"epoch": self.epoch, "cores_sum": cores_sum, "told": self.reported, "agree": self.rates_agree}


@dataclass(frozen=True)
class Summary:
    """The content of a report, independent of its format. Figures are the newest known; None: unknown."""

    facts: RunFacts
    snapshot: Snapshot
    seconds: float | None
    """Duration from start to end, or from a log's first date to its last."""
    loss: Spread | None
    rate_check: RateCheck | None
    workers: tuple[WorkerSummary, ...]
    cores: tuple[CoreRow, ...]
    stragglers: tuple[Mapping[str, Any], ...]
    """The cost of each straggler, as `status --json` prints it."""
    remarks: tuple[str, ...]
    """What to look at first: failures, stragglers, inconsistent figures."""
    chart: tuple[ChartPoint, ...]
    curves: tuple[ReportCurve, ...]


def summarize(facts: RunFacts, snapshot: Snapshot) -> Summary:
    """Combine the facts of a run with the snapshot of its logs."""
    facts = _complete_facts(facts, snapshot)
    workers = _workers(facts, snapshot)
    check = _rate_check(snapshot)
    findings = findings_of(facts.findings, snapshot, is_over=facts.is_over, first_failure=facts.first_failure)
    return Summary(
        facts=facts,
        snapshot=snapshot,
        seconds=_seconds(facts.started, facts.ended),
        loss=snapshot.loss_spread,
        rate_check=check,
        workers=workers,
        cores=tuple(snapshot.rows()),
        stragglers=tuple(straggler_rows(findings, snapshot)),
        remarks=(*_remarks(facts, snapshot, workers, check), *finding_remarks(findings, is_over=facts.is_over)),
        chart=chart_of(snapshot),
        curves=curves_of(snapshot),
    )


def _complete_facts(facts: RunFacts, snapshot: Snapshot) -> RunFacts:
    """Add the facts that only the log states, and mask secrets."""
    cluster = snapshot.facts.get("cluster") or {}
    hosts = {client["address"]: client["hostname"] for client in cluster.get("clients", ())}
    workers = facts.workers or tuple(
        WorkerSummary(worker.worker, hosts.get(worker.address), worker.address)
        for worker in snapshot.workers
        if worker.worker is not None
    )
    accelerator_type = facts.accelerator_type or cluster.get("accelerator_type")
    accelerator = parse(accelerator_type or "")
    return replace(
        facts,
        env=mask_secrets(facts.env),
        workers=workers,
        slice=facts.slice or cluster.get("tpu"),
        zone=facts.zone or cluster.get("zone"),
        accelerator_type=accelerator_type,
        runtime_version=facts.runtime_version or cluster.get("runtime_version"),
        cores_expected=facts.cores_expected or (accelerator.devices if accelerator else None),
        started=facts.started or snapshot.first_time,
        ended=facts.ended or (None if facts.is_run else snapshot.last_time),
    )


def _workers(facts: RunFacts, snapshot: Snapshot) -> tuple[WorkerSummary, ...]:
    recorded = {fact.worker: fact for fact in facts.workers}
    slots = {worker.worker: (slot, worker) for slot, worker in enumerate(snapshot.workers)}
    summaries = []
    for number in sorted({*recorded, *slots}, key=lambda number: math.inf if number is None else number):
        summary = recorded.get(number, WorkerSummary(number))
        if number in slots:
            slot, logged = slots[number]
            own = snapshot.slot == slot
            mask = own & snapshot.counting if (own & snapshot.counting).any() else own
            rates = snapshot.rate[mask]
            summary = replace(
                summary,
                address=summary.address or logged.address,
                lines=logged.lines,
                samples=logged.samples,
                cores=logged.cores,
                loss=_median_loss(snapshot, mask),
                rate=_rate_of(rates[rates == rates], add=snapshot.rates_add),
            )
        summaries.append(summary)
    return tuple(summaries)


def _rate_of(rates: Any, *, add: bool) -> float | None:
    if not len(rates):
        return None
    return float(rates.sum()) if add else float(median(rates.tolist()))


def _median_loss(snapshot: Snapshot, mask: Any) -> float | None:
    """Return the median loss of the cores in a mask; nan where they have no finite one."""
    losses = [float(loss) for loss in snapshot.loss[mask] if not math.isnan(loss)]
    if losses:
        return median(losses)
    return math.nan if bool((snapshot.state[mask] == CoreState.NAN).any()) else None


def _rate_check(snapshot: Snapshot) -> RateCheck | None:
    """Compare the sum of GlobalRate with Reduced GlobalRate for the epoch that all cores are in."""
    reported = {epoch.epoch: epoch.reduced_global_rate for epoch in snapshot.epochs if epoch.reduced_global_rate}
    epochs = {int(epoch) for epoch in snapshot.epoch}
    if len(epochs) != 1 or not epochs <= reported.keys():
        return None
    rates = snapshot.global_rate
    if not len(rates) or bool((rates != rates).any()):
        return None
    epoch = epochs.pop()
    return RateCheck(epoch, float(rates.sum()), float(reported[epoch] or 0.0))


def _remarks(
    facts: RunFacts, snapshot: Snapshot, workers: tuple[WorkerSummary, ...], check: RateCheck | None
) -> list[str]:
    remarks = []
    if facts.cause:
        cause, _, last_lines = facts.cause.partition(LAST_WORDS)
        remarks += [f"Cause: {cause}.", *([f"Its last lines: {last_lines}"] if last_lines else [])]
    remarks += [f"{text[0].upper()}{text[1:]}." for text in restart_sentences(facts.restarts)]
    remarks += _end_remarks(workers)
    remarks += _core_remarks(snapshot)
    missing = missing_cores(snapshot, facts.cores_expected, len(facts.workers), is_over=facts.is_final)
    idle = [worker.worker for worker in workers if worker.worker is not None and not worker.samples]
    if idle and snapshot.samples:
        remarks.append(f"{name_ranks('Worker', idle)} printed no training line.")
    remarks += _missing_remarks(missing, snapshot)
    if check is not None and not check.rates_agree:
        cores_sum, reported = format_figure(check.cores_sum, apart=True), format_figure(check.reported, apart=True)
        lacking = f"the sum lacks {name_ranks('core', missing.cores)}, which printed no line"
        remarks.append(
            f"Sum of per-core GlobalRate in epoch {check.epoch}: {cores_sum} examples/s, but the job reports "
            f"{reported}: {lacking if missing.cores else 'the two differ'}."
        )
    return remarks


def _end_remarks(workers: tuple[WorkerSummary, ...]) -> list[str]:
    """Return sentences about workers that failed, one per kind of failure."""
    alike: dict[tuple[str | None, int | None], list[int]] = {}
    for worker in workers:
        if worker.worker is not None and (worker.signal or worker.exit_code):
            code = None if worker.signal else worker.exit_code
            alike.setdefault((worker.signal, code), []).append(worker.worker)
    remarks = []
    for (signal, code), numbers in alike.items():
        were = "was" if len(numbers) == 1 else "were"
        how = f"{were} killed by signal {signal}" if signal else f"exited with code {code}"
        remarks.append(f"{name_ranks('Worker', numbers)} {how}.")
    return remarks


def _core_remarks(snapshot: Snapshot) -> list[str]:
    """Return sentences about cores without a finite loss and silent ones; stragglers are in the findings."""
    remarks = []
    for state, problem in (
        (CoreState.NAN, "a loss that is not a finite number"),
        (CoreState.SILENT, "fallen silent"),
    ):
        rows = [snapshot.row_at(int(index)) for index in (snapshot.state == state).nonzero()[0]]
        if not rows:
            continue
        cores = [row.core for row in rows if row.core is not None]
        owners = sorted({row.worker for row in rows if row.worker is not None})
        location = f" ({name_ranks('worker', owners)})" if owners and cores else ""
        subject = name_ranks("Core", cores) if cores else name_ranks("Worker", owners) if owners else "The stream"
        since = _since(rows) if state is CoreState.NAN else ""
        remarks.append(f"{subject}{location} {'has' if len(rows) == 1 else 'have'} {problem}{since}.")
    return remarks


def _since(rows: list[CoreRow]) -> str:
    """Return where the losses of these cores stopped being finite; empty where that is unknown."""
    places = [(row.first_nan.epoch, row.first_nan.step, row.core) for row in rows if row.first_nan is not None]
    known = [place for place in places if place[1] is not None]
    if not known:
        return ""
    epoch, step, core = min(known, key=lambda place: (place[0] or 0, place[1] or 0))
    is_same = len(known) == len(rows) and all(place[:2] == (epoch, step) for place in known)
    first = "" if is_same or core is None else f" the first, core {core},"
    return f",{first} since {f'epoch {epoch}, ' if epoch is not None else ''}step {step}"


def _missing_remarks(missing: MissingCores, snapshot: Snapshot) -> list[str]:
    """Return a sentence about cores without any line; where their number is unknown, gaps in the ordinals."""
    if missing.cores:
        return [f"{missing.sentence.capitalize()}: it is unknown whether they trained."]
    cores = {int(core) for core in snapshot.core if core >= 0}
    lower = sorted(set(range(max(cores, default=-1))) - cores) if len(cores) > 1 else []
    return [f"{name_ranks('Core', lower)} printed no training line, though higher ordinals did."] if lower else []


def _seconds(started: str | None, ended: str | None) -> float | None:
    begin, end = parse_time(started), parse_time(ended)
    if begin is None or end is None or (begin.tzinfo is None) is not (end.tzinfo is None):
        return None
    return (end - begin).total_seconds()
