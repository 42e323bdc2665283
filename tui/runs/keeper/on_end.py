"""What a launch asked to be done once its run has ended: `--on-end`.

The keeper on the machine that launched the run does it, after the last state is on record; every step is a `note`
event with the field `on_end`, and `status` says how it went: started, told, done, failed or refused. It is done once
at most, as far as can be known: `entitled` sorts out copies of the directory, and a command whose keeper was killed
is not begun again. The actions stay on this machine: a run that is found on its workers brings none, for whoever
holds a worker must not be able to have commands run or slices deleted here.
"""

from __future__ import annotations

import asyncio
import os
import re
import signal
import sys
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tui.errors import TpuTuiError, UsageError
from tui.pod.run import Run, RunState
from tui.pod.slice_commands import CANNOT_STOP
from tui.procs.python_env import python_path
from tui.runs.failure_rules import read_last_lines
from tui.runs.health.reachability import Reachability
from tui.runs.health.slice_diagnosis import SliceDiagnosis, diagnose
from tui.runs.health.slice_monitor import SliceMonitor, slice_settings
from tui.runs.keeper.on_end_claim import refusal_reason
from tui.runs.keeper_timeouts import KeeperTimeouts
from tui.runs.record.log_mirror import record
from tui.runs.record.run_directory import RunDirectory
from tui.runs.record.run_status import status_of
from tui.runs.worker.queries import RemoteState, list_runs
from tui.text.ranks import format_workers

if TYPE_CHECKING:
    from tui.ssh.fleet import Fleet

ACTIONS = ("report", "stop-slice", "delete-slice", "command")
"""`report` may name a folder to upload to (`report:gs://bucket/runs`), `command` must say what (`command:TEXT`)."""
REPORT_FORMATS = ("html", "md", "json", "csv", "txt")
LOG_FILE = "on-end.log"
"""What the last action printed that is a command, in the run's directory."""
COMMAND_TIMEOUT_S = 600.0
OTHER_RUNS_TIMEOUT_S = 30.0
"""Seconds the workers have to tell whether another run is alive there."""
_DONE = ("done", "failed", "refused")
_INTERRUPTED = "it was begun, and its keeper ended meanwhile, so it may have been done"


@dataclass(frozen=True)
class Action:
    """One thing to do at the end."""

    kind: str
    argument: str = ""

    @property
    def is_about_slice(self) -> bool:
        """Whether it takes the machines away: done last."""
        return self.kind in ("stop-slice", "delete-slice")

    def __str__(self) -> str:
        return f"{self.kind}:{self.argument}" if self.argument else self.kind


def parse_action(text: str) -> Action:
    """Read one `--on-end`. Raises UsageError for what is none."""
    kind, colon, argument = text.partition(":")
    remedy = "report, report:gs://BUCKET/FOLDER, stop-slice, delete-slice or command:SHELL COMMAND"
    if kind not in ACTIONS:
        raise UsageError(f"no action for the end of a run: {text!r}", remedy=remedy)
    if (kind == "command") is not bool(argument.strip()) and kind != "report":
        raise UsageError(f"--on-end {kind} {'takes nothing' if argument else 'says no command'}", remedy=remedy)
    if kind == "report" and colon and not re.match("gs://[^/]", argument):
        raise UsageError(f"--on-end report uploads to a bucket, not to {argument!r}", remedy=remedy)
    return Action(kind, argument)


def actions_of(run: Run) -> list[Action]:
    """The run's actions in the order they are done: those that take the slice away come last."""
    actions = [parse_action(text) for text in dict.fromkeys(run.on_end)]
    return sorted(actions, key=lambda action: action.is_about_slice)


