"""Start the keeper of a run that has none.

The keeper is a separate process, `python -m tui.runs.keeper RUN_DIR` (`__main__.py`). It reads a JSON document on
standard input: `{"spec": …}` to launch, `{"access": …}` to follow a run that was launched before, `{}` to do that
with the settings of the run's profile. Secrets exist only in the document and in that process's memory.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from contextlib import suppress
from dataclasses import asdict
from typing import Any

from tui.errors import TpuTuiError
from tui.pod.run import RunState
from tui.procs.python_env import python_path
from tui.runs.failure_rules import read_last_lines
from tui.runs.keeper_timeouts import KeeperTimeouts
from tui.runs.launch.launch_spec import LaunchSpec, check_spec
from tui.runs.launch.on_end_actions import pending_actions
from tui.runs.record.keeper_file import MOST_PID, StuckKeeperError
from tui.runs.record.run_directory import KEEPER_LOG, RunDirectory
from tui.runs.record.run_status import status_of
from tui.settings.home import open_regular
from tui.ssh.config.access import Access
from tui.text.numbers import parse_integer


def start_keeper(
    directory: RunDirectory,
    spec: LaunchSpec | None,
    *,
    access: Access | None = None,
    timeouts: KeeperTimeouts | None = None,
) -> int:
    """Start the run's keeper and return its pid, or the pid of a keeper that is running already.

    The keeper runs in a new session, without a terminal and with `/` as its working directory; its messages go to
    keeper.log. Without `spec`, it follows the run and applies the policies in run.json. Raises TpuTuiError if the
    keeper did not start, and UsageError for a spec that could not run or a run that is only read.
    """
    directory.require_own()
    document: dict[str, Any] = {}
    if spec is not None:
        check_spec(spec)
        document = {"spec": spec.to_json()}
    elif access is not None:
        document = {"access": access.to_json()}
    if timeouts is not None:
        document["patience"] = asdict(timeouts)
    try:
        log = os.fdopen(open_regular(directory.path / KEEPER_LOG, os.O_CREAT | os.O_APPEND | os.O_WRONLY), "ab")
    except FileNotFoundError as error:
        raise TpuTuiError(
            "the run's directory is gone",
            why=str(directory.path),
            remedy=f"tpu-tui attach {directory.id} finds the run on its workers",
        ) from error
    except OSError as error:
        raise TpuTuiError(
            "the keeper cannot be started: the run's directory is not writable",
            why=f"{directory.path}: {error.strerror or error}",
            remedy="make room there, or set TPU_TUI_HOME to a directory that you may write to",
        ) from error
    with log:
        process = subprocess.run(
            [sys.executable, "-m", "tui.runs.keeper", str(directory.path.resolve())],
            input=json.dumps(document).encode(),
            stdout=subprocess.PIPE,
            stderr=log,
            env={**os.environ, "PYTHONPATH": python_path(os.environ)},
            cwd="/",
            start_new_session=True,
            check=False,
        )
    answer = process.stdout.strip()
    pid = parse_integer(answer, MOST_PID)
    if pid is None:
        problem = TpuTuiError(
            "the run's keeper did not start",
            why=read_last_lines(directory.path / KEEPER_LOG, 1) or f"exit code {process.returncode}",
            remedy=f"see {directory.path}/{KEEPER_LOG}",
        )
        if spec is not None:
            with suppress(OSError):
                directory.append_event("state", state=str(RunState.FAILED), cause=problem.sentence)
        raise problem
    return pid


async def ensure_keeper(directory: RunDirectory, access: Access, *, timeouts: KeeperTimeouts | None = None) -> bool:
    """Start a keeper for a run that has none and still needs one; return whether one was started.

    A run that is `lost` because its workers were unreachable needs one: it may still be running. Raises
    StuckKeeperError if its keeper does not respond but holds the run's lock.
    """
    attended = directory.keeper_status()
    if attended.alive or is_complete(directory):
        return False
    if attended.stuck:
        raise StuckKeeperError(directory.id, attended)
    await asyncio.to_thread(start_keeper, directory, None, access=access, timeouts=timeouts)
    return True


def is_complete(directory: RunDirectory) -> bool:
    """Return whether nothing is left to do: the run is over, its mirrors are complete, `--on-end` is done."""
    status = status_of(directory)
    if not status.is_whole or pending_actions(directory):
        return False
    # A run that was found on its workers and stopped during its launch has no phases here, but has exit codes.
    started = [part for part in status.workers if part.phase in ("start", "confirm") or part.exit_code is not None]
    return all(part.size is not None for part in started)
