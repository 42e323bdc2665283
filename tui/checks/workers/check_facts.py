"""A worker's facts, from one call: disks, memory, load, clock, versions, chips and the processes that use them."""

from __future__ import annotations

import ipaddress
import math
import os
import shlex
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tui.errors import WorkerError
from tui.ssh.exec.script_protocol import Answer, Call, load_script, no_answer_error, parse_answers
from tui.ssh.fleet import Fleet
from tui.text.durations import format_duration
from tui.text.numbers import parse_integer, parse_number
from tui.text.printable import one_line

ASK_TIMEOUT_S = 30.0
"""Seconds for the whole call, in case a disk or an interpreter hangs."""
END, SILENT = "end", "its state could not be read"
"""The last answer of each worker, and the sentence of the error for a missing one."""
Ask = Callable[[int, Call], Awaitable[list[Answer]]]
"""Makes a call on a worker and returns its answers up to END. Raises WorkerError if END is missing."""
LOGIN, JOB, NO_INTERPRETER = "login", "job", ""
"""The interpreter whose versions are read: a login's, a job's, or none, which saves the time to start one."""
_KIB = 1024


@dataclass(frozen=True)
class Disk:
    """Space of a file system, in bytes. `files_free` is None if the file system does not count files."""

    place: str
    free: int
    size: int
    files_free: int | None
    writable: bool = True
    """False for a read-only mount, and for a directory of another user."""


@dataclass(frozen=True)
class Clock:
    """How far a worker's clock is ahead of this machine's, in seconds, plus or minus `error`."""

    ahead: float
    error: float


@dataclass(frozen=True)
class Owner:
    """A process that has a chip or the lock file open; `age` in seconds, `run` is its run, if it belongs to one."""

    pid: int
    user: str
    age: int
    file: str
    command: str
    run: str | None

    def __str__(self) -> str:
        return f"pid {self.pid} ({self.user}, {format_duration(self.age)}): {self.command or '?'}"


@dataclass(frozen=True)
class Lock:
    """libtpu's lock file: its owner, and whether the login's user can open it."""

    path: str
    user: str
    writable: bool


@dataclass(frozen=True)
class Code:
    """The last synced tree: its hash; `state` is `same`, `changed` since, or `slow` (not checked)."""

    hash: str
    state: str


@dataclass(frozen=True)
class Facts:
    """The facts of one worker; None is unknown. Text is safe for a terminal. Memory in bytes."""

    worker: int
    disks: tuple[Disk, ...] = ()
    memory_total: int | None = None
    memory_free: int | None = None
    load: float | None = None
    cpus: int | None = None
    clock: Clock | None = None
    devices: int | None = None
    devices_named: bool = False
    """Whether its environment names the files of its chips (`TPU_TUI_DEVICES`)."""
    owners: tuple[Owner, ...] = ()
    owners_hidden: bool = False
    """Whether processes of other users could not be inspected."""
    lock: Lock | None = None
    runs: tuple[str, ...] = ()
    versions: Mapping[str, str] = field(default_factory=dict)
    python_missing: str = ""
    python_fault: str = ""
    """Why its interpreter failed, from the last line it printed."""
    code: Code | None = None
    origin: str | None = None
    """The IPv4 address that the login came from, as the worker saw it: this machine's, or a jump host's."""

    def owners_of(self, file: str | None) -> tuple[Owner, ...]:
        """Return the processes that have the file open; with None, the processes that use a chip."""
        lock = self.lock.path if self.lock else None
        return tuple(owner for owner in self.owners if (owner.file == file if file else owner.file != lock))


@dataclass(frozen=True)
class FactsQuery:
    """What to query in addition to the facts that are always read.

    `versions` chooses the interpreter whose versions are read: a login's, a job's (`job` is its environment, as
    `tui.runs.launch.job_script.job_text` writes it), or none. `code` queries the last synced tree.
    """

    run_root: str
    versions: str = NO_INTERPRETER
    code: bool = False
    job: str = ""


def make_call(query: FactsQuery) -> Call:
    """Return the call that reads all facts."""
    data = query.job.encode("utf-8", "surrogateescape")
    settings = (
        f"tt_root={shlex.quote(query.run_root)} tt_versions={query.versions} tt_code={'1' * query.code} "
        f"tt_job={len(data)}"
    )
    script = load_script(Path(__file__).with_name("worker_check.sh"))
    text = f"{settings}\n{script}".encode()
    nonce = os.urandom(8).hex()
    return Call(text, nonce, nonce, data)