def check_on_end(texts: Iterable[str], zone: str | None, *, workers: int = 1, read_only: bool = False) -> None:
    """Refuse what could not be done when the time comes. Raises UsageError."""
    for action in map(parse_action, texts):
        if action.is_about_slice and zone is None:
            raise UsageError(f"--on-end {action}", why="these machines are not made or deleted by the Cloud TPU API")
        if action.kind == "stop-slice" and workers > 1:
            why = f"{CANNOT_STOP}, and this one has {workers}"
            remedy = "--on-end delete-slice gives it back; tpu-tui slices create makes another"
            raise UsageError(f"--on-end {action}", why=why, remedy=remedy)
        if action.is_about_slice and read_only:
            raise UsageError(f"--on-end {action} is refused by --read-only")


def describe(run: Run) -> str:
    """What will be done at the end, a line each, as `--dry-run` shows it; empty where nothing was asked for."""
    said = {
        "report": "write the report into the run's directory",
        "stop-slice": f"stop slice {run.slice}, unless something of a run may still be alive there",
        "delete-slice": f"delete slice {run.slice}, unless something of a run may still be alive there",
        "command": "run here, with sh",
    }
    lines = []
    for action in actions_of(run):
        more = f" and upload it to {action.argument}" if action.kind == "report" and action.argument else ""
        more = f": {action.argument}" if action.kind == "command" else more
        lines.append(f"on end: {said[action.kind]}{more}\n")
    return "".join(lines)


def pending_actions(directory: RunDirectory) -> list[Action]:
    """The actions that were not carried out yet, by the events; none of a launch that never began to run anywhere.

    Nobody wants a slice deleted over a mistyped command: whoever launched it was told, and may launch again.
    """
    if not directory.run.on_end or never_began(directory):
        return []
    done = _told(directory, _DONE)
    return [action for action in actions_of(directory.run) if str(action) not in done]


def _told(directory: RunDirectory, statuses: Collection[str]) -> set[str]:
    """The actions of which one of these was told."""
    notes = (event for event in directory.events()[0] if event.kind == "note")
    return {str(note.get("on_end")) for note in notes if note.get("on_end") and note.get("status") in statuses}


def never_began(directory: RunDirectory) -> bool:
    """Whether a launch failed, or was stopped, before anything could run."""
    status = status_of(directory)
    begun = status.started is not None or any(worker.phase in ("start", "confirm") for worker in status.workers)
    return status.state in (RunState.FAILED, RunState.STOPPED) and not begun


async def run_pending_actions(directory: RunDirectory, fleet: Fleet) -> None:
    """Do what is left to do; failures are told and keep nothing else from being done."""
    if never_began(directory):
        await record(directory, "note", text="nothing is done on end: the run never began")
    left, begun = pending_actions(directory), _told(directory, ("started",))
    hindered = await refusal_reason(directory, fleet) if left else ""
    for action in left:
        interrupted = _INTERRUPTED if action.kind == "command" and str(action) in begun else ""
        try:
            refused = hindered or interrupted or await _refusal(directory, action, fleet)
            if refused:
                await _tell(directory, action, "refused", f"on end: {action} is not done: {refused}")
                continue
            await _tell(directory, action, "started", f"on end: {action}")
            said = await _do(directory, action)
        except TpuTuiError as error:
            remedy = f" ({error.remedy})" if error.remedy else ""
            await _tell(directory, action, "failed", f"on end: {action} failed: {error.sentence}{remedy}")
        except OSError as error:
            await _tell(directory, action, "failed", f"on end: {action} failed: {error.strerror or error}")
        else:
            await _tell(directory, action, "done", f"on end: {action} done{': ' + said if said else ''}")


async def _refusal(directory: RunDirectory, action: Action, fleet: Fleet) -> str:
    """Why a slice must not be taken away now; empty when nothing speaks against it."""
    if action.kind != "report" and slice_settings(directory).read_only:
        return "refused by --read-only"
    if not action.is_about_slice:
        return ""
    status = status_of(directory)
    begun = [worker for worker in status.workers if worker.phase in ("start", "confirm")]
    alive = [worker.worker for worker in begun if not worker.ended and not worker.confirmed]
    if alive and not status.slice_is_gone:
        return f"the run may go on on {format_workers(alive)}, which could not be reached"
    if (await _plight(directory)).kind == "replaced":
        return f"{directory.run.slice} was made again since"
    others = await _others_alive(directory, fleet)
    return f"{others} is alive there" if others else ""


