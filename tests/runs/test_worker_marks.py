"""Processes that drop some of the marks of their run, over pipes: a stop finds them by the other marks."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path

import pytest

from tests.runs.pipes import PipeWorker, a_run, content_of, ended, needs_linux
from tests.waiting import wait_until
from tui.runs.worker.calls import parse_outcome

pytestmark = [needs_linux, pytest.mark.timing]
LONG = 987_000_000 + os.getpid()
"""Seconds to sleep, different for each process that runs these tests."""

SHED = "prlimit --locks=77"
LEFT = {
    "another limit": f"setsid {SHED} sleep {LONG} </dev/null >/dev/null 2>&1 &",
    "no environment": f"setsid env -i PATH=$PATH sleep {LONG} </dev/null >/dev/null 2>&1 &",
    "neither, in the job's session": f"env -i PATH=$PATH {SHED} sleep {LONG} </dev/null >/dev/null 2>&1 &",
    "neither, with the log open": f"setsid env -i PATH=$PATH {SHED} sleep {LONG} </dev/null &",
}


def sleeping() -> list[int]:
    """Return the live processes that the jobs of these tests left behind."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if f"sleep\0{LONG}\0".encode() in (path / "cmdline").read_bytes():
                found.append(int(path.name))
    return found


@pytest.fixture(autouse=True)
def _kill_leftovers() -> Iterator[None]:
    yield
    for pid in sleeping():
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


@pytest.mark.parametrize("shell", ["sleep", "env -i /bin/sleep"])
def test_a_leader_that_changed_its_limit_is_stopped(worker: PipeWorker, shell: str) -> None:
    run = a_run("sh", "-c", f"(setsid sleep {LONG} &); exec {SHED} sh -c 'echo on; {shell} {LONG}; true'")
    worker.launch(run).through()
    wait_until(lambda: content_of(worker.directory(run) / "log") == b"on\n")
    wait_until(lambda: len(sleeping()) == 2)
    answers = worker.ask("stop", run, 20, 0)[0]
    assert (answers[0].word, parse_outcome(answers[0]).signal) == ("stopped", "TERM"), answers
    assert not sleeping()


@pytest.mark.bash
@pytest.mark.parametrize("shed", LEFT)
def test_a_child_without_one_of_its_marks_is_stopped(worker: PipeWorker, shed: str) -> None:
    run = a_run("sh", "-c", f"{LEFT[shed]} echo on; exec sleep {LONG}")
    worker.env["TPU_TUI_TEST"] = "1"
    worker.launch(run).through()
    wait_until(lambda: len(sleeping()) == 2)
    assert worker.ask("stop", run, 20, 0)[0][0].word == "stopped"
    assert not sleeping()


@pytest.mark.parametrize("shed", LEFT)
def test_a_child_without_one_of_its_marks_ends_with_its_leader(worker: PipeWorker, shed: str) -> None:
    run = a_run("sh", "-c", f"{LEFT[shed]} sleep 0.3; exit 3")
    worker.launch(run).through()
    assert ended(worker, run)["exit"] == "3"
    assert not sleeping()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root reads other users' environments")
@pytest.mark.parametrize("between", [" /proc/{}/environ ", "x\n==> /proc/{}/environ <==\n"])
def test_another_users_environment_cannot_name_a_process_to_be_killed(worker: PipeWorker, between: str) -> None:
    run = a_run("sleep", str(LONG))
    worker.launch(run).through()
    neighbour = subprocess.Popen(["sleep", "1000"])
    mark = f"TPU_TUI_MARK=1/{run.id}/0/"
    forged = {"A": "x\n" + mark + between.format(neighbour.pid) + mark}
    other = subprocess.Popen(["sleep", "1000"], env=forged, user=65534)
    try:
        assert worker.ask("stop", run, 10, 0)[0][0].word == "stopped"
        assert neighbour.poll() is None
    finally:
        for process in (neighbour, other):
            process.kill()
            process.wait()


def test_another_programs_command_line_cannot_pass_for_a_supervisor(worker: PipeWorker) -> None:
    run = a_run("true")
    forged = f"x\nsh ./worker.sh supervise {run.id} 0 1"
    with subprocess.Popen(["sleep", "1000", forged]) as other:
        try:
            assert worker.ask("stop", run, 10, 0)[0][0].fields == {"never": "1"}
        finally:
            other.kill()


RENAMED = r"""
import ctypes, time
ctypes.CDLL(None).prctl(15, b"a) S 1 9 4242 \n", 0, 0, 0)  # PR_SET_NAME
print(flush=True)
time.sleep(1000)
"""


@pytest.mark.bash
def test_a_process_cannot_pretend_another_session_by_its_name(worker: PipeWorker) -> None:
    prelude = files("tui.ssh.exec").joinpath("script_prelude.sh").read_text()
    with subprocess.Popen([sys.executable, "-c", RENAMED], stdout=subprocess.PIPE) as other:
        try:
            assert other.stdout is not None
            other.stdout.readline()
            script = f"tt_root=/; {prelude}\nlook {other.pid}; echo $tt_session"
            printed = subprocess.check_output([f"{worker.path}/sh", "-c", script], env={"PATH": worker.path})
            assert int(printed) == os.getsid(other.pid)
        finally:
            other.kill()
