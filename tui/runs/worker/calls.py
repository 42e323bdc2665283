"""Calls of the worker script: build the input of a verb, and parse how a worker's part of a run ended.

Script and data travel on standard input; run id, worker index, a nonce and a few numbers are the only arguments.
"""

from __future__ import annotations

import os
import random
import shlex
from pathlib import Path

from tui.errors import UsageError
from tui.pod.run import is_run_id
from tui.runs.failure_rules import WorkerOutcome
from tui.ssh.exec.script_protocol import Answer, Call, load_script

ARM_TIMEOUT_S = 600
"""Seconds that a prepared worker waits for the gang's start, which a slow sync to another worker may delay."""
FOLLOW_TIMEOUT_S = 600
"""Longest time that a follower on a worker lives before it is opened again, so that none outlives a silent client."""
MOST_EXIT_CODE = 255
_SCRIPT = Path(__file__).with_name("worker.sh")
SHORTEST_POLL_INTERVAL_S, LONGEST_POLL_INTERVAL_S = 0.1, 1.0
"""Interval at which a worker checks its log for new bytes: in small pods, and in the largest."""
MOST_POLLS_PER_S = 200
"""Limit on the checks of all workers together: each one that finds bytes costs this machine a packet."""


def worker_script() -> str:
    """Return the worker script's text."""
    return load_script(_SCRIPT)


def build_call(
    verb: str,
    run_id: str,
    worker: int,
    *arguments: int,
    run_root: str,
    data: bytes = b"",
    lease: float = 30.0,
    sync: bool = False,
    pace: float = SHORTEST_POLL_INTERVAL_S,
) -> Call:
    """Build one call; `lease` and `pace` are in seconds. Raises UsageError for an id that is no run id."""
    if not is_run_id(run_id):
        raise UsageError(f"{run_id!r} is not a run id")
    numbers = f"tt_bar={ARM_TIMEOUT_S} tt_lease={max(1, round(lease))} tt_sync={int(sync)}"
    text = f"tt_root={shlex.quote(run_root)} {numbers} tt_pace={pace:.2f}\n{worker_script()}".encode()
    nonce = os.urandom(8).hex()
    command = " ".join([verb, run_id, str(worker), nonce, *map(str, arguments)])
    return Call(text, command, nonce, data)


def poll_interval_s(workers: int) -> float:
    """Return the interval at which each of `workers` workers checks its log."""
    return min(LONGEST_POLL_INTERVAL_S, max(SHORTEST_POLL_INTERVAL_S, workers / MOST_POLLS_PER_S))


def follow_timeout_s() -> int:
    """Return the seconds for which a follower lives, spread so that a large pod's do not all end at once."""
    return random.randint(FOLLOW_TIMEOUT_S * 3 // 4, FOLLOW_TIMEOUT_S)


def parse_outcome(answer: Answer) -> WorkerOutcome:
    """Parse the fields of a status line, which `end`, `stopped` and `status` answers carry."""
    return WorkerOutcome(
        exit_code=answer.number("exit", MOST_EXIT_CODE),
        signal=answer.name("signal"),
        size=answer.number("size"),
        time=answer.moment("time"),
        aborted=answer.has("aborted"),
        out_of_memory=(answer.number("oom") or 0) > 0,
        stopped=answer.has("stopped"),
        recorded="exit" in answer.fields and not answer.has("unrecorded"),
    )
