"""The guardian: a process that outlives the pod's parent process and cleans up after it, however the parent ends.

`python -m tui.localpod.cleanup.guardian`. Its standard input is a pipe whose other end only the parent holds. A line
on it requests the end of some workers' processes. The end of the input means that the parent is gone: the pod ends.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from tui.localpod.cleanup.process_sweep import Mark, sweep

_REMOVE_TRIES = 5
_REMOVE_INTERVAL_S = 0.05


def remove_profile(profile: Path, pod: str) -> None:
    """Remove the profile unless another pod has replaced it."""
    with contextlib.suppress(OSError, UnicodeDecodeError):
        if any(line.replace(" ", "") == f'pod="{pod}"' for line in profile.read_text().splitlines()):
            profile.unlink()


def remove_tree(directory: Path) -> None:
    """Remove a directory, in several attempts: jobs may write into it while they are killed."""
    for _ in range(_REMOVE_TRIES):
        shutil.rmtree(directory, ignore_errors=True)
        if not directory.exists():
            return
        for inner, _, _ in os.walk(directory):
            with contextlib.suppress(OSError):
                Path(inner).chmod(0o700)
        time.sleep(_REMOVE_INTERVAL_S)


def end_workers(pod: str, request: str) -> str:
    """End the processes of the workers that a line of JSON names; return the answer, a line of JSON."""
    document = json.loads(request)
    remaining = sweep([Mark(pod, worker["name"], worker["serial"]) for worker in document["workers"]])
    return json.dumps({"request": document["request"], "left": remaining})


def end_pod(pod: str, directory: Path, profile: Path) -> list[int]:
    """Remove the profile, end every process of the pod and remove its files; return the pids that did not end."""
    remove_profile(profile, pod)
    remaining = sweep([Mark(pod)])
    remove_tree(directory)
    return remaining


def main(arguments: Sequence[str] | None = None) -> int:
    """Serve requests until the parent ends, then clean up."""
    parser = argparse.ArgumentParser(prog="tui.localpod.cleanup.guardian")
    parser.add_argument("--pod", required=True)
    parser.add_argument("--directory", type=Path, required=True)
    parser.add_argument("--profile", type=Path, required=True)
    options = parser.parse_args(arguments)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE):
        signal.signal(number, signal.SIG_IGN)
    print("ready", flush=True)
    for request in sys.stdin:
        answer = end_workers(options.pod, request)
        with contextlib.suppress(OSError):
            print(answer, flush=True)
    return 1 if end_pod(options.pod, options.directory, options.profile) else 0


if __name__ == "__main__":
    sys.exit(main())
