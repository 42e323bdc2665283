"""CPU of one command and one launch on 128 workers, compared with pdsh and clush in the same run.

The workers are 128 loopback addresses of one real OpenSSH server, each a separate login to all three clients. Only
the client's CPU counts: its process, the `ssh` children of the peers, the keeper of a launch. pdsh and clush are
measured with the key exchange that costs least (curve25519) and with OpenSSH's own choice.
"""

from __future__ import annotations

import asyncio
import math
import multiprocessing
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.bench.figures import Cost, Figure, at_most, costs_in_turn
from tests.sshd import MISSING, OpensshWorker, openssh_worker
from tui.pod.worker import Worker
from tui.ssh.config.access import Access
from tui.ssh.fleet import Fleet

WORKERS = 128
ROUNDS = 3
AT_ONCE = 16
"""Concurrent logins of every client."""
REPEATS = 10
IDLE_SECONDS = 5.0
_PDSH = 15.0
"""Milliseconds a worker that pdsh took where the targets in milliseconds were set, to scale slower machines."""
DEADLINE = 150.0
"""Seconds that one command may take, its keeper included; then it is killed and counts as failed."""
_REAPER = """
import ctypes, os, resource, signal, subprocess, sys
from pathlib import Path

PR_SET_CHILD_SUBREAPER = 36

def end_all(*_):
    left = [os.getpid()]
    for pid in left:
        for listed in Path(f"/proc/{pid}/task").glob("*/children"):
            left += map(int, listed.read_text().split())
    for pid in left[1:]:
        os.kill(pid, signal.SIGKILL)
    os._exit(124)

ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
signal.signal(signal.SIGALRM, end_all)
signal.alarm(int(sys.argv[1]))
code = subprocess.call(sys.argv[2:], stdout=subprocess.DEVNULL)
try:
    while True:
        os.wait()
except ChildProcessError:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
print(usage.ru_utime + usage.ru_stime, usage.ru_maxrss)
sys.exit(code)
"""
"""Runs a command, waits for it and for processes that outlive it, such as a keeper; prints their cost."""
_IMPORTS = (
    "import numpy, tui.cli, tui.commands.runs, tui.commands.slices, tui.logs.demux, "
    "tui.runs.keeper.__main__, tui.ssh.transport.login"
)


