"""The worker script over pipes: a worker without SSH, with a bare PATH, under dash or bash."""

from __future__ import annotations

import fcntl
import shutil
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.run_records import make_run
from tests.sshd import bare_programs
from tests.waiting import wait_until
from tui.pod.run import Run, make_run_id
from tui.pod.worker import Worker
from tui.runs.launch.job_script import job_text
from tui.runs.worker.calls import build_call
from tui.ssh.exec.script_protocol import Answer, Call, parse_answers, parse_line

BARE = ("coreutils", "util-linux")
needs_linux = pytest.mark.skipif(not Path("/proc/self/limits").exists(), reason="workers are Linux machines")


def content_of(path: Path) -> bytes:
    """Return what was written to the file so far: nothing while it does not exist."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return b""


def bare_path(directory: Path, shell: str) -> str:
    """Make a directory of the programs of coreutils, util-linux and sh only, and return it as a PATH."""
    binaries = directory / "bin"
    binaries.mkdir(parents=True)
    for name, program in (bare_programs(BARE) | {"sh": shutil.which(shell) or shell}).items():
        (binaries / name).symlink_to(program)
    return str(binaries)


@dataclass
class PipeWorker:
    """One worker reached over pipes."""

    root: Path
    shell: str = "dash"
    env: dict[str, str] = field(default_factory=dict)
    prefix: tuple[str, ...] = ()
    started: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.path = bare_path(self.root / self.shell, self.shell)
        self.home = self.root / "home"
        self.home.mkdir(exist_ok=True)

    def open(self, made: Call) -> subprocess.Popen[bytes]:
        """Start a call; its standard input stays open."""
        process = subprocess.Popen(
            [*self.prefix, f"{self.path}/sh", "-c", made.command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={"PATH": self.path, "HOME": str(self.home), "TPU_TUI_DEVICES": "", **self.env},
            cwd="/",
        )
        assert process.stdin
        process.stdin.write(made.input)
        process.stdin.flush()
        self.started.append(process)
        return process

    def ask(self, verb: str, run: Run, *arguments: int, worker: int = 0) -> tuple[list[Answer], bytes, bytes]:
        """Run one call to its end; return the answers on both streams, stdout and stderr."""
        made = build_call(verb, run.id, worker, *arguments, run_root=run.run_root)
        process = self.open(made)
        out, err = process.communicate(timeout=90)
        return parse_answers(made.nonce, out) + parse_answers(made.nonce, err), out, err

    def directory(self, run: Run, worker: int = 0) -> Path:
        return self.home / ".tpu-tui" / "runs" / run.id / str(worker)

    def launch(
        self,
        run: Run,
        env: dict[str, str] | None = None,
        attempt: int = 0,
        again: bool = False,
        held_back: int = 0,
        lease: float = 3,
    ) -> Launch:
        return Launch(self, run, env or {}, attempt, again, held_back, lease)

    def close(self) -> None:
        for process in self.started:
            for stream in (process.stdin, process.stdout, process.stderr):
                if stream:
                    stream.close()
            process.kill()
            process.wait()


def a_run(*argv: str, slice_: str = "pipes", **fields: object) -> Run:
    worker = Worker(0, internal_ip="127.0.0.1")
    return make_run(make_run_id(slice_), slice_, argv, (worker,), runtime="none", **fields)


class Launch:
    """The keeper's side of a launch on one worker, step by step; the last `held_back` bytes of data are not sent."""

    def __init__(
        self,
        worker: PipeWorker,
        run: Run,
        env: dict[str, str],
        attempt: int = 0,
        again: bool = False,
        held_back: int = 0,
        lease: float = 3,
    ) -> None:
        text = b"" if again else job_text(run, run.workers[0], env).encode()
        record = b"" if again else b"{}"
        made = build_call(
            "launch",
            run.id,
            0,
            len(text),
            len(record),
            attempt,
            run_root=run.run_root,
            data=(text + record)[: len(text + record) - held_back],
            lease=lease,
        )
        self.nonce = made.nonce
        self.process = worker.open(made)
        self.notes: list[Answer] = []

    def answer(self) -> Answer:
        """Return the next answer other than a note; at the end of the stream its word is empty."""
        assert self.process.stdout
        for line in self.process.stdout:
            found = parse_line(self.nonce, line)
            if found and found.word == "note":
                self.notes.append(found)
            elif found:
                return found
        return Answer("", (self.process.stderr.read() if self.process.stderr else b"").decode())

    def send(self, word: bytes) -> None:
        assert self.process.stdin
        self.process.stdin.write(word)
        self.process.stdin.flush()

    def through(self) -> str:
        """Carry out all three steps and return the leader's pid."""
        armed = self.answer()
        assert armed.word == "armed", armed
        self.send(b"go!")
        started = self.answer()
        assert started.word == "started", started
        self.send(b"ok!")
        running = self.answer()
        assert running.word == "running", running
        assert self.process.wait(20) == 0
        return started.text


def tagged(*tags: str) -> list[int]:
    """Return every live process with one of the tags, from the limits in /proc (independent of worker.sh)."""
    if not tags:
        return []
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            limits = (path / "limits").read_text()
            state = (path / "stat").read_text().rpartition(") ")[2][:1]
        except OSError:
            continue
        words = limits.partition("Max file locks")[2].partition("\n")[0].split()
        if state not in "ZX" and not set(tags).isdisjoint(words):
            found.append(int(path.name))
    return found


def ended(worker: PipeWorker, run: Run) -> dict[str, str]:
    """Wait until a job and its supervisor have ended; return the fields of the job's status file."""
    directory = worker.directory(run)
    wait_until(lambda: has_ended(directory))
    return dict(pair.split("=", 1) for pair in (directory / "status").read_text().split())


def has_ended(directory: Path) -> bool:
    """Return whether the job of a worker's run directory has ended and so has its supervisor, which lives longer."""
    if not (directory / "status").exists():
        return False
    with (directory / "alive").open("rb") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
    return True


def tag_of(worker: PipeWorker, run: Run) -> str:
    """Return the resource-limit tag of the run's processes."""
    return (worker.directory(run) / "tag").read_text().strip()