async def ask_facts(index: int, ask: Ask, query: FactsQuery) -> Facts:
    """Read the facts of a connected worker: time spent on connecting would blur the difference between the clocks.

    Raises WorkerError when the worker cannot be reached or its answer is incomplete.
    """
    call = make_call(query)
    sent = time.time()
    answers = await ask(index, call)
    return facts_from(index, answers, sent, time.time())


def ask_over_sessions(fleet: Fleet) -> Ask:
    """Return a function that makes each call in a new session."""

    async def ask(index: int, call: Call) -> list[Answer]:
        result = await fleet.run(index, call.command, input=call.input, timeout=ASK_TIMEOUT_S)
        if result.timed_out:
            raise late_error(index)
        answers = parse_answers(call.nonce, result.stdout)
        if not any(answer.word == END for answer in answers):
            raise no_answer_error(index, SILENT, result.stderr, result.exit_code, result.stdout)
        return answers

    return ask


def late_error(index: int) -> WorkerError:
    """Return the error for a worker whose answers are not complete in time."""
    return WorkerError(
        SILENT,
        worker=index,
        why=f"no complete answer within {ASK_TIMEOUT_S:.0f} s",
        remedy=f"check whether a disk or the interpreter hangs: `tpu-tui exec … --worker {index} --timeout 60 -- df`",
    )


def facts_from(index: int, answers: Sequence[Answer], sent: float, received: float) -> Facts:
    """Parse the answers of one call, sent and received at these Unix times. Invalid answers are ignored."""
    rows: dict[str, list[list[str]]] = {}
    for answer in answers:
        rows.setdefault(answer.word, []).append(answer.text.split(" "))
    memory = {row[0]: _number(row, 1) for row in rows.get("memory", [])}
    load = rows.get("load", [[]])[0]
    devices = rows.get("devices", [[]])[0]
    python = rows.get("python", [[""]])[0]
    runs = {row[3]: row[0] for row in rows.get("run", []) if len(row) > 3}
    return Facts(
        worker=index,
        disks=tuple(disk for row in rows.get("disk", []) if (disk := _disk(row))),
        memory_total=_bytes(memory.get("total")),
        memory_free=_bytes(memory.get("free")),
        load=_real(load[0]) if load else None,
        cpus=_number(load, 1),
        clock=_clock([_real(row[0]) for row in rows.get("clock", [])], sent, received),
        devices=_number(devices, 0),
        devices_named="given" in devices,
        owners=tuple(owner for row in rows.get("owner", []) if (owner := _owner(row, runs))),
        owners_hidden="hidden" in rows,
        lock=next((_lock(row) for row in rows.get("lock", []) if len(row) > 2), None),
        runs=tuple(one_line(row[0]) for row in rows.get("run", [])),
        versions={row[0]: one_line(" ".join(row[1:])) for row in rows.get("version", []) if len(row) > 1},
        python_missing=one_line(" ".join(python[1:])) if python[0] == "missing" else "",
        python_fault=one_line(" ".join(python[1:])) if python[0] == "failed" else "",
        origin=_address(rows.get("origin", [[""]])[0][0]),
        code=next((Code(row[0], row[1]) for row in rows.get("code", []) if len(row) == 2), None),
    )


def _number(row: Sequence[str], column: int) -> int | None:
    return parse_integer(row[column]) if column < len(row) else None


def _address(text: str) -> str | None:
    try:
        return str(ipaddress.IPv4Address(text))
    except ValueError:
        return None


def _real(text: str) -> float | None:
    number = parse_number(text)
    return None if math.isnan(number) else number


def _bytes(kib: int | None) -> int | None:
    return None if kib is None else kib * _KIB


def _disk(row: Sequence[str]) -> Disk | None:
    free, size, files, files_total = (_number(row, column) for column in (1, 2, 3, 4))
    if free is None or not size:
        return None
    return Disk(row[0], free * _KIB, size * _KIB, files if files_total else None, row[5:] != ["closed"])


def _clock(readings: Sequence[float | None], sent: float, received: float) -> Clock | None:
    """Return the offset from the first and the last reading; the time between the two costs no accuracy."""
    if len(readings) < 2 or readings[0] is None or readings[-1] is None:
        return None
    most, least = readings[0] - sent, readings[-1] - received
    return Clock((most + least) / 2, abs(most - least) / 2)


def _owner(row: Sequence[str], runs: Mapping[str, str]) -> Owner | None:
    pid, age = _number(row, 0), _number(row, 2)
    if pid is None or age is None or len(row) < 5:
        return None
    return Owner(pid, row[1] or "?", age, row[4], one_line(" ".join(row[5:])), runs.get(row[3]))


def _lock(row: Sequence[str]) -> Lock:
    return Lock(" ".join(row[2:]), row[0], row[1] == "writable")
