"""The status of a run, derived from its events and its keeper's file."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from weakref import WeakKeyDictionary

from tui.pod.run import LAST_WORDS, Run, RunState
from tui.runs.failure_rules import final_state, first_failure, have_only_lost_partners
from tui.runs.record.boot_clock import time_of_end
from tui.runs.record.event_log import Event
from tui.runs.record.findings import Finding, ended_with_attempt, fold_note, is_about_cores
from tui.runs.record.keeper_file import KeeperStatus
from tui.runs.record.run_directory import RunDirectory
from tui.runs.record.versions import VERSIONS, versions_in
from tui.runs.record.worker_status import WorkerParts, WorkerStatus, worker_changes

BY_POLICY = "policy"
"""`stop_requested.by` where the failure policy stops a run, which then fails; a person's stop ends as `stopped`."""
BY_REMOTE_USER = "user on another machine"
"""`stop_requested.by` where the workers report that a person stopped the run, and no command here did."""
STOP_REQUESTED = "stop_requested"
"""Event: a person or the failure policy requested a stop of the present attempt."""
TAGS = "tags"
"""Event: the tags of the jobs about to start, by worker; a stop finds a job by its tag if its directory is gone."""
DISK_IS_FULL = "the disk here is full: following waits, the run goes on"
DISK_HAS_ROOM = "there is room again here: following goes on"
"""Notes on the room for a worker's mirror."""
WORKER_REPORT = "told"
"""Event: the workers' answers about an attempt without a keeper here; rows of `ended` have the fields of `exit`."""


@dataclass(frozen=True)
class Restart:
    """One restart of a run: its number, when it began (RFC 3339), and why the attempt before it ended."""

    attempt: int
    time: str
    cause: str


@dataclass(frozen=True)
class RunStatus:
    """A run's status as every front end shows it. Times are RFC 3339."""

    run: Run
    state: RunState
    attended: KeeperStatus
    parts: tuple[WorkerStatus, ...] | RunDirectory
    """Each worker's part, or the directory from which the parts are read on demand."""
    started: str | None = None
    ended: str | None = None
    cause: str | None = None
    attempt: int = 0
    restarts: tuple[Restart, ...] = ()
    """The restarts that a keeper recorded here, in order."""
    first_failure: int | None = None
    stop_requested: str | None = None
    stop_grace: float = 0.0
    notes: tuple[str, ...] = field(default=())
    slice_note: str = ""
    """The newest note of what the cloud reported about the slice while workers were unreachable."""
    notes_without_findings: tuple[str, ...] = ()
    """The notes that are not about single cores, which `findings` describes in more detail."""
    versions: Mapping[str, str] = field(default_factory=dict)
    """The versions of torch, torch_xla and libtpu in the job's interpreter, where workers reported them."""
    findings: tuple[Finding, ...] = ()
    """The problems of single cores in the order of their beginning, past ones included."""
    remedy: str | None = None
    """What to do about the cause, where that is recorded."""
    slice_is_gone: bool = False
    """Whether, according to the API, the job on the slice has ended for good."""
    is_worker_report: bool = False
    """Whether the status comes from the workers' answers alone, so that the mirror may be behind."""
    mirrored: int = 0
    """The attempt whose logs are mirrored; the workers may have reported a later one."""
    begun: Event | None = None
    """The event that was recorded when it started, where there is one."""

    @cached_property
    def workers(self) -> tuple[WorkerStatus, ...]:
        """Return each worker's part, in the order of the workers."""
        return self.parts if isinstance(self.parts, tuple) else status_of(self.parts).workers

    @cached_property
    def exit_codes(self) -> tuple[int | None, ...]:
        """Return the exit code of each worker, None where it is not known."""
        return tuple(part.exit_code for part in self.workers)

    @property
    def silent(self) -> tuple[int, ...]:
        """Return the workers that have written nothing for longer than the threshold."""
        return tuple(part.worker for part in self.workers if part.silent and not part.ended)

    @property
    def disk_is_full(self) -> bool:
        """Return whether the mirrors wait for room on the disk of this machine."""
        about_room = (note for note in reversed(self.notes) if note.endswith((DISK_IS_FULL, DISK_HAS_ROOM)))
        return next(about_room, "").endswith(DISK_IS_FULL)

    @property
    def is_training_again(self) -> bool:
        """Return whether a restarted attempt runs, and none of its workers has failed."""
        return self.state is RunState.RUNNING and self.attempt > 0 and self.first_failure is None

    @property
    def short_cause(self) -> str:
        """Return the cause without the last lines of a log; empty if there is none.

        Until a keeper has recorded a cause, it is the first failure of the workers that have ended.
        """
        return (self.cause or self._failure_so_far).partition(LAST_WORDS)[0]

    @property
    def _failure_so_far(self) -> str:
        if self.state is not RunState.RUNNING or self.stop_requested:
            return ""
        outcomes = {part.worker: part.outcome for part in self.workers if part.ended}
        first = None if have_only_lost_partners(outcomes) else first_failure(outcomes)
        return "".join(_how_it_failed(part) for part in self.workers if part.worker == first)

    @property
    def is_stopped_by_person(self) -> bool:
        """Return whether a person requested its stop, not the failure policy."""
        return self.stop_requested not in (None, BY_POLICY)

    @property
    def is_whole(self) -> bool:
        """Return whether it is over and a keeper followed every log to its end, or until the worker was given up."""
        return self.state.is_over and not self.is_worker_report

    @property
    def was_given_up(self) -> bool:
        """Return whether it is lost because workers were unreachable and not followed to their ends."""
        return self.state is RunState.LOST and not all(part.ended or part.confirmed for part in self.workers)


