"""Commands run as another user of this machine, and the ports of a pod, for tests of what such a user cannot do."""

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
    """Run a command as the user `nobody`."""
    words = [*AS_NOBODY, *command]
    return subprocess.run(words, input=text, capture_output=True, text=True, timeout=60, check=False, cwd="/")


def _interpreter() -> str | None:
    for python in (sys.executable, shutil.which("python3", path="/usr/bin:/usr/local/bin")):
        if python and as_nobody(python, "-c", "").returncode == 0:
            return python
    return None


def missing() -> str | None:
    """Return why no command can run as another user here; None if it can."""
    if os.geteuid() != 0:
        return "only root can become another user"
    if shutil.which("setpriv") is None:
        return "setpriv is not installed"
    return None if _interpreter() else "another user can run no Python here"


WHY_NOT = missing()
needs_other_user = pytest.mark.skipif(WHY_NOT is not None, reason=WHY_NOT or "")
NOBODYS_PYTHON = _interpreter() if WHY_NOT is None else None


def python_as_nobody(script: str, *arguments: str) -> str:
    """Run a script that needs the standard library only as the user `nobody`; return its output."""
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
    """Return every TCP port in this network namespace that one of the processes listens on."""
    rows = dict(_rows())
    found = {Listening(pid, *rows[link]) for pid in pids for link in _sockets(pid) if link in rows}
    return sorted(found, key=lambda one: (one.address, one.port, one.pid))


def named_sockets(pids: set[int]) -> list[str]:
    """Return the names, also abstract ones, of the Unix sockets that the processes hold."""
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
    """Return every process of a pod, its parent included."""
    return {parent, *members([Mark(pod)])}
