"""The keeper: one background process a run, which launches it, mirrors it and acts on its policies.

`python -m tui.runs.keeper RUN_DIR` reads a JSON document on standard input: `{"spec": …}` to launch, `{"access": …}`
to look after a run that was launched before, `{}` to do that with the settings of the run's profile. Secrets are in
that document and in this process's memory only. It answers one line, its pid, once it holds the run's lock, and goes
on in the background; where another keeper holds the lock it answers that one's pid and ends.
"""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tui.errors import TpuTuiError
from tui.pod.run import RunState
from tui.procs.python_env import python_path
from tui.runs.record.directory_lock import Claim, living_keeper
from tui.runs.record.keeper_file import MOST_PID, StuckKeeperError
from tui.runs.record.run_directory import KEEPER_LOG, RunDirectory
from tui.text.numbers import parse_integer
from tui.text.printable import one_line

if TYPE_CHECKING:
    from tui.runs.keeper_timeouts import KeeperTimeouts
    from tui.runs.launch.launch_spec import LaunchSpec
    from tui.ssh.config.access import Access

YOUNG_OBJECTS = 50_000
"""Objects made before garbage is looked for: those of connections live as long as the run does."""
LOCK_TIMEOUT_S = 15.0
"""Seconds that a command has which brings the mirror up to date, where there was no keeper, before one begins."""
_LAST_WORDS = 400
"""Bytes of keeper.log in which the reason is looked for why a keeper did not start."""


def start_keeper(
    directory: RunDirectory,
    spec: LaunchSpec | None,
    *,
    access: Access | None = None,
    timeouts: KeeperTimeouts | None = None,
) -> int:
    """Start the run's keeper and return its pid; the living one's where there is one.

    The keeper has a session of its own, no terminal and `/` as its working directory; what it has to say of itself
    goes to keeper.log. Without `spec` it follows and acts on the policies in run.json. Raises TpuTuiError when no
    keeper came up, and UsageError for a spec that could not run.
    """
    document: dict[str, Any] = {}
    if spec is not None:
        from tui.runs.launch.launch_spec import check_spec

        check_spec(spec)
        document = {"spec": spec.to_json()}
    elif access is not None:
        document = {"access": access.to_json()}
    if timeouts is not None:
        document["patience"] = timeouts.to_json()
    try:
        log = os.open(directory.path / KEEPER_LOG, os.O_CREAT | os.O_APPEND | os.O_WRONLY, 0o600)
    except FileNotFoundError as error:
        raise TpuTuiError(
            "the run's directory is gone",
            why=str(directory.path),
            remedy=f"tpu-tui attach {directory.id} finds the run on its workers",
        ) from error
    except OSError as error:
        raise TpuTuiError(
            "no keeper can be started: it could write nothing",
            why=f"{directory.path}: {error.strerror or error}",
            remedy="make room there, or let TPU_TUI_HOME name a directory that you may write to",
        ) from error
    try:
        done = subprocess.run(
            [sys.executable, "-m", "tui.runs.keeper", str(directory.path.resolve())],
            input=json.dumps(document).encode(),
            stdout=subprocess.PIPE,
            stderr=log,
            env=_environment(),
            cwd="/",
            start_new_session=True,
            check=False,
        )
    finally:
        os.close(log)
    answer = done.stdout.strip()
    pid = parse_integer(answer, MOST_PID)
    if pid is None:
        problem = TpuTuiError(
            "the run's keeper did not start",
            why=_last_words(directory.path / KEEPER_LOG) or f"exit code {done.returncode}",
            remedy=f"see {directory.path}/{KEEPER_LOG}",
        )
        if spec is not None:
            with suppress(OSError):
                directory.append_event("state", state=str(RunState.FAILED), cause=problem.sentence)
        raise problem
    return pid


async def ensure_keeper(directory: RunDirectory, access: Access, *, timeouts: KeeperTimeouts | None = None) -> bool:
    """Start a keeper for a run that has none and still needs one; whether one was started.

    A run that is `lost` because its workers were out of reach needs one: it may run on. Raises StuckKeeperError where
    the one that it has does not move: it holds the run's lock.
    """
    attended = directory.attended()
    if attended.alive or is_complete(directory):
        return False
    if attended.stuck:
        raise StuckKeeperError(directory.id, attended)
    import asyncio

    # Another interpreter starts: whoever asks goes on meanwhile.
    await asyncio.to_thread(start_keeper, directory, None, access=access, timeouts=timeouts)
    return True


def is_complete(directory: RunDirectory) -> bool:
    """Whether nothing is left to do: the run is over, the mirrors have their ends on record, `--on-end` is done."""
    from tui.runs.keeper.on_end import pending_actions
    from tui.runs.record.run_status import status_of

    status = status_of(directory)
    if not status.is_whole or pending_actions(directory):
        return False
    # One that was found and stopped while it was launched has no phases here: its exit codes tell that it began.
    begun = [each for each in status.workers if each.phase in ("start", "confirm") or each.exit_code is not None]
    return all(each.size is not None for each in begun)


def _last_words(log: Path) -> str:
    with suppress(OSError):
        lines = log.read_bytes()[-_LAST_WORDS:].decode("utf-8", "replace").split("\n")
        return one_line(next((line for line in reversed(lines) if line.strip()), ""))
    return ""


def _environment() -> dict[str, str]:
    """Return this process's environment, from which the package can be imported in any directory."""
    return {**os.environ, "PYTHONPATH": python_path(os.environ)}


def main(arguments: list[str]) -> int:
    """Read the document, take the lock, answer, go to the background and keep the run."""
    gc.set_threshold(YOUNG_OBJECTS)
    directory = RunDirectory.open(Path(arguments[0]))
    document = json.loads(sys.stdin.buffer.read() or b"{}")
    claim = Claim.take(directory, LOCK_TIMEOUT_S)
    if claim is None:
        keeper = living_keeper(directory)
        if keeper is None:
            print(f"{directory.path} is locked by a process that is no keeper", file=sys.stderr)
            return 1
        print(keeper, flush=True)
        return 0
    _go_to_background(claim)
    from tui.runs.keeper.lifecycle import keep_in_loop

    try:
        keep_in_loop(directory, claim, document)
    except Exception as error:
        if isinstance(error, OSError) and not claim.stands():
            return 0  # Its directory was deleted or moved: there is nothing to keep here any more.
        _note_fault(directory, error)
        raise
    finally:
        claim.release()
    gc.freeze()  # What is left ends with the process: nobody has to look through it for garbage.
    return 0


def _note_fault(directory: RunDirectory, error: Exception) -> None:
    """Tell whoever looks at the run of a fault of ours, of which only keeper.log would know."""
    with suppress(Exception):
        fault = one_line(f"{type(error).__name__}: {error}")
        directory.append_event(
            "note", text=f"its keeper ended by a fault of tpu-tui ({fault}); {KEEPER_LOG} has more"
        )


def _go_to_background(claim: Claim) -> None:
    """Fork and go on in the child, whose input is used up; the parent tells the child's pid once it has signed."""
    reader, writer = os.pipe()
    child = os.fork()
    if child:
        os.close(writer)
        signed = os.read(reader, 1)
        os.write(1, b"%d\n" % child if signed else b"\n")
        os._exit(0)
    os.close(reader)
    os.chdir("/")
    nothing = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1):
        os.dup2(nothing, descriptor)
    os.close(nothing)
    claim.sign()
    os.write(writer, b"!")
    os.close(writer)
