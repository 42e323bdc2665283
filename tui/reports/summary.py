"""What a run or a saved log comes to: plain facts and a snapshot in, one frozen summary out. Pure."""

from __future__ import annotations

import math
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from statistics import median
from typing import Any

from tui.logs.snapshot import CoreRow, CoreState, EpochSummary, Snapshot, Spread, json_figure
from tui.logs.state.missing_cores import missing_cores
from tui.pod.accelerator import parse
from tui.pod.run import LAST_WORDS
from tui.pod.secrets import mask_secrets
from tui.reports.curves import ReportCurve, curves_of
from tui.reports.findings import finding_remarks, findings_of, straggler_rows
from tui.runs.record.findings import Finding
from tui.text.printable import figure, significant
from tui.text.ranks import format_ranks

RATES_AGREE = 0.10
"""How far the sum of the cores' GlobalRate may lie from the job's own Reduced GlobalRate, as a share of it."""


@dataclass(frozen=True, slots=True)
class WorkerFact:
    """One worker as the run's record tells it; all None where a saved log is all there is."""

    worker: int
    hostname: str | None = None
    address: str | None = None
    exit_code: int | None = None
    signal: str | None = None
    ended: bool | None = None
    detail: str | None = None


@dataclass(frozen=True)
class RunFacts:
    """What is known of a run apart from its logs. Times are RFC 3339 or a log's own, None unknown."""

    title: str
    is_run: bool = True
    """False for a saved log, which has no record beside it."""
    source: str = ""
    """What no other run or saved log has: by this a report's file is known as this one's. Empty: the title is."""
    slice: str | None = None
    zone: str | None = None
    accelerator_type: str | None = None
    runtime_version: str | None = None
    versions: Mapping[str, str] = field(default_factory=dict)
    """What the job's interpreter had: torch, torch_xla and libtpu."""
    spot: bool | None = None
    argv: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    code_hash: str | None = None
    state: str | None = None
    cause: str | None = None
    attempt: int = 0
    started: str | None = None
    ended: str | None = None
    workers: tuple[WorkerFact, ...] = ()
    notes: tuple[str, ...] = ()
    cores_expected: int | None = None
    """XLA devices that the slice has."""
    findings: tuple[Finding, ...] = ()
    """What a keeper found wrong with single cores."""
    first_failure: int | None = None
    is_over: bool = False


@dataclass(frozen=True, slots=True)
class WorkerFigures:
    """What one worker's log came to: `rate` over its cores, their median where rates do not add; `loss` is that."""

    worker: int | None
    hostname: str | None
    address: str | None
    exit_code: int | None
    signal: str | None
    ended: bool | None
    detail: str | None
    lines: int
    samples: int
    cores: int
    loss: float | None
    rate: float | None

    def to_json(self) -> dict[str, Any]:
        """The worker as the JSON report holds it."""
        return {name: json_figure(getattr(self, name)) for name in self.__slots__}


@dataclass(frozen=True, slots=True)
class RateCheck:
    """Whether the cores' own rates add up to what the job says of the whole slice (examples/s)."""

    epoch: int
    cores_sum: float
    told: float

    @property
    def agree(self) -> bool:
        """Whether they lie within `RATES_AGREE` of each other."""
        return self.told > 0 and abs(self.cores_sum - self.told) <= RATES_AGREE * self.told

    def to_json(self) -> dict[str, Any]:
        """The check as the JSON report holds it."""
        return {"epoch": self.epoch, "cores_sum": json_figure(self.cores_sum), "told": self.told, "agree": self.agree}


@dataclass(frozen=True, slots=True)
class ChartPoint:
    """The pod at one moment of the run, for charts. `step` and `epoch` as the log numbers them."""

    epoch: int | None
    step: int | None
    loss: float | None
    loss_min: float | None
    loss_max: float | None
    rate: float | None


