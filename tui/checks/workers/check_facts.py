"""What a worker tells about itself in one exec: room, memory, load, clock, versions, chips and who holds them."""

from __future__ import annotations

import ipaddress
import math
import os
import shlex
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from tui.errors import WorkerError
from tui.ssh.exec.script_protocol import Answer, Call, load_script, no_answer_error, parse_answers
from tui.text.durations import format_duration
from tui.text.numbers import parse_integer
from tui.text.printable import one_line

if TYPE_CHECKING:
    from tui.ssh.fleet import Fleet

ASK_TIMEOUT = 30.0
"""Seconds a worker has to tell about itself; a hanging disk or interpreter takes that long."""
END, SILENT = "end", "it does not tell about itself"
"""The last answer of each worker, and what is said of one that ends without it."""
Ask = Callable[[int, Call], Awaitable[list[Answer]]]
"""Makes a call on a worker; its answers up to END. Raises WorkerError where there are none."""
LOGIN, JOB, NOBODY = "login", "job", ""
"""Whose interpreter tells versions: the one a login finds, the one a job will run, or none (it costs a start)."""
RUN_ROOT = "~/.tpu-tui"
_KIB = 1024


@dataclass(frozen=True)
class Disk:
    """Room where something is written; bytes. `files_free` is None where the file system does not count files."""

    place: str
    free: int
    size: int
    files_free: int | None
    writable: bool = True
    """False for what was mounted to be read only, and what belongs to somebody else."""


@dataclass(frozen=True)
class Clock:
    """How far a worker's clock is ahead of this machine's, in seconds, give or take `error`."""

    ahead: float
    error: float


@dataclass(frozen=True)
class Owner:
    """A process that holds a chip or the lock open; `age` in seconds, `run` the run it belongs to."""

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
    """libtpu's lock file: whose it is, and whether the user we log in as may open it."""

    path: str
    user: str
    writable: bool


@dataclass(frozen=True)
class Code:
    """The tree that was synced last: its hash; `state` is `same`, `changed` since, or `slow` (not looked through)."""

    hash: str
    state: str


@dataclass(frozen=True)
class Facts:
    """One worker's account of itself; None is what it did not tell. Text is fit for a terminal. Memory in bytes."""

    worker: int
    disks: tuple[Disk, ...] = ()
    memory_total: int | None = None
    memory_free: int | None = None
    load: float | None = None
    cpus: int | None = None
    clock: Clock | None = None
    devices: int | None = None
    devices_named: bool = False
    """Whether its environment says which files are its chips (`TPU_TUI_DEVICES`)."""
    owners: tuple[Owner, ...] = ()
    owners_hidden: bool = False
    """Whether there are processes of others that could not be looked into."""
    lock: Lock | None = None
    runs: tuple[str, ...] = ()
    versions: Mapping[str, str] = field(default_factory=dict)
    python_missing: bool = False
    python_fault: str = ""
    """Why its interpreter could not be asked, in its own last words."""
    code: Code | None = None
    origin: str | None = None
    """The IPv4 address that our login came from, as the worker saw it: ours, or a jump host's."""

    def owners_of(self, file: str | None) -> tuple[Owner, ...]:
        """Those that hold the file; with None those that hold a chip."""
        lock = self.lock.path if self.lock else None
        return tuple(owner for owner in self.owners if (owner.file == file if file else owner.file != lock))


@dataclass(frozen=True)
class FactsQuery:
    """What a worker is asked beyond what it always tells.

    `versions` says whose interpreter is asked: a login's, a job's (whose environment `job` is, as
    `tui.runs.launch.job_script.job_text` writes it), or nobody's. `code` asks for the tree that was synced last.
    """

    run_root: str
    versions: str = NOBODY
    code: bool = False
    job: str = ""


def make_call(asking: FactsQuery) -> Call:
    """The one exec that asks for everything."""
    data = asking.job.encode("utf-8", "surrogateescape")
    settings = (
        f"tt_root={shlex.quote(asking.run_root)} tt_versions={asking.versions} tt_code={'1' * asking.code} "
        f"tt_job={len(data)}"
    )
    script = load_script(Path(__file__).with_name("worker_check.sh"))
    text = f"{settings}\n{script}".encode()
    nonce = os.urandom(8).hex()
    return Call(text, nonce, nonce, data)


