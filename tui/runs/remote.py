"""Calls of the worker script: what is sent for a verb, and which lines of what comes back are answers.

The remote command is always `exec sh -c …`, so any login shell will do. Script and data travel on standard input;
run id, worker index, a nonce and a few numbers are the only arguments. Only lines that begin with the nonce are
believed: start-up files print what they like.
"""

from __future__ import annotations

import functools
import os
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tui.errors import UsageError, WorkerError
from tui.pod.run import is_run_id
from tui.printable import printable

ARM_TIMEOUT = 600
"""Seconds a prepared worker waits for the go of the gang before it gives up (a slow sync elsewhere counts)."""
FOLLOW_TIMEOUT = 600
"""Seconds after which a follower on the worker ends and is opened again, so that none outlives a silent client."""
SHORTEST_PACE, LONGEST_PACE = 0.1, 1.0
"""Seconds between two looks of a worker at its log, in small pods and in the largest."""
MOST_LOOKS = 320
"""Looks a second of all workers together: each that finds something costs this machine a packet, however small."""
_MAX_ANSWER = 64 * 1024


@dataclass(frozen=True)
class Call:
    """One call: the remote command line, what to write to its standard input, and the nonce of its answers."""

    command: str
    input: bytes
    nonce: str


@dataclass(frozen=True)
class Answer:
    """One line that the script answered: its first word, the text after it, and the `key=value` words in that."""

    word: str
    text: str = ""
    fields: Mapping[str, str] = field(default_factory=dict)

    def number(self, name: str) -> int | None:
        """A field as an integer, None where it is missing or is none."""
        value = self.fields.get(name, "")
        return int(value) if value.isascii() and value.isdigit() else None


@functools.cache
def script() -> str:
    """The worker script's text."""
    return Path(__file__).with_name("worker.sh").read_text(encoding="utf-8")


def call(
    verb: str,
    run_id: str,
    worker: int,
    *arguments: int,
    run_root: str,
    data: bytes = b"",
    lease: float = 30.0,
    force: bool = False,
    sync: bool = False,
    pace: float = SHORTEST_PACE,
) -> Call:
    """Build one call; `lease` and `pace` in seconds. Raises UsageError for a run id that cannot stand in a path."""
    if not is_run_id(run_id):
        raise UsageError(f"{run_id!r} is not a run id")
    numbers = f"tt_bar={ARM_TIMEOUT} tt_lease={max(1, round(lease))} tt_force={int(force)} tt_sync={int(sync)}"
    text = f"tt_root={shlex.quote(run_root)} {numbers} tt_pace={pace:.2f}\n{script()}".encode()
    nonce = os.urandom(8).hex()
    words = " ".join([verb, run_id, str(worker), nonce, *map(str, arguments)])
    command = f"exec sh -c 'tt_s=$(head -c {len(text)}); eval \"$tt_s\"' tpu-tui {words}"
    return Call(command, text + data, nonce)


def pace_of(workers: int) -> float:
    """Seconds between two looks of each worker at its log in a pod of so many."""
    return min(LONGEST_PACE, max(SHORTEST_PACE, workers / MOST_LOOKS))


def parse_line(nonce: str, line: bytes) -> Answer | None:
    """The answer in one line of output, None when the line is not ours. The text is cleaned for a terminal."""
    mark = f"@{nonce} ".encode()
    if not line.startswith(mark):
        return None
    text = printable(line[len(mark) :].rstrip(b"\r\n")[:_MAX_ANSWER].decode("utf-8", "replace"))
    word, _, rest = text.partition(" ")
    fields = dict(pair.split("=", 1) for pair in rest.split(" ") if "=" in pair)
    return Answer(word, rest, fields)


def answers(nonce: str, output: bytes) -> list[Answer]:
    """All answers in an output, in order."""
    found = [parse_line(nonce, line) for line in output.split(b"\n")]
    return [answer for answer in found if answer is not None]


@dataclass(frozen=True)
class Outcome:
    """How a worker's part ended, as its `status` file says.

    `exit_code` is 128 + number for a signal, as shells count; None means that nobody recorded it. `size` is the log's
    final length in bytes.
    """

    exit_code: int | None
    signal: str | None = None
    size: int | None = None
    boot: str | None = None
    time: str | None = None
    aborted: bool = False
    out_of_memory: bool = False
    recorded: bool = True
    absent: bool = False
    """Whether the worker knows no such run: it was never prepared there, or its directory was removed."""
    unreachable: str | None = None
    """Why the worker could not be reached for so long that it was given up; it may run on."""

    @property
    def cause(self) -> str | None:
        """Why it ended, in words, where more is known than the code."""
        if self.unreachable is not None:
            return self.unreachable
        if self.absent:
            return "knows nothing of the run: it was not started there, or its directory was removed"
        if not self.recorded:
            return "ended without a record: its supervisor was killed, or the machine went down"
        if self.aborted:
            return "ended itself: the launch was not confirmed within its lease"
        if self.signal == "KILL" and self.out_of_memory:
            return "killed (SIGKILL), probably out of memory"
        if self.signal:
            return f"ended by SIG{self.signal}"
        if self.exit_code is None:
            return "ended; its exit code could not be recorded"
        return None


def outcome_of(answer: Answer) -> Outcome:
    """Read the fields of a status line (`end`, `stopped`, `status` answers carry them)."""
    fields = answer.fields
    return Outcome(
        exit_code=answer.number("exit"),
        signal=fields.get("signal") or None,
        size=answer.number("size"),
        boot=fields.get("boot") or None,
        time=fields.get("time") or None,
        aborted=fields.get("aborted") == "1",
        out_of_memory=(answer.number("oom") or 0) > 0,
        recorded="exit" in fields and fields.get("unrecorded") != "1",
    )


def channel_errors() -> tuple[type[Exception], ...]:
    """What reading from or writing to a session raises when its connection broke."""
    import asyncssh

    return OSError, asyncssh.Error


def no_answer(worker: int, what: str, stderr: bytes, exit_code: int | None) -> WorkerError:
    """The error for a call that ended without an answer."""
    last = printable(stderr[-400:].decode("utf-8", "replace")).strip()
    why = last or (f"it ended with {exit_code}" if exit_code is not None else "the connection closed")
    return WorkerError(
        what, worker=worker, why=why, remedy="the worker needs sh, coreutils and util-linux; try `tpu-tui exec`"
    )