@dataclass(frozen=True)
class Summary:
    """A report's content, before any format. Figures are the newest that were told, None unknown."""

    facts: RunFacts
    seconds: float | None
    """From start to end, or from a log's first date to its last."""
    epoch: int | None
    step: int | None
    loss: Spread | None
    rate_total: float | None
    """What the whole pod does in a second, in `rate_unit`; None where that is not known."""
    rate_median: float | None
    rate_unit: str | None
    """What rates count: `examples/s`, `it/s` or `tokens/s`; None where nothing tells it, or they differ."""
    max_accuracy: float | None
    average_global_rate: float | None
    total_train_time: float | None
    epochs: tuple[EpochSummary, ...]
    rate_check: RateCheck | None
    workers: tuple[WorkerFigures, ...]
    cores: tuple[CoreRow, ...]
    findings: tuple[Finding, ...]
    """What was found wrong with single cores, whoever found it."""
    stragglers: tuple[Mapping[str, Any], ...]
    """Of each straggler what it costs, as `status --json` prints it."""
    remarks: tuple[str, ...]
    """What to look at first: who failed, who is behind, what does not add up."""
    lines: int
    bytes: int
    samples: int
    dialects: Mapping[str, int]
    chart: tuple[ChartPoint, ...]
    curves: tuple[ReportCurve, ...] = ()


def summarise(facts: RunFacts, snapshot: Snapshot) -> Summary:
    """Put a run's record and its logs together."""
    facts = _completed(facts, snapshot)
    workers = _workers(facts, snapshot)
    check = _rate_check(snapshot)
    findings = findings_of(facts.findings, snapshot, is_over=facts.is_over, first_failure=facts.first_failure)
    told = snapshot.facts
    return Summary(
        facts=facts,
        seconds=_seconds(facts.started, facts.ended),
        epoch=snapshot.median_epoch,
        step=snapshot.median_step,
        loss=loss_spread(snapshot),
        rate_total=snapshot.rate_total,
        rate_median=snapshot.rate_median,
        rate_unit=snapshot.rate_unit,
        max_accuracy=snapshot.max_accuracy,
        average_global_rate=told.get("average_global_rate"),
        total_train_time=told.get("total_train_time"),
        epochs=snapshot.epochs,
        rate_check=check,
        workers=workers,
        cores=tuple(snapshot.rows()),
        findings=findings,
        stragglers=tuple(straggler_rows(findings, snapshot)),
        remarks=(*_remarks(facts, snapshot, workers, check), *finding_remarks(findings, is_over=_is_over(facts))),
        lines=snapshot.lines,
        bytes=snapshot.bytes,
        samples=snapshot.samples,
        dialects=dict(snapshot.dialects),
        chart=_chart(snapshot),
        curves=curves_of(snapshot),
    )


def loss_spread(snapshot: Snapshot) -> Spread | None:
    """The loss over all cores; nan where every core that tells one tells that, None where none does."""
    if snapshot.loss_spread is None and snapshot.nan_cores:
        return Spread(math.nan, math.nan, math.nan)
    return snapshot.loss_spread


def command_line(facts: RunFacts) -> str:
    """The command as a shell would take it, empty where it is not known."""
    return shlex.join(facts.argv)


def _completed(facts: RunFacts, snapshot: Snapshot) -> RunFacts:
    """What a saved log itself tells about where it ran fills what no record does; secrets are masked."""
    cluster = snapshot.facts.get("cluster") or {}
    hosts = {client["address"]: client["hostname"] for client in cluster.get("clients", ())}
    workers = facts.workers or tuple(
        WorkerFact(worker.worker, hosts.get(worker.address), worker.address)
        for worker in snapshot.workers
        if worker.worker is not None
    )
    known = dict(facts.__dict__)
    known |= {
        "env": mask_secrets(facts.env),
        "workers": workers,
        "slice": facts.slice or cluster.get("tpu"),
        "zone": facts.zone or cluster.get("zone"),
        "accelerator_type": facts.accelerator_type or cluster.get("accelerator_type"),
        "runtime_version": facts.runtime_version or cluster.get("runtime_version"),
        "cores_expected": facts.cores_expected or _devices(facts.accelerator_type or cluster.get("accelerator_type")),
        "started": facts.started or snapshot.first_time,
        "ended": facts.ended or (None if facts.is_run else snapshot.last_time),
    }
    return RunFacts(**known)


