"""Deletion of a run's records: its directory on this machine, and what its workers hold."""

from __future__ import annotations

import shutil
from collections.abc import AsyncGenerator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from tui.aio.fan_out import as_completed
from tui.errors import TpuTuiError, UsageError
from tui.pod.job_options import JobOptions
from tui.pod.run import Run, is_run_id
from tui.runs.record.damaged_record import NoRecordError
from tui.runs.record.directory_lock import DirectoryLock
from tui.runs.record.run_directory import RunDirectory
from tui.runs.record.run_status import status_of
from tui.runs.worker.calls import build_call
from tui.runs.worker.queries import QUERY_TIMEOUT_S
from tui.ssh.exec.script_protocol import no_answer_error, parse_answers
from tui.ssh.fleet import Fleet

_DOOMED = ".deleted-"
"""The beginning of the name of a directory that is being removed."""


@dataclass(frozen=True)
class DeleteAnswer:
    """One worker's answer: whether nothing of the run is left there, or why something is."""

    worker: int
    deleted: bool
    detail: str = ""


def delete_here(directory: RunDirectory) -> None:
    """Remove a run's directory on this machine; a directory that is already gone is not an error.

    Raises UsageError while the run is not over or has a keeper, TpuTuiError where the file system refuses.
    """
    status = status_of(directory)
    if not (status.state.is_over or directory.was_deleted):
        raise UsageError(f"{directory.id} is {status.state}", remedy=f"tpu-tui stop {directory.id} ends it first")
    _remove(directory)


def delete_unreadable(damaged: NoRecordError, runs_home: Path, *, anyway: bool = False) -> None:
    """Remove a directory that only its name and place show to be a run's, because its record cannot be read.

    Its workers are not known, so the files on them stay. Raises UsageError for a directory that may not be a run's,
    while it has a keeper, and, unless `anyway`, where its events do not show that the run is over.
    """
    path = damaged.path
    if not is_run_id(path.name) or path.parent.resolve() != runs_home.resolve():
        raise damaged
    directory = RunDirectory(path, Run(path.name, "", JobOptions(), ()))
    if not anyway and directory.events_size() and not status_of(directory).state.is_over:
        why = "its record cannot be read, and by its events it is not over"
        remedy = "--on here forgets it on this machine; tpu-tui runs then finds it on its workers again"
        raise UsageError(f"{path.name} may still be running", why=why, remedy=remedy)
    _remove(directory)


def keeper_busy_error(directory: RunDirectory) -> UsageError:
    """Return the error for a run that is over but whose keeper still works."""
    return UsageError(f"the keeper of {directory.id} still works on it", remedy="try again when it is done")


def _remove(directory: RunDirectory) -> None:
    """Remove a run's directory, unless it has a keeper."""
    try:
        lock = DirectoryLock.take(directory)
        if lock is None:
            raise keeper_busy_error(directory)
        with closing(lock):
            if lock.is_in_place():
                _remove_tree(directory.path)
    except FileNotFoundError:
        return
    except OSError as error:
        why = f"{error.filename or directory.path}: {error.strerror or error}"
        remedy = "deleting it requires write permission for that directory and for its parent"
        raise TpuTuiError(f"{directory.id} cannot be deleted on this machine", why=why, remedy=remedy) from error


def _remove_tree(path: Path) -> None:
    # Renamed first: an interrupted deletion leaves no half of a run in the list. The next one removes the rest.
    for left in path.parent.glob(f"{_DOOMED}*"):
        shutil.rmtree(left, ignore_errors=True)
    doomed = path.with_name(_DOOMED + path.name)
    path.rename(doomed)
    shutil.rmtree(doomed.resolve())
    if doomed.is_symlink():
        doomed.unlink()


def delete_on_workers(run: Run, fleet: Fleet) -> AsyncGenerator[DeleteAnswer, None]:
    """Remove every attempt of a run from the workers; yield each worker's answer. A live attempt is kept."""
    return as_completed(_delete_on(run, fleet, worker.index) for worker in run.workers)


async def _delete_on(run: Run, fleet: Fleet, index: int) -> DeleteAnswer:
    call = build_call("delete", run.id, index, run_root=run.run_root)
    try:
        result = await fleet.run(index, call.command, input=call.input, timeout=QUERY_TIMEOUT_S)
    except TpuTuiError as error:
        return DeleteAnswer(index, deleted=False, detail=error.explanation)
    for answer in parse_answers(call.nonce, result.stdout):
        if answer.word in ("deleted", "alive"):
            return DeleteAnswer(index, answer.word == "deleted", answer.text)
    return DeleteAnswer(index, False, no_answer_error(index, "no answer", result.stderr, result.exit_code).why)