def status_of(directory: RunDirectory) -> RunStatus:
    """Return a run's status, from its events and its keeper's file.

    Called again with the same object, it reads only the new events: a keeper and its command call it often.
    """
    fold = _FOLDS.get(directory)
    if fold is None or not fold.still_fits(directory):
        fold = _FOLDS[directory] = StatusFold(directory.run)
    fold.read(directory)
    return fold.status(directory.keeper_status())


def summary_status(directory: RunDirectory) -> RunStatus:
    """Return the status like `status_of`, but for a run that is over, read the workers' parts on demand only.

    Most of a run's events are about workers, which a list of thousands of old runs does not show.
    """
    attended = directory.keeper_status()
    outline = StatusFold(directory.run).take(directory.events_of_run()).status(attended)
    is_settled = outline.is_whole and not attended.alive
    return replace(outline, parts=directory) if is_settled else status_of(directory)


_NOTES_KEPT = 20
_NO_KEEPER = KeeperStatus(alive=False)


class StatusFold:
    """A run's status folded from its events up to byte `offset`; every worker of the run has a part."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.offset = 0
        self._status = RunStatus(run, RunState.PREPARING, _NO_KEEPER, ())
        self._parts = WorkerParts(worker.index for worker in run.workers)
        self._report: Event | None = None
        self._reading = threading.RLock()

    def still_fits(self, directory: RunDirectory) -> bool:
        """Return whether the directory's events continue this fold: the same run, and a file that has not shrunk."""
        return self.run is directory.run and directory.events_size() >= self.offset

    def read(self, directory: RunDirectory) -> None:
        """Fold in new events. Thread-safe."""
        with self._reading:
            if directory.events_size() != self.offset:
                events, self.offset = directory.events(self.offset)
                self.take(events)

    def take(self, events: Iterable[Event]) -> StatusFold:
        """Fold in further events; of a worker's successive phases only the last one counts."""
        phases: dict[int, Event] = {}
        for event in events:
            if event.kind == "phase" and event.worker is not None:
                phases[event.worker] = event
                continue
            if event.kind == "state":
                self._fold_in(phases)
            try:
                self._take(event)
            except (TypeError, ValueError, KeyError):
                continue  # fields of another version, with another meaning
        self._fold_in(phases)
        return self

    def _take(self, event: Event) -> None:
        if event.kind == WORKER_REPORT:
            _apply_worker_report(self.status(_NO_KEEPER), event)  # raises for an invalid report
            self._report = event
            return
        self._status = _fold_run(self._status, event, self._parts)
        if event.worker is not None:
            self._parts.fold_in(event.worker, event)

    def _fold_in(self, events: dict[int, Event]) -> None:
        """Fold in one event of each of these workers, and clear them."""
        while events:
            self._parts.fold_in(*events.popitem())

    def status(self, attended: KeeperStatus) -> RunStatus:
        """Return the status; to the run's own keeper, which follows the workers, without their report."""
        with self._reading:
            parts = self._parts.list_parts()
        status = replace(self._status, attended=attended, mirrored=self._status.attempt, parts=parts)
        is_own = attended.pid == os.getpid() and attended.state != "gone"
        return status if is_own or self._report is None else _apply_worker_report(status, self._report)


def _apply_worker_report(status: RunStatus, report: Event) -> RunStatus:
    """Return the status by the workers' last answers, which may be about a later attempt than the mirrored one."""
    attempt = int(report.get("attempt") or 0)
    if status.state.is_over or attempt < status.attempt:
        return status
    parts = {part.worker: part for part in status.workers}
    if attempt > status.attempt:
        parts = {index: WorkerStatus(index, phase="confirm", phase_status="done") for index in parts}
        cause = f"restart {attempt} of {status.run.job.restarts}"
        status = replace(status, attempt=attempt, state=RunState.PREPARING, cause=cause, first_failure=None)
    if status.state is RunState.PREPARING:
        state = RunState.STOPPING if status.is_stopped_by_person else RunState.RUNNING
        status = replace(status, state=state)
    for row in report.get("ended") or ():
        index = row["worker"]
        if index in parts and not parts[index].ended:
            changes = worker_changes(Event(report.time, "exit", index, row), None, ended=False)
            parts[index] = replace(parts[index], **changes)
    ordered = tuple(parts.values())
    status = replace(status, parts=ordered, is_worker_report=True)
    return _conclude(status) if all(part.ended for part in ordered) else status