def _devices(accelerator_type: str | None) -> int | None:
    accelerator = parse(accelerator_type or "")
    return None if accelerator is None else accelerator.devices


def _workers(facts: RunFacts, snapshot: Snapshot) -> tuple[WorkerFigures, ...]:
    recorded = {fact.worker: fact for fact in facts.workers}
    seen = {worker.worker: (place, worker) for place, worker in enumerate(snapshot.workers)}
    figures = []
    for number in sorted({*recorded, *(n for n in seen if n is not None)}) + ([None] if None in seen else []):
        fact = WorkerFact(-1) if number is None else recorded.get(number, WorkerFact(number))
        place, logged = seen.get(number, (-1, None))
        mine = snapshot.slot == place
        rates = snapshot.rate[mine]
        rates = rates[rates == rates]
        figures.append(
            WorkerFigures(
                worker=number,
                hostname=fact.hostname,
                address=fact.address or (logged.address if logged else None),
                exit_code=fact.exit_code,
                signal=fact.signal,
                ended=fact.ended,
                detail=fact.detail,
                lines=logged.lines if logged else 0,
                samples=logged.samples if logged else 0,
                cores=logged.cores if logged else 0,
                loss=_median_loss(snapshot, mine),
                rate=_rate_of(rates, add=snapshot.rates_add),
            )
        )
    return tuple(figures)


def _rate_of(rates: Any, *, add: bool) -> float | None:
    if not len(rates):
        return None
    return float(rates.sum()) if add else float(median(rates.tolist()))


def _median_loss(snapshot: Snapshot, mine: Any) -> float | None:
    """The median of one worker's cores (a mask over all); nan where they tell nothing else."""
    losses = [float(loss) for loss in snapshot.loss[mine] if not math.isnan(loss)]
    if losses:
        return median(losses)
    return math.nan if bool((snapshot.state[mine] == CoreState.NAN).any()) else None


def _rate_check(snapshot: Snapshot) -> RateCheck | None:
    """Σ GlobalRate against Reduced GlobalRate, for the newest epoch that every core still shows."""
    told = {epoch.epoch: epoch.reduced_global_rate for epoch in snapshot.epochs if epoch.reduced_global_rate}
    epochs = {int(epoch) for epoch in snapshot.epoch}
    if len(epochs) != 1 or not epochs <= told.keys():
        return None
    rates = snapshot.global_rate
    if not len(rates) or bool((rates != rates).any()):
        return None
    epoch = epochs.pop()
    return RateCheck(epoch, float(rates.sum()), float(told[epoch] or 0.0))


def _remarks(
    facts: RunFacts, snapshot: Snapshot, workers: tuple[WorkerFigures, ...], check: RateCheck | None
) -> list[str]:
    remarks = []
    if facts.cause:
        cause, _, last_lines = facts.cause.partition(LAST_WORDS)
        remarks += [f"Cause: {cause}.", *([f"Its last lines: {last_lines}"] if last_lines else [])]
    remarks += _end_remarks(workers)
    remarks += _core_remarks(snapshot, was_live=not facts.is_over)
    idle = [worker.worker for worker in workers if worker.worker is not None and not worker.samples]
    if idle and snapshot.samples:
        remarks.append(f"{_who('Worker', idle)} printed no training line.")
    remarks += _missing_remarks(facts, snapshot)
    if check is not None and not check.agree:
        cores_sum, told = figure(check.cores_sum, apart=True), figure(check.told, apart=True)
        remarks.append(
            f"In epoch {check.epoch} the cores' GlobalRate adds up to {cores_sum} examples/s, "
            f"but the job tells {told}: some core is missing or counted twice."
        )
    return remarks