@dataclass(frozen=True)
class Lab:
    """128 addresses of one server, and the files that every client needs."""

    directory: Path
    server: OpensshWorker

    @property
    def addresses(self) -> list[str]:
        """Return the workers' addresses."""
        return [f"127.0.100.{index + 1}" for index in range(WORKERS)]

    @property
    def hosts(self) -> Path:
        """Return the path of the hosts file for tpu-tui."""
        return self.directory / "lab.txt"

    @property
    def known_hosts(self) -> Path:
        """Return the path of the known hosts of all clients."""
        return self.directory / "known_hosts"

    def write(self) -> None:
        """Write the files."""
        port, user = self.server.port, self.server.user
        self.hosts.write_text("".join(f"{user}@{address}:{port}\n" for address in self.addresses))
        self.known_hosts.write_text(
            "".join(f"[{address}]:{port} {self.server.host_key}\n" for address in self.addresses)
        )

    def command_line(self, *words: str) -> list[str]:
        """Return a command line of tpu-tui."""
        everywhere = ["--hosts", str(self.hosts), "--identity", str(self.server.identity)]
        return [sys.executable, "-m", "tui.cli", *everywhere, "--known-hosts", str(self.known_hosts), *words]

    def ssh_options(self, kex: str) -> list[str]:
        """Return the options for a peer's ssh: the same key and known hosts, no configuration of the user's."""
        options = {
            "IdentitiesOnly": "yes",
            "IdentityAgent": "none",
            "UserKnownHostsFile": str(self.known_hosts),
            "StrictHostKeyChecking": "yes",
            "BatchMode": "yes",
            **({"KexAlgorithms": kex} if kex else {}),
        }
        words = ["-F", "/dev/null", "-p", str(self.server.port), "-i", str(self.server.identity)]
        return words + [word for name, value in options.items() for word in ("-o", f"{name}={value}")]

    def pdsh(self, kex: str) -> Cost:
        """Run `pdsh … true`."""
        environ = {"PDSH_SSH_ARGS_APPEND": " ".join(self.ssh_options(kex)), "PDSH_RCMD_TYPE": "ssh"}
        words = ["pdsh", "-S", "-f", str(AT_ONCE), "-l", self.server.user, "-w", ",".join(self.addresses), "true"]
        return _cost(words, environ)

    def clush(self, kex: str) -> Cost:
        """Run `clush … true`."""
        options = " ".join(self.ssh_options(kex))
        words = ["clush", "-S", "-q", "-f", str(AT_ONCE), "-l", self.server.user, "-o", options]
        return _cost([*words, "-w", ",".join(self.addresses), "true"], {})

    def exec(self) -> Cost:
        """Run `tpu-tui exec … true`."""
        return _cost(self.command_line("exec", "lab", "--", "true"), self._home)

    def launch(self, *options: str) -> Cost:
        """Run `tpu-tui launch … true` until the run has ended and is mirrored, keeper included."""
        return _cost(self.command_line("launch", "lab", *options, "--", "true"), self._home)

    def compile(self) -> None:
        """Have tpu-tui's modules compiled, as they are once installed."""
        _cost([sys.executable, "-c", _IMPORTS], self._home)

    @property
    def _home(self) -> dict[str, str]:
        return {
            "TPU_TUI_HOME": str(self.directory / "home"),
            "PYTHONPYCACHEPREFIX": str(self.directory / "bytecode"),
            "PYTHONDONTWRITEBYTECODE": "",
        }


