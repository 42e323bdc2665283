"""Secrets of a job: never on a command line or in an environment of tpu-tui's processes, and never in a file."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.cli.commands import Shell
from tests.sshd import OpensshWorker, needs_sshd, sshd
from tests.waiting import wait_until

__all__ = ["sshd"]
pytestmark = [needs_sshd, pytest.mark.timing]
TYPED, EXPORTED = b"typed-c0ffee-typed", b"exported-deca7-exported"
JOB = 'echo "$HF_KEY" | wc -c; echo "$API_TOKEN" | wc -c; echo ready; while [ ! -e "$GO" ]; do sleep 0.05; done'
FORMATS = ("html", "md", "json", "csv", "txt")


class Sight(NamedTuple):
    """A secret that was visible in a process: its pid, the file under /proc, and its command line."""

    pid: int
    file: str
    secret: bytes
    words: bytes


class Watcher:
    """A reader of the command line and the environment of every process, repeated in a thread."""

    def __init__(self) -> None:
        self.rounds = 0
        self.seen: set[Sight] = set()
        self._stop = threading.Event()

    def _read_processes(self) -> None:
        for process in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                words, environ = (process / "cmdline").read_bytes(), (process / "environ").read_bytes()
                printed = {"cmdline": words, "environ": b"" if b"TPU_TUI_RUN=" in environ else environ}
                for secret in (TYPED, EXPORTED):
                    self.seen |= {
                        Sight(int(process.name), file, secret, words)
                        for file, text in printed.items()
                        if secret in text
                    }

    def _watch(self) -> None:
        while not self._stop.is_set():
            self._read_processes()
            self.rounds += 1

    @contextlib.contextmanager
    def watching(self) -> Iterator[None]:
        """Read the processes for as long as the body runs."""
        thread = threading.Thread(target=self._watch)
        thread.start()
        try:
            yield
        finally:
            self._stop.set()
            thread.join()


def _secrets_in(directory: Path) -> list[Path]:
    files = [path for path in directory.rglob("*") if path.is_file()]
    assert files
    return [path for path in files if any(secret in path.read_bytes() for secret in (TYPED, EXPORTED))]


@pytest.fixture
def lab(sshd: Callable[..., OpensshWorker], tmp_path: Path) -> tuple[str, ...]:
    """Start three bare machines; return the options that name them."""
    workers = [sshd(index=index, bare=True) for index in range(3)]
    hosts = tmp_path / "lab.txt"
    hosts.write_text("".join(f"{one.user}@{one.host}:{one.port}\n" for one in workers))
    return ("--hosts", str(hosts), "--identity", str(workers[0].identity), "--host-keys", "accept-new")


def test_a_secret_is_visible_in_no_process_but_the_job_and_in_no_file(lab: tuple[str, ...], tmp_path: Path) -> None:
    shell = Shell(tmp_path / "home")
    shell.home.mkdir()
    go = tmp_path / "go"
    shell.environ["API_TOKEN"] = EXPORTED.decode()
    words = ("--env", f"HF_KEY={TYPED.decode()}", "--env", "API_TOKEN", "--env", f"GO={go}")
    watcher, settled = Watcher(), Watcher()
    with watcher.watching():
        with shell.start(*lab, "launch", "lab", "--name", "hush", *words, "--", "sh", "-c", JOB) as launch:
            logs = [shell.home / "runs"]
            wait_until(
                lambda: sum(b"ready" in log.read_bytes() for log in logs[0].glob("*/worker-*.log")) == 3,
                "every worker's job runs",
                seconds=90,
            )
            own = Path(f"/proc/{launch.pid}/cmdline").read_bytes()
            with settled.watching():
                wait_until(lambda: settled.rounds > 2, "all processes were read while the jobs run", seconds=90)
            go.touch()
            out, errors = launch.communicate(timeout=90)
        assert launch.returncode == 0, errors
    # Between its fork and its exec a child shows the command line of its parent; once all jobs run, no child does.
    assert not [sight for sight in watcher.seen if sight.file == "cmdline" and sight.words != own]
    assert {sight.pid for sight in settled.seen if sight.file == "cmdline"} == {launch.pid}
    assert {sight.secret for sight in watcher.seen if sight.file == "cmdline"} == {TYPED}, (
        "the secret that the user typed"
    )
    controller = [sight for sight in watcher.seen if sight.file == "environ" and b"tui." not in sight.words]
    assert not controller, "the exported secret is in the environment of this shell's own commands only"
    assert TYPED not in {sight.secret for sight in watcher.seen if sight.file == "environ"}

    run = next((shell.home / "runs").iterdir())
    sizes = [f"{len(secret) + 1}".encode() for secret in (TYPED, EXPORTED)]
    assert [(run / f"worker-{index:03}.log").read_bytes().split() for index in range(3)] == [[*sizes, b"ready"]] * 3
    formats = [word for name in FORMATS for word in ("--format", name)]
    assert shell.run("report", "hush", *formats, "--out", str(shell.home / "exported")).code == 0
    assert shell.run("report", "hush", *formats).code == 0
    assert {path.name for path in (shell.home / "exported").iterdir()} == {
        f"{run.name}.{suffix}"
        for name in FORMATS
        for suffix in (("cores.csv", "curves.csv") if name == "csv" else (name,))
    }
    answers = [shell.run(*words).raw for words in (("status", "hush", "--json"), ("runs", "--offline", "--json"))]
    answers += [out, errors, shell.run(*lab, "launch", "lab", "--dry-run", *words, "--", "true").raw]
    assert not [answer for answer in answers if TYPED in answer or EXPORTED in answer]
    assert not _secrets_in(shell.home)


def test_a_variable_that_is_not_set_here_cannot_be_passed_on(lab: tuple[str, ...], shell: Shell) -> None:
    answer = shell.run(*lab, "launch", "lab", "--env", "NOT_SET_ANYWHERE", "--", "true")
    assert answer.code == 2
    assert "NOT_SET_ANYWHERE is not set in this shell" in answer.errors
