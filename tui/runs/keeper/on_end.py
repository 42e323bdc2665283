"""Carry out `--on-end`, once the last state of a run is on record.

Every step is a `note` event with the field `on_end`; its `status` is started, done, failed, refused or, for progress,
`_PROGRESS`. Each action is carried out at most once where that can be ensured: a command whose keeper was killed is
not started again, and of several copies of a run's directory, one acts. Directories are copied, and restored from
backups that are older than the end of the run. So a keeper that is about to act first leaves the number of its
directory with every worker, and does not act if it finds another number.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import signal
from collections.abc import Awaitable, Callable

from tui.aio.timeouts import within
from tui.cloud.open_inventory import cloud_inventory
from tui.errors import TpuTuiError
from tui.pod.slice import INSTANCE_GROUP
from tui.procs.python_env import explain_import_error, python_path
from tui.runs.failure_rules import read_last_lines
from tui.runs.health.run_slice import RunSlice, slice_settings
from tui.runs.health.slice_diagnosis import SliceDiagnosis, diagnose
from tui.runs.launch.on_end_actions import Action, actions_with_status, never_began, pending_actions
from tui.runs.record.log_mirror import record
from tui.runs.record.run_directory import EVENTS_FILE, RunDirectory
from tui.runs.record.run_status import status_of
from tui.runs.worker.calls import build_call
from tui.runs.worker.queries import list_run_answers, parse_state
from tui.settings.home import open_regular
from tui.ssh.exec.script_protocol import parse_answers
from tui.ssh.fleet import Fleet
from tui.text.ranks import format_workers

LOG_FILE = "on-end.log"
"""The output of the last command, in the run's directory."""
ACTION_TIMEOUT_S = 600.0
OTHER_RUNS_TIMEOUT_S = 30.0
"""Timeout of the query for other live runs on a worker."""
IDENTITY = "launched_from"
"""Field of a launch's first event that identifies the directory from which it was launched."""
COPY_DELAY_S = 30.0
"""Head start of the original directory over a copy."""
CLAIM_TIMEOUT_S = 30.0
_NUMBER_BYTES = 7
"""A shell's numbers have 63 bits."""
_INTERRUPTED = "its keeper ended while it was being carried out, so it may have been done"

_PROGRESS = "told"
"""The status of a note about progress, as stored in event files."""
ReportWriter = Callable[[RunDirectory, str], Awaitable[list[str]]]
"""Writes a run's report in every format, uploads it if a folder of a bucket is given, and returns the files."""


async def run_pending_actions(directory: RunDirectory, fleet: Fleet, write_report: ReportWriter) -> None:
    """Carry out the pending actions, each regardless of whether others fail."""
    if never_began(directory):
        await record(directory, "note", text="nothing is done on end: the run never began")
    pending, started = pending_actions(directory), actions_with_status(directory, ("started",))
    obstacle = await _claim(directory, fleet) if pending else ""
    for action in pending:
        interrupted = _INTERRUPTED if action.kind == "command" and str(action) in started else ""
        try:
            refused = obstacle or interrupted or await _refusal(directory, action, fleet)
            if refused:
                await _note(directory, action, "refused", f"on end: {action} is not done: {refused}")
                continue
            await _note(directory, action, "started", f"on end: {action}")
            detail = await _perform(directory, action, write_report)
        except TpuTuiError as error:
            remedy = f" ({error.remedy})" if error.remedy else ""
            await _note(directory, action, "failed", f"on end: {action} failed: {error.sentence}{remedy}")
        except (OSError, ImportError) as error:
            problem = error.strerror or error if isinstance(error, OSError) else explain_import_error(error)
            await _note(directory, action, "failed", f"on end: {action} failed: {problem}")
        else:
            await _note(directory, action, "done", f"on end: {action} done{': ' + detail if detail else ''}")


async def _refusal(directory: RunDirectory, action: Action, fleet: Fleet) -> str:
    """Return why an action must not be carried out now; empty if it may be."""
    if action.kind != "report" and slice_settings(directory).read_only:
        return "refused by --read-only"
    if not action.is_about_slice:
        return ""
    status = status_of(directory)
    started = [worker for worker in status.workers if worker.phase in ("start", "confirm")]
    alive = [worker.worker for worker in started if not worker.ended and not worker.confirmed]
    if alive and not status.slice_is_gone:
        return f"the run may still be running on {format_workers(alive)}, which could not be reached"
    if (await _diagnose(directory)).kind == "replaced":
        return f"{directory.run.slice} was recreated since the launch"
    other_run = await _others_alive(directory, fleet)
    return f"{other_run} is alive there" if other_run else ""


async def _diagnose(directory: RunDirectory) -> SliceDiagnosis:
    """Diagnose the slice as it is now. Raises TpuTuiError where the API does not answer."""
    async with contextlib.aclosing(RunSlice(directory)) as run_slice:
        return diagnose(directory.run, await run_slice.find())


async def _others_alive(directory: RunDirectory, fleet: Fleet) -> str:
    """Return another run that is alive on a reachable worker; empty if there is none."""

    async def living_runs(index: int) -> list[str]:
        try:
            answers = await within(list_run_answers(fleet, index, directory.run.run_root), OTHER_RUNS_TIMEOUT_S)
        except (TpuTuiError, asyncio.TimeoutError):
            return []
        return [run for run, answer in answers.items() if parse_state(answer).may_run]

    alive = await asyncio.gather(*(living_runs(worker.index) for worker in directory.run.workers))
    return next((run for runs in alive for run in sorted(runs) if run != directory.id), "")