def _cost(words: Sequence[str], environ: dict[str, str]) -> Cost:
    """Return the CPU and memory of a process and all that outlives it.

    Raises RuntimeError if it fails or is too slow.
    """
    inherited = {name: value for name, value in os.environ.items() if name != "SSH_AUTH_SOCK"}
    with tempfile.TemporaryFile() as errors:
        done = subprocess.run(
            [sys.executable, "-c", _REAPER, str(int(DEADLINE)), *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            env={**inherited, **environ},
        )
        errors.seek(0)
        if done.returncode:
            last = errors.read()[-2000:].decode("utf-8", "replace")
            raise RuntimeError(f"{words[0]} failed with code {done.returncode}: {last}")
    cpu, memory = done.stdout.splitlines()[-1].split()
    return Cost(float(cpu), float(memory) * 1024 / 1e6)


def _until_failure(run: Callable[[], Cost]) -> Callable[[], Cost]:
    """Return `run` as a function that is not run again after a failure: its cost is NaN from then on."""
    failed = False

    def run_once() -> Cost:
        nonlocal failed
        if not failed:
            try:
                return run()
            except RuntimeError as error:
                print(error, file=sys.stderr)
                failed = True
        return Cost(math.nan, math.nan)

    return run_once


@contextmanager
def _lab() -> Iterator[Lab]:
    directory = Path(tempfile.mkdtemp(prefix="fan"))
    try:
        extra = ("MaxStartups 1000:30:2000",)
        with openssh_worker(directory, host="0.0.0.0", extra=extra) as server:
            lab = Lab(directory, server)
            lab.write()
            yield lab
    finally:
        shutil.rmtree(directory, ignore_errors=True)


@dataclass(frozen=True)
class Held:
    """Costs of connections that stay, in CPU seconds and bytes: to make, to keep all, to run a command."""

    connect: float
    memory: float
    idle: float
    """Share of a core for all of them, while nothing happens."""
    command: float


def _held(lab: Lab) -> Held:
    """Measure the connections in a separate process, whose memory is that of the connections."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as apart:
        workers = [Worker(index, internal_ip=one, port=lab.server.port) for index, one in enumerate(lab.addresses)]
        access = Access(user=lab.server.user, identity=str(lab.server.identity), known_hosts=(str(lab.known_hosts),))
        return apart.submit(_hold, workers, access).result(DEADLINE)


def _hold(workers: list[Worker], access: Access) -> Held:
    return asyncio.run(_connections(workers, access))


async def _connections(workers: list[Worker], access: Access) -> Held:
    async with Fleet(workers, access) as fleet:
        first, others = range(AT_ONCE), range(AT_ONCE, WORKERS)
        await asyncio.gather(*(fleet.connect(worker) for worker in first))  # these also load the modules that all use
        memory, began = _resident(), time.process_time()
        await asyncio.gather(*(fleet.connect(worker) for worker in others))
        connect = (time.process_time() - began) / len(others)
        memory = (_resident() - memory) / len(others)
        began = time.process_time()
        await asyncio.sleep(IDLE_SECONDS)
        idle = (time.process_time() - began) / IDLE_SECONDS
        _ = [answer async for answer in fleet.run_all(range(WORKERS), "true")]
        began = time.process_time()
        for _ in range(REPEATS):
            answers = [answer async for answer in fleet.run_all(range(WORKERS), "true")]
            assert all(getattr(answer, "exit_code", None) == 0 for answer in answers)
        return Held(connect, memory, idle, (time.process_time() - began) / REPEATS / WORKERS)


def _resident() -> float:
    """Return the resident memory of this process in bytes, as Linux reports it."""
    return int(Path("/proc/self/status").read_text().partition("VmRSS:")[2].split()[0]) * 1024


def figures() -> list[Figure]:
    """Return the CPU milliseconds a worker of all clients, and the targets."""
    if MISSING or not (shutil.which("pdsh") and shutil.which("clush")):
        return [Figure("fan-out", MISSING or "pdsh and clush are not installed: apt-get install pdsh clustershell")]
    with _lab() as lab:
        fast = "curve25519-sha256"
        commands = {
            "exec": lab.exec,
            "launch": lambda: lab.launch("--skip-checks"),
            "launch, checks first": lab.launch,
            "pdsh, curve25519": lambda: lab.pdsh(fast),
            "clush, curve25519": lambda: lab.clush(fast),
            "pdsh, as shipped": lambda: lab.pdsh(""),
            "clush, as shipped": lambda: lab.clush(""),
        }
        lab.compile()
        turns = {name: _until_failure(command) for name, command in commands.items()}
        costs = {name: cost.cpu * 1000 / WORKERS for name, cost in costs_in_turn(turns, ROUNDS).items()}
        held = _held(lab)
    found = [Figure(f"{name}, a worker of {WORKERS}", f"{value:.2f} ms") for name, value in costs.items()]
    for what, limits in (("exec", (1 / 3, 1 / 15)), ("launch", (1 / 2, 1 / 10))):
        for peer in ("pdsh", "clush"):
            for kind, limit in zip(("curve25519", "as shipped"), limits, strict=True):
                ratio = costs[what] / costs[f"{peer}, {kind}"]
                found.append(at_most(f"{what} against {peer}, {kind}", ratio, round(limit, 3), "×", 3))
    slower = costs["pdsh, curve25519"] / _PDSH
    for what, cpu, limit in (
        ("a connection that stays, a worker", held.connect, 2.5),
        ("a command over it", held.command, 0.5),
    ):
        found.append(at_most(what, cpu * 1000, limit, "ms", 3))
        against = f"the same against pdsh, curve25519, where it takes {_PDSH:g} ms"
        found.append(at_most(against, cpu * 1000 / slower, limit, "ms", 3))
    found.append(at_most("memory of a connection", held.memory / 1000, 30, "KB", 1))
    found.append(at_most(f"{WORKERS} of them, idle", held.idle * 100, 1, "% of a core", 3))
    return found