def _end_remarks(workers: tuple[WorkerFigures, ...]) -> list[str]:
    """How workers ended that did not end well, those that ended alike in one sentence."""
    alike: dict[tuple[str | None, int | None], list[int]] = {}
    for worker in workers:
        if worker.worker is not None and (worker.signal or worker.exit_code):
            code = None if worker.signal else worker.exit_code
            alike.setdefault((worker.signal, code), []).append(worker.worker)
    remarks = []
    for (signal, code), numbers in alike.items():
        were = "was" if len(numbers) == 1 else "were"
        how = f"{were} killed by signal {signal}" if signal else f"exited with code {code}"
        remarks.append(f"{_who('Worker', numbers)} {how}.")
    return remarks


def _core_remarks(snapshot: Snapshot, *, was_live: bool) -> list[str]:
    """What is wrong with cores, those alike in one sentence; of an ended run, findings tell its stragglers."""
    remarks = []
    late = snapshot.straggling & was_live
    for chosen, one, many in (
        (
            snapshot.state == CoreState.NAN,
            "has a loss that is not a finite number",
            "have a loss that is not a finite number",
        ),
        (late & snapshot.behind, "is behind the others", "are behind the others"),
        (late & ~snapshot.behind, "is slower than the others", "are slower than the others"),
        (snapshot.state == CoreState.SILENT, "has fallen silent", "have fallen silent"),
    ):
        rows = [snapshot.row_at(int(place)) for place in chosen.nonzero()[0]]
        if not rows:
            continue
        cores = [row.core for row in rows if row.core is not None]
        owners = sorted({row.worker for row in rows if row.worker is not None})
        where = f" ({_who('worker', owners)})" if owners else ""
        what = _who("Core", cores) if cores else "The stream"
        remarks.append(f"{what}{where} {one if len(rows) == 1 else many}.")
    return remarks


def _is_over(facts: RunFacts) -> bool:
    """Whether nothing will come any more: a saved log is as it is."""
    return facts.is_over or not facts.is_run


def _missing_remarks(facts: RunFacts, snapshot: Snapshot) -> list[str]:
    """Which of the slice's cores told nothing; where their count is not known, those below others that did."""
    if facts.cores_expected is not None and len(snapshot):
        is_over = facts.state not in ("preparing", "running", "stopping")
        missing = missing_cores(snapshot, facts.cores_expected, len(facts.workers), is_over=is_over)
        if missing.cores:
            return [f"{missing.sentence.capitalize()}: nothing tells whether they trained."]
    cores = {int(core) for core in snapshot.core if core >= 0}
    lower = sorted(set(range(max(cores, default=-1))) - cores) if len(cores) > 1 else []
    return [f"{_who('Core', lower)} printed no training line, though higher ordinals did."] if lower else []


def _who(noun: str, numbers: list[int]) -> str:
    return f"{noun}{'' if len(numbers) == 1 else 's'} {format_ranks(numbers)}"


def _seconds(started: str | None, ended: str | None) -> float | None:
    try:
        begin, end = (datetime.fromisoformat((text or "").replace("Z", "+00:00")) for text in (started, ended))
        return (end - begin).total_seconds()
    except (ValueError, TypeError):
        return None


def _chart(snapshot: Snapshot) -> tuple[ChartPoint, ...]:
    if snapshot.history is None or not len(snapshot):
        return ()
    pod = snapshot.history.pod(snapshot.row, rates_add=snapshot.rates_add)
    columns = (pod.epoch, pod.step, pod.loss_median, pod.loss_min, pod.loss_max, pod.rate_total)
    return tuple(
        ChartPoint(
            None if epoch < 0 else int(epoch),
            None if step < 0 else int(step),
            *(significant(value) if math.isfinite(value) else None for value in figures),
        )
        for epoch, step, *figures in zip(*columns, strict=True)
    )
