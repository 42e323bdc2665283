"""Find runs that another machine launched, by querying the workers; import them, to be mirrored from byte 0."""

from __future__ import annotations

import asyncio
from collections.abc import Container, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from tui.aio.fan_out import cancel_all
from tui.aio.timeouts import within
from tui.errors import TpuTuiError, WorkerError
from tui.pod.run import Run, RunState
from tui.runs.follow.sync_from_workers import record_worker_answers
from tui.runs.record.event_log import EARLIER_ATTEMPTS
from tui.runs.record.run_directory import RunDirectory, RunExistsError
from tui.runs.record.run_index import find_by_record, stamp_of
from tui.runs.record.run_status import BY_REMOTE_USER, STOP_REQUESTED, status_of
from tui.runs.worker.queries import RemoteState, list_run_answers, parse_attempt, parse_state, read_record
from tui.ssh.exec.script_protocol import Answer
from tui.ssh.fleet import Fleet

LIST_TIMEOUT_S = 15.0
"""Timeout of a worker's listing of its runs, and of the transfer of a run's record."""
LEAST_TIMEOUT_S, LAGGARD_FACTOR = 4.0, 4.0
"""Once half of the workers have answered, the others have this factor times as long, but at least the first time."""
_POLL_INTERVAL_S = 0.25
MOST_NEW_RUNS = 50
"""Limit on the runs unknown here that one listing of a worker adds: a worker may invent runs."""


@dataclass(frozen=True)
class FoundRun:
    """A run as the workers know it: its record, and the answer of each worker that was queried.

    The record holds no secret values: a restart reads them from the worker's own files. An answer is None where the
    worker does not know the run.
    """

    run: Run
    answers: Mapping[int, Answer | None]

    @property
    def workers(self) -> dict[int, RemoteState]:
        """Return the run's state on each worker that knows it."""
        return {index: parse_state(answer) for index, answer in self.answers.items() if answer is not None}

    @property
    def attempt(self) -> int:
        """Return the last attempt that a worker knows."""
        return max((parse_attempt(answer, self.run) for answer in self.answers.values() if answer), default=0)

    @property
    def is_stopped(self) -> bool:
        """Return whether a person stopped the run, so that no further attempt may begin."""
        return any(answer.has("stopped") for answer in self.answers.values() if answer)

    @property
    def is_alive(self) -> bool:
        """Return whether a process of the run may be alive."""
        return any(state.may_run for state in self.workers.values())


@dataclass(frozen=True)
class Discovery:
    """The runs found, newest first, the errors of workers that gave no answer, and how many runs are left out."""

    runs: tuple[FoundRun, ...]
    problems: tuple[TpuTuiError, ...] = ()
    left_out: int = 0


class RunsLeftOutError(TpuTuiError):
    """A notice, not a failure: a listing took only some of the workers' runs."""

    exit_code = 0

    def __init__(self, count: int, slice_name: str) -> None:
        super().__init__(
            f"{count} older runs on {slice_name} are left out",
            why=f"at most {MOST_NEW_RUNS} that are new here are taken from each worker",
            remedy="list the runs again to take the next ones",
        )


async def discover(
    fleet: Fleet,
    run_root: str,
    *,
    slice_name: str = "SLICE",
    known: Container[str] = (),
    only: str | None = None,
) -> Discovery:
    """Query every worker of a slice for its runs; with `only`, return no other run than that one.

    The number of runs that are not `known` here is limited. A worker that is unreachable, or silent long after the
    others, becomes one of the `problems`; the answers of the others are kept.
    """
    collected = await _collect_answers(fleet, run_root, slice_name)
    problems = [answers for answers in collected.values() if isinstance(answers, TpuTuiError)]
    listings = {index: answers for index, answers in collected.items() if not isinstance(answers, TpuTuiError)}
    listed: set[str] = set().union(*listings.values())
    chosen = _choose_runs(listings, known) if only is None else listed & {only}
    by_run = {
        run_id: {index: answers.get(run_id) for index, answers in sorted(listings.items())} for run_id in chosen
    }
    described = await asyncio.gather(
        *(_describe(fleet, run_id, run_root, answers, slice_name) for run_id, answers in by_run.items())
    )
    runs = [run for run in described if isinstance(run, FoundRun)]
    problems += [error for error in described if isinstance(error, TpuTuiError)]
    left_out = len(listed - chosen) if only is None else 0
    newest_first = sorted(runs, key=lambda found: stamp_of(found.run.id), reverse=True)
    return Discovery(tuple(newest_first), tuple(problems), left_out)