async def _perform(directory: RunDirectory, action: Action, write_report: ReportWriter) -> str:
    if action.kind == "report":
        try:
            return ", ".join(await within(write_report(directory, action.argument), ACTION_TIMEOUT_S))
        except asyncio.TimeoutError:
            raise TpuTuiError(f"it was not written within {ACTION_TIMEOUT_S:.0f} s") from None
    if action.kind == "command":
        return await _run_command(directory, action.argument)
    return await _change_slice(directory, action)


async def _change_slice(directory: RunDirectory, action: Action) -> str:
    api = cloud_inventory(slice_settings(directory))
    source = api.groups if directory.run.source == INSTANCE_GROUP and api.groups else api.tpu.lifecycle
    change = source.delete if action.kind == "delete-slice" else api.tpu.lifecycle.stop
    last = ""
    try:
        async for progress in change(directory.run.zone or "", directory.run.slice):
            last = progress
            await _note(directory, action, _PROGRESS, f"on end: {progress}")
    finally:
        await api.close()
    return last


async def _run_command(directory: RunDirectory, command: str) -> str:
    """Run a shell command here and return its last lines. Raises TpuTuiError when it does not exit with 0."""
    status = status_of(directory)
    variables = {
        "TPU_TUI_RUN": directory.id,
        "TPU_TUI_RUN_DIRECTORY": str(directory.path),
        "TPU_TUI_SLICE": directory.run.slice,
        "TPU_TUI_STATE": str(status.state),
        "TPU_TUI_CAUSE": status.cause or "",
    }
    log = directory.path / LOG_FILE
    with os.fdopen(open_regular(log, os.O_CREAT | os.O_APPEND | os.O_WRONLY), "ab") as output:
        output.truncate(0)
        process = await asyncio.create_subprocess_exec(
            "sh",
            "-c",
            command,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env={**os.environ, **variables, "PYTHONPATH": python_path(os.environ)},
            cwd=directory.path,
            start_new_session=True,
        )
    try:
        code = await within(process.wait(), ACTION_TIMEOUT_S)
    except asyncio.TimeoutError:
        raise TpuTuiError("it did not end", why=f"killed after {ACTION_TIMEOUT_S:.0f} s") from None
    finally:
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
    if code:
        raise TpuTuiError(f"it ended with {code}", why=read_last_lines(log))
    return read_last_lines(log)


async def _note(directory: RunDirectory, action: Action, status: str, text: str) -> None:
    await record(directory, "note", text=text, on_end=str(action), status=status)


def identity_of(directory: RunDirectory) -> str:
    """Return the directory's inode numbers, which differ in a copy."""
    return f"{directory.path.stat().st_ino}-{(directory.path / EVENTS_FILE).stat().st_ino}"


def is_copy(directory: RunDirectory) -> bool:
    """Return whether, by its events, the run was launched from another directory."""
    identities = (event.get(IDENTITY) for event in directory.events()[0] if event.kind == "state")
    return next(filter(None, identities), None) not in (None, identity_of(directory))


async def _claim(directory: RunDirectory, fleet: Fleet) -> str:
    """Claim `--on-end` for this directory; return why its keeper must not act, empty if it may."""
    copied = is_copy(directory)
    if copied:
        await asyncio.sleep(COPY_DELAY_S)
    claims = await _claim_on_workers(directory, fleet)
    if any(number != _number(directory) for number in claims):
        return "another copy of this run's directory does it, or has done it"
    if copied and not claims:
        return "this is a copy of the directory that launched the run, and no worker knows whether it was done there"
    return ""


def _number(directory: RunDirectory) -> int:
    digest = hashlib.sha256(identity_of(directory).encode()).digest()
    return int.from_bytes(digest[:_NUMBER_BYTES], "big")


async def _claim_on_workers(directory: RunDirectory, fleet: Fleet) -> list[int]:
    """Return the number that each reachable worker now holds: the first one that it received.

    On a slice that is gone, no worker answers; in a group that lost single VMs, the others do.
    """
    status = status_of(directory)
    if status.slice_is_gone and directory.run.source != INSTANCE_GROUP:
        return []
    indices = [part.worker for part in status.workers if not status.slice_is_gone or part.link != "lost"]
    claims = (_claim_on(directory, fleet, index) for index in indices)
    return [number for number in await asyncio.gather(*claims) if number is not None]


async def _claim_on(directory: RunDirectory, fleet: Fleet, index: int) -> int | None:
    call = build_call("entitle", directory.id, index, _number(directory), run_root=directory.run.run_root)
    try:
        running = fleet.run(index, call.command, input=call.input, timeout=CLAIM_TIMEOUT_S)
        result = await within(running, CLAIM_TIMEOUT_S)
    except (TpuTuiError, asyncio.TimeoutError):
        return None
    for answer in parse_answers(call.nonce, result.stdout):
        if answer.word == "entitled" and (number := answer.number_at(0)) is not None:
            return number
    return None
