"""A process that stands by: what it keeps of the one that forked it, and when it ends."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import subprocess
import sys
import time
from pathlib import Path

import pytest

_MARK = "TPU_TUI_TEST_STANDBY"
_FORKING = """
import json, os, sys
from tui.runs.standby import Standby

mine = [os.open(os.devnull, os.O_RDONLY) for _ in range(3)]

def work(order, answer):
    files = {name: os.path.realpath(f"/proc/self/fd/{name}") for name in os.listdir("/proc/self/fd")}
    answer(json.dumps([order.decode(), os.getcwd(), os.getsid(0), os.getpid(), os.getppid(), files]).encode())

standby = Standby.fork(work)
"""
_GIVEN = """
told = json.loads(standby.give(b"go"))
print(json.dumps([*told, os.getpid()]))
"""


def _run(*parts: str) -> subprocess.CompletedProcess[str]:
    script = _FORKING + "".join(parts)
    return subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)


def test_it_gets_the_order_and_keeps_nothing_of_the_process_that_forked_it() -> None:
    order, place, session, pid, parent, files, forker = json.loads(_run(_GIVEN).stdout)
    assert (order, place, session) == ("go", "/", pid)
    assert parent != forker, "nobody here has to wait for its end"
    assert [files[name] for name in "012"] == ["/dev/null"] * 3
    assert len([file for file in files.values() if "pipe:" in file]) == 1, "where it answers"


@pytest.mark.parametrize("end", ["standby.close()", "os._exit(7)"])
def test_it_ends_with_a_process_that_has_no_order_for_it(monkeypatch: pytest.MonkeyPatch, end: str) -> None:
    monkeypatch.setenv(_MARK, secrets.token_hex(8))
    _run(end)
    deadline = time.monotonic() + 30
    while _marked(os.environ[_MARK].encode()):
        assert time.monotonic() < deadline, "it is still there"
        time.sleep(0.01)


def _marked(mark: bytes) -> list[Path]:
    """The other processes whose environment carries the mark."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if process.name != str(os.getpid()) and mark in (process / "environ").read_bytes():
                found.append(process)
    return found


def test_work_that_breaks_off_is_an_empty_answer_and_is_not_done_twice() -> None:
    done = _run("def work(order, answer): raise SystemExit\n", "print(Standby.fork(work).give(b'go'), 'once')")
    assert done.stdout == "b'' once\n"
