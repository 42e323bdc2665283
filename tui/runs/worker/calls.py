"""Calls of the worker script: what is sent for a verb, and how a worker's part of a run ended as it tells.

Script and data travel on standard input; run id, worker index, a nonce and a few numbers are the only arguments.
"""

from __future__ import annotations

import os
import shlex
from pathlib import Path

from tui.errors import UsageError
from tui.pod.run import is_run_id
from tui.runs.failure_rules import WorkerOutcome
from tui.ssh.exec.script_protocol import Answer, Call, load_script

ARM_TIMEOUT_S = 600
"""Seconds a prepared worker waits for the go of the gang before it gives up (a slow sync elsewhere counts)."""
FOLLOW_TIMEOUT_S = 600
"""Seconds after which a follower on the worker ends and is opened again, so that none outlives a silent client."""
MOST_EXIT_CODE = 255
SHORTEST_PACE, LONGEST_PACE = 0.1, 1.0
"""Seconds between two looks of a worker at its log, in small pods and in the largest."""
MOST_LOOKS = 320
"""Looks a second of all workers together: each that finds something costs this machine a packet, however small."""


def worker_script() -> str:
    """Return the worker script's text."""
    return load_script(Path(__file__).with_name("worker.sh"))


def build_call(
    verb: str,
    run_id: str,
    worker: int,
    *arguments: int,
    run_root: str,
    data: bytes = b"",
    lease: float = 30.0,
    sync: bool = False,
    pace: float = SHORTEST_PACE,
) -> Call:
    """Build one call; `lease` and `pace` in seconds. Raises UsageError for a run id that cannot stand in a path."""
    if not is_run_id(run_id):
        raise UsageError(f"{run_id!r} is not a run id")
    numbers = f"tt_bar={ARM_TIMEOUT_S} tt_lease={max(1, round(lease))} tt_sync={int(sync)}"
    text = f"tt_root={shlex.quote(run_root)} {numbers} tt_pace={pace:.2f}\n{worker_script()}".encode()
    nonce = os.urandom(8).hex()
    words = " ".join([verb, run_id, str(worker), nonce, *map(str, arguments)])
    return Call(text, words, nonce, data)


def poll_interval_s(workers: int) -> float:
    """Seconds between two looks of each worker at its log in a pod of so many."""
    return min(LONGEST_PACE, max(SHORTEST_PACE, workers / MOST_LOOKS))


def parse_outcome(answer: Answer) -> WorkerOutcome:
    """Read the fields of a status line (`end`, `stopped`, `status` answers carry them)."""
    fields = answer.fields
    return WorkerOutcome(
        exit_code=answer.number("exit", MOST_EXIT_CODE),
        signal=answer.name("signal"),
        size=answer.number("size"),
        boot=answer.name("boot"),
        time=answer.moment("time"),
        aborted=fields.get("aborted") == "1",
        out_of_memory=(answer.number("oom") or 0) > 0,
        stopped=fields.get("stopped") == "1",
        recorded="exit" in fields and fields.get("unrecorded") != "1",
    )
