"""The guardian: a process that outlives its pod's parent, however that one ends, and clears up.

`python -m tui.localpod.cleanup.guardian`, standard input a pipe whose other end only the parent holds. A line on it
asks for some workers' processes to be ended; its end means that the parent is gone, and the whole pod with it.
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
_HOMES = "slices/*/w-*/home"


def profile_names_pod(text: str, pod: str) -> bool:
    """Whether a profile's text is this pod's: another pod may have written its own since."""
    return any(line.replace(" ", "") == f'pod="{pod}"' for line in text.splitlines())


def remove_profile(profile: Path, pod: str) -> None:
    """Remove the profile if it still is this pod's."""
    with contextlib.suppress(OSError, UnicodeDecodeError):
        if profile_names_pod(profile.read_text(), pod):
            profile.unlink()


def remove_tree(directory: Path) -> None:
    """Remove a directory; jobs may have written into it while they died, so more than one try."""
    for _ in range(_REMOVE_TRIES):
        shutil.rmtree(directory, ignore_errors=True)
        if not directory.exists():
            return
        for inner, _, _ in os.walk(directory):
            with contextlib.suppress(OSError):
                Path(inner).chmod(0o700)
        time.sleep(0.05)


def end_workers(pod: str, request: str) -> str:
    """End the processes of the workers that a line of JSON names; answers with a line of JSON."""
    asked = json.loads(request)
    marks = [Mark(pod, worker["name"], worker["serial"]) for worker in asked["workers"]]
    left = sweep(marks, [Path(worker["home"]) for worker in asked["workers"]])
    return json.dumps({"request": asked["request"], "left": left})


def end_pod(pod: str, directory: Path, profile: Path) -> list[int]:
    """Remove the profile, end every process of the pod, remove its files; returns the pids that would not go."""
    remove_profile(profile, pod)
    left = sweep([Mark(pod)], list(directory.glob(_HOMES)))
    remove_tree(directory)
    return left


def main(arguments: Sequence[str] | None = None) -> int:
    """Wait for the parent's end, then clear up."""
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