def _conclude(status: RunStatus) -> RunStatus:
    """Return the status of a run whose every part has ended: over, unless a restart is to come."""
    parts = {part.worker: part for part in status.workers}
    outcomes = {index: part.outcome for index, part in parts.items()}
    by_person = status.is_stopped_by_person
    first = first_failure(outcomes)
    state = final_state(outcomes, stopped_by_person=by_person, first=first)
    failed = None if by_person or first is None else parts[first]
    cause = status.cause if failed is None or status.first_failure is not None else _how_it_failed(failed)
    restart, restarts = status.attempt + 1, status.run.job.restarts
    if failed is not None and restart <= restarts:
        return replace(status, state=RunState.PREPARING, cause=f"{cause}; restart {restart} of {restarts} is to come")
    # By a worker's slow clock the run could end before it began.
    ended = max((part.ended_at for part in parts.values() if part.ended_at), default=None)
    ended = ended and max(ended, status.started or "")
    return replace(status, state=state, ended=ended, cause=cause if failed is not None else None)


def _how_it_failed(part: WorkerStatus) -> str:
    return f"worker {part.worker} {part.exit_cause or f'exited with {part.exit_code}'}"


_FOLDS: WeakKeyDictionary[RunDirectory, StatusFold] = WeakKeyDictionary()


def _fold_run(status: RunStatus, event: Event, parts: WorkerParts) -> RunStatus:
    if event.kind == "state":
        return _fold_state(status, event, parts)
    if event.kind == STOP_REQUESTED and (status.state is RunState.LOST or not status.state.is_over):
        cause = status.cause or (event.get("cause") if event.get("by") == BY_POLICY else None)
        requester = status.stop_requested
        requested = str(event.get("by") or "user") if requester in (None, BY_POLICY) else requester
        grace = float(event.get("grace") or 0)
        state = RunState.LOST if status.state is RunState.LOST else RunState.STOPPING
        return replace(status, state=state, stop_requested=requested, stop_grace=grace, cause=cause)
    if event.kind == "failure" and status.first_failure is None:
        return replace(status, first_failure=event.worker, cause=event.get("cause") or status.cause)
    if event.kind == VERSIONS:
        return replace(status, versions=versions_in(event))
    if event.kind == "note":
        return _fold_note(status, event, parts)
    if event.kind == TAGS:
        parts.set_tags(event.get("tags") or {})
    return status


def _fold_note(status: RunStatus, event: Event, parts: WorkerParts) -> RunStatus:
    prefix = "" if event.worker is None else f"worker {event.worker}: "
    note = prefix + str(event.get("text", ""))
    status = replace(status, notes=(*status.notes, note)[-_NOTES_KEPT:])
    if not is_about_cores(event):
        status = replace(status, notes_without_findings=(*status.notes_without_findings, note)[-_NOTES_KEPT:])
    if event.get("stall") in ("silent", "over"):
        parts.set_silent(event.get("workers") or (), event.get("stall") == "silent")
    if event.get("stall"):
        status = replace(status, findings=fold_note(status.findings, status.run, event))
    if event.get("slice"):
        note = status.notes[-1] if "gone" in event.fields else status.slice_note
        return replace(status, slice_is_gone=bool(event.get("gone")), slice_note=note)
    return status


def _cause_of_restart(event: Event) -> str:
    """Return the cause without the number of the restart: `restart 1 of 2: worker 1 exited with 3`."""
    number, _, cause = str(event.get("cause") or "").partition(": ")
    return cause or number


def _fold_state(status: RunStatus, event: Event, parts: WorkerParts) -> RunStatus:
    try:
        state = RunState(event.get("state"))
    except ValueError:
        return status
    attempt = event.get("attempt")
    if isinstance(attempt, int) and attempt > status.attempt:
        parts.reset()
        stop = None if status.stop_requested == BY_POLICY else status.stop_requested
        status = replace(status, attempt=attempt, ended=None, cause=None, first_failure=None, stop_requested=stop)
        findings = ended_with_attempt(status.findings, event.time)
        restarts = (*status.restarts, Restart(attempt, event.time, _cause_of_restart(event)))
        status = replace(status, slice_is_gone=False, findings=findings, restarts=restarts)
        state = state if stop is None or state.is_over else RunState.STOPPING
    elif status.state is RunState.LOST and event.get("revived"):
        status = replace(status, ended=None, cause=None, first_failure=None)
        state = state if status.stop_requested is None or state.is_over else RunState.STOPPING
    elif status.state.is_over or (state is RunState.RUNNING and status.state is RunState.STOPPING):
        return status
    if state is RunState.RUNNING and status.started is None:
        since = event.get("since")
        status = replace(status, started=since or event.time, begun=None if since else event)
    ended = time_of_end(status.started, status.begun, event) if state.is_over else None
    has_failed = status.first_failure is not None or status.stop_requested == BY_POLICY
    earlier = status.cause if not state.is_over or (has_failed and state is not RunState.SUCCEEDED) else None
    cause, remedy = event.get("cause") or earlier, event.get("remedy") or None
    return replace(status, state=state, ended=ended, cause=cause, remedy=remedy)
