"""Read shards from the output of commands, as webdataset does: `pipe:gsutil cat gs://b/train-000001.tar`.

A command runs in its own session and process group, and is killed with everything that it started. It does not
outlive the process that reads it, however that process ends: a watch process waits for the end of a pipe whose other
end only the reader holds, and then kills the group.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
from collections.abc import Iterator
from typing import IO

from trainer.errors import TrainerError
from trainer.storage.urls import PIPE_PREFIX

WATCHED_SCRIPT = """
trap '' TERM HUP
exec 3<&0 </dev/null
{ read -r _ <&3; kill -KILL 0; } >/dev/null &
sh -c "$1" 3<&-
code=$?
kill -KILL $!
exit $code
"""
"""The shell's script. SIGTERM reaches a whole session at once; the command ignores it, since the run may need its
output until the step at which all ranks stop. The watch must not hold the command's output open."""

_running: set[subprocess.Popen[bytes]] = set()  # of this process
_ended: set[int] = set()  # the process ids of those that `kill_all` killed
_registering = threading.Lock()
"""Held while a command starts, so that `kill_all` misses none whose effects can be seen already."""


class PipeKilledError(Exception):
    """A command was killed because the run ends. (Not a TrainerError: nothing is wrong with the shard.)"""


def is_pipe(url: str) -> bool:
    """Return whether a "path" is a command whose output is the shard."""
    return url.startswith(PIPE_PREFIX)


@contextlib.contextmanager
def open_pipe(url: str) -> Iterator[IO[bytes]]:
    """Run a command and yield its output; a caller that stops reading early ends the command without an error.

    Raises TrainerError when the command fails.
    """
    watch, held = os.pipe()
    try:
        command = ["sh", "-c", WATCHED_SCRIPT, "sh", url[len(PIPE_PREFIX) :]]
        with _registering:
            process = subprocess.Popen(command, stdin=watch, stdout=subprocess.PIPE, start_new_session=True)
            _running.add(process)
    except BaseException:
        os.close(held)
        raise
    finally:
        os.close(watch)
    try:
        with process:
            assert process.stdout is not None
            try:
                try:
                    yield process.stdout
                except Exception as error:  # the output was not a shard, perhaps because the command failed
                    _check(process, url, error)
                    raise
                _check(process, url)
            finally:
                _kill(process)
    finally:
        os.close(held)
        with _registering:
            _running.discard(process)


def kill_all() -> None:
    """Kill the commands that this process reads, so that no thread waits for their output."""
    with _registering:
        for process in _running:
            _ended.add(process.pid)
            _kill(process)


def _kill(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)


def _check(process: subprocess.Popen[bytes], url: str, error: Exception | None = None) -> None:
    """Raise TrainerError if a command has failed, once all of its output has been read."""
    assert process.stdout is not None
    if process.pid in _ended:
        raise PipeKilledError from error
    if not process.stdout.read(1) and (code := process.wait()) != 0:
        raise TrainerError(
            f"The command of {url} failed", why=f"exit code {code}", remedy="Try it in a shell on this worker"
        ) from error
