"""Another user of this machine, and what listens of a pod: for tests that show what such a user cannot do."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tui.localpod.cleanup.process_sweep import Mark, members

NOBODY = 65534
AS_NOBODY = ("setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups")
_LISTEN = "0A"


def as_nobody(*command: str, text: str | None = None) -> subprocess.CompletedProcess[str]:
    """Run a command as another user than the tests'."""
    words = [*AS_NOBODY, *command]
    return subprocess.run(words, input=text, capture_output=True, text=True, timeout=60, check=False, cwd="/")


def _interpreter() -> str | None:
    for python in (sys.executable, shutil.which("python3", path="/usr/bin:/usr/local/bin")):
        if python and as_nobody(python, "-c", "").returncode == 0:
            return python
    return None


def missing() -> str | None:
    """Say why there is no other user to be here; None where there is one."""
    if os.geteuid() != 0:
        return "only root can become another user"
    if shutil.which("setpriv") is None:
        return "setpriv is not installed"
    return None if _interpreter() else "another user can run no Python here"


WHY_NOT = missing()
needs_other_user = pytest.mark.skipif(WHY_NOT is not None, reason=WHY_NOT or "")
NOBODYS_PYTHON = _interpreter() if WHY_NOT is None else None


def python_as_nobody(script: str, *arguments: str) -> str:
    """Run a script that needs the standard library only; returns what it printed."""
    assert NOBODYS_PYTHON is not None
    done = as_nobody(NOBODYS_PYTHON, "-I", "-", *arguments, text=script)
    assert done.returncode == 0, done.stderr
    return done.stdout


@dataclass(frozen=True)
class Listening:
    """A TCP port that a process listens on."""

    pid: int
    address: str
    port: int


def listening(pids: set[int]) -> list[Listening]:
    """Every TCP port in this network namespace that one of the processes listens on."""
    rows = dict(_rows())
    found = {Listening(pid, *rows[link]) for pid in pids for link in _sockets(pid) if link in rows}
    return sorted(found, key=lambda one: (one.address, one.port, one.pid))


def named_sockets(pids: set[int]) -> list[str]:
    """The names, abstract ones too, of the Unix sockets that the processes hold: others could connect to them."""
    rows = [line.split() for line in Path("/proc/net/unix").read_text().splitlines()[1:]]
    names = {f"socket:[{row[6]}]": row[7] for row in rows if len(row) > 7}
    return sorted({names[link] for pid in pids for link in _sockets(pid) if link in names})


def _sockets(pid: int) -> Iterator[str]:
    for descriptor in Path(f"/proc/{pid}/fd").iterdir():
        yield str(descriptor.readlink())


def _rows() -> Iterator[tuple[str, tuple[str, int]]]:
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == _LISTEN:
                address, _, port = fields[1].partition(":")
                yield f"socket:[{fields[9]}]", (_dotted(address[-8:]), int(port, 16))


def _dotted(word: str) -> str:
    return ".".join(str(byte) for byte in int(word, 16).to_bytes(4, sys.byteorder))


def processes_of(pod: str, parent: int) -> set[int]:
    """Every process of a pod, its parent included."""
    return {parent, *members([Mark(pod)])}