async def _plight(directory: RunDirectory) -> SliceDiagnosis:
    """What the slice is in now. Raises TpuTuiError where that is not to be known."""
    timeouts = KeeperTimeouts()
    monitor = SliceMonitor(directory, Reachability(timeouts), timeouts)
    try:
        return diagnose(directory.run, await monitor.find_slice())
    finally:
        await monitor.close()


async def _others_alive(directory: RunDirectory, fleet: Fleet) -> str:
    """Another run that a worker in reach knows to be alive; empty where there is none."""

    async def asked(index: int) -> list[str]:
        try:
            known = await asyncio.wait_for(list_runs(fleet, index, directory.run.run_root), OTHER_RUNS_TIMEOUT_S)
        except (TpuTuiError, asyncio.TimeoutError):
            return []
        return [run for run, found in known.items() if found in (RemoteState.RUNNING, RemoteState.UNDECIDED)]

    heard = await asyncio.gather(*(asked(worker.index) for worker in directory.run.workers))
    return next((run for runs in heard for run in sorted(runs) if run != directory.id), "")


async def _do(directory: RunDirectory, action: Action) -> str:
    if action.kind == "report":
        formats = [word for name in REPORT_FORMATS for word in ("--format", name)]
        upload = ["--upload", action.argument] if action.argument else []
        return await _run(directory, [*_our_command(directory), "report", str(directory.path), *formats, *upload])
    if action.kind == "command":
        return await _run(directory, ["sh", "-c", action.argument])
    return await _change_slice(directory, action)


async def _change_slice(directory: RunDirectory, action: Action) -> str:
    from tui.cloud.tpu.tpu_api import TpuApi

    api = TpuApi(slice_settings(directory))
    change = api.delete if action.kind == "delete-slice" else api.stop
    last = ""
    try:
        async for told in change(directory.run.zone or "", directory.run.slice):
            last = told
            await _tell(directory, action, "told", f"on end: {told}")
    finally:
        await api.close()
    return last


def _our_command(directory: RunDirectory) -> list[str]:
    """`tpu-tui` with the run's own profile and project."""
    run = directory.run
    named = (("--profile", run.profile), ("--project", run.project))
    flags = [word for flag, value in named if value for word in (flag, value)]
    return [sys.executable, "-m", "tui.cli", *flags]


async def _run(directory: RunDirectory, command: list[str]) -> str:
    """Run a command here and return the last lines it printed. Raises TpuTuiError when it does not end with 0."""
    status = status_of(directory)
    told = {
        "TPU_TUI_RUN": directory.id,
        "TPU_TUI_RUN_DIRECTORY": str(directory.path),
        "TPU_TUI_SLICE": directory.run.slice,
        "TPU_TUI_STATE": str(status.state),
        "TPU_TUI_CAUSE": status.cause or "",
    }
    log = directory.path / LOG_FILE
    with log.open("ab") as output:
        output.truncate(0)
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env={**os.environ, **told, "PYTHONPATH": python_path(os.environ)},
            cwd=directory.path,
            start_new_session=True,
        )
    try:
        code = await asyncio.wait_for(process.wait(), COMMAND_TIMEOUT_S)
    except asyncio.TimeoutError:
        raise TpuTuiError("it did not end", why=f"killed after {COMMAND_TIMEOUT_S:.0f} s") from None
    finally:
        if process.returncode is None:
            os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
    if code:
        raise TpuTuiError(f"it ended with {code}", why=read_last_lines(log))
    return read_last_lines(log)


async def _tell(directory: RunDirectory, action: Action, status: str, text: str) -> None:
    await record(directory, "note", text=text, on_end=str(action), status=status)