def _choose_runs(listings: Mapping[int, Mapping[str, Answer]], known: Container[str]) -> set[str]:
    """Return the known runs and the newest others of each worker, those that may be alive first."""
    chosen: set[str] = set()
    for answers in listings.values():
        new = [run_id for run_id in answers if run_id not in known]
        new.sort(key=lambda run_id: not parse_state(answers[run_id]).may_run)
        chosen.update(new[:MOST_NEW_RUNS], (run_id for run_id in answers if run_id in known))
    return chosen


async def _collect_answers(
    fleet: Fleet, run_root: str, slice_name: str
) -> dict[int, Mapping[str, Answer] | TpuTuiError]:
    """Return each worker's listing, or the error that prevented it."""
    loop = asyncio.get_running_loop()
    began = loop.time()
    patience = LIST_TIMEOUT_S
    tasks = {index: asyncio.ensure_future(list_run_answers(fleet, index, run_root)) for index in fleet.workers}
    pending = set(tasks.values())
    try:
        while pending and (remaining := began + patience - loop.time()) > 0:
            _, pending = await asyncio.wait(pending, timeout=min(remaining, _POLL_INTERVAL_S))
            if 2 * len(pending) <= len(tasks):
                patience = min(patience, max(LEAST_TIMEOUT_S, LAGGARD_FACTOR * (loop.time() - began)))
    finally:
        await cancel_all(tasks.values())
    return {index: _listing_or_error(index, task, patience, slice_name) for index, task in tasks.items()}


def _listing_or_error(
    index: int, task: asyncio.Task[dict[str, Answer]], patience: float, slice_name: str
) -> Mapping[str, Answer] | TpuTuiError:
    if task.cancelled():
        return _late("it does not list its runs", index, patience, slice_name)
    error = task.exception()
    return error if isinstance(error, TpuTuiError) else task.result()


def _late(what: str, index: int, patience: float, slice_name: str) -> WorkerError:
    why = f"no answer within {patience:.0f} s, so it or the network to it is slow or stuck"
    return WorkerError(what, worker=index, why=why, remedy=f"tpu-tui check {slice_name} looks at it")


async def _describe(
    fleet: Fleet, run_id: str, run_root: str, answers: Mapping[int, Answer | None], slice_name: str
) -> FoundRun | TpuTuiError:
    """Return the run by the first worker that has its record, with the workers' present addresses and keys."""
    problem: TpuTuiError | None = None
    for index in (index for index, answer in answers.items() if answer is not None):
        try:
            record = await within(read_record(fleet, index, run_id, run_root), LIST_TIMEOUT_S)
        except asyncio.TimeoutError:
            problem = _late(f"it does not report {run_id}", index, LIST_TIMEOUT_S, slice_name)
            continue
        except TpuTuiError as error:
            problem = error
            continue
        # A record on a worker vouches for no other machine, under whatever name.
        workers = tuple(
            fleet.workers.get(worker.index, replace(worker, host_keys=(), host_key_alias=None))
            for worker in record.workers
        )
        return FoundRun(replace(record, workers=workers, run_root=run_root), answers)
    assert problem is not None
    return problem


def import_run(found: FoundRun, runs_home: Path, *, profile: str | None = None) -> RunDirectory:
    """Make a run directory here for a run found on the workers, or open the one that exists.

    Where no keeper of this machine follows the run, the workers' answers are recorded. `profile` names the settings
    that reach the workers from here. A keeper that is then started mirrors every worker from byte 0 and, being the
    newest, applies the run's policies.
    """
    if directory := _find_here(found.run.id, runs_home):
        if directory.foreign is None:
            record_worker_answers(directory, found.answers)
        return directory
    run = replace(found.run, profile=profile, job=replace(found.run.job, on_end=()))
    try:
        directory = RunDirectory.create(runs_home, run)
    except RunExistsError:  # another command has found it at the same moment
        return RunDirectory.open(runs_home / run.id)
    directory.append_event("state", state=str(RunState.PREPARING), cause=None)
    if found.run.job.on_end:
        actions = ", ".join(found.run.job.on_end)
        text = f"the actions at its end are left to the machine that launched it: {actions}"
        directory.append_event("note", text=text)
    if attempt := found.attempt:
        text = f"it was launched again before it was found here: attempt {attempt}; the earlier logs come first"
        directory.append_event("note", text=text, **{EARLIER_ATTEMPTS: attempt})
    record_worker_answers(directory, found.answers)
    if found.is_stopped and not found.is_alive and not status_of(directory).stop_requested:
        directory.append_event("state", state=str(RunState.RUNNING), cause=None)
        directory.append_event(STOP_REQUESTED, by=BY_REMOTE_USER, grace=found.run.job.grace)
    return directory


def _find_here(run_id: str, runs_home: Path) -> RunDirectory | None:
    """Return the run's directory on this machine, even if it was renamed."""
    path = runs_home / run_id
    return RunDirectory.open(path) if path.is_dir() else find_by_record(runs_home, run_id)