async def ask_facts(index: int, ask: Ask, asking: FactsQuery) -> Facts:
    """Ask one worker, to which there is a connection: what connecting takes would blur how its clock differs.

    Raises WorkerError when it is out of reach or its answer breaks off.
    """
    made = make_call(asking)
    sent = time.time()
    heard = await ask(index, made)
    return facts_from(index, heard, sent, time.time())


def over(fleet: Fleet) -> Ask:
    """Calls that are made by a session each."""

    async def ask(index: int, made: Call) -> list[Answer]:
        done = await fleet.run(index, made.command, input=made.input, timeout=ASK_TIMEOUT)
        if done.timed_out:
            raise late(index)
        heard = parse_answers(made.nonce, done.stdout)
        if not any(answer.word == END for answer in heard):
            raise no_answer_error(index, SILENT, done.stderr, done.exit_code, done.stdout)
        return heard

    return ask


def late(index: int) -> WorkerError:
    """The error for a worker that does not come to the end of its account in time."""
    return WorkerError(
        SILENT,
        worker=index,
        why=f"not within {ASK_TIMEOUT:.0f} s",
        remedy=f"see whether a disk or the interpreter hangs: `tpu-tui exec … --worker {index} --timeout 60 -- df`",
    )


def facts_from(index: int, heard: Sequence[Answer], sent: float, received: float) -> Facts:
    """Read the answers of one call, made and answered at these Unix times. What makes no sense is left out."""
    words: dict[str, list[list[str]]] = {}
    for answer in heard:
        words.setdefault(answer.word, []).append(answer.text.split(" "))
    memory = {row[0]: _number(row, 1) for row in words.get("memory", [])}
    load = words.get("load", [[]])[0]
    devices = words.get("devices", [[]])[0]
    python = words.get("python", [[""]])[0]
    runs = {row[3]: row[0] for row in words.get("run", []) if len(row) > 3}
    return Facts(
        worker=index,
        disks=tuple(disk for row in words.get("disk", []) if (disk := _disk(row))),
        memory_total=_bytes(memory.get("total")),
        memory_free=_bytes(memory.get("free")),
        load=_real(load[0]) if load else None,
        cpus=_number(load, 1),
        clock=_clock([_real(row[0]) for row in words.get("clock", [])], sent, received),
        devices=_number(devices, 0),
        devices_named="given" in devices,
        owners=tuple(owner for row in words.get("owner", []) if (owner := _owner(row, runs))),
        owners_hidden="hidden" in words,
        lock=next((_lock(row) for row in words.get("lock", []) if len(row) > 2), None),
        runs=tuple(one_line(row[0]) for row in words.get("run", [])),
        versions={row[0]: one_line(" ".join(row[1:])) for row in words.get("version", []) if len(row) > 1},
        python_missing=python == ["missing"],
        python_fault=one_line(" ".join(python[1:])) if python[0] == "failed" else "",
        origin=_address(words.get("origin", [[""]])[0][0]),
        code=next((Code(row[0], row[1]) for row in words.get("code", []) if len(row) == 2), None),
    )


def _number(row: Sequence[str], place: int) -> int | None:
    text = row[place] if place < len(row) else ""
    return parse_integer(text)


def _address(text: str) -> str | None:
    try:
        return str(ipaddress.IPv4Address(text))
    except ValueError:
        return None


def _real(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def _bytes(kib: int | None) -> int | None:
    return None if kib is None else kib * _KIB


def _disk(row: Sequence[str]) -> Disk | None:
    free, size, files, files_total = (_number(row, place) for place in (1, 2, 3, 4))
    if free is None or not size:
        return None
    return Disk(row[0], free * _KIB, size * _KIB, files if files_total else None, row[5:] != ["closed"])


def _clock(readings: Sequence[float | None], sent: float, received: float) -> Clock | None:
    """Two readings between question and answer pin the offset down: what lies between them costs no accuracy."""
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
