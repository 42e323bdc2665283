"""Names and addresses: a silent DNS server, and a name with several addresses, in a network of the test's own."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.timing

_PROLOGUE = """
import asyncio, socket, sys, threading
from tui.pod.worker import Worker
from tui.ssh.config.access import Access
from tui.ssh.fleet import Fleet
from tui.ssh.transport.tcp import open_socket
"""
_SILENT_DNS = """
silent = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
silent.bind(("127.0.0.1", 53))
async def main():
    workers = [Worker(n, external_ip=f"worker-{n}.invalid") for n in range(20)]
    async with Fleet(workers, Access(user="me", connect_timeout=1.5)) as fleet:
        rows = [row async for row in fleet.run_all(range(20), "true")]
    print(sorted({row.reason.value for row in rows}))
asyncio.run(main())
print(sum(thread.name.startswith("look up") for thread in threading.enumerate()))
"""
"""Twenty names that are never resolved; the event loop closes while the look-ups still go on."""
_TWO_ADDRESSES = """
places = [found[4][0] for found in socket.getaddrinfo("dual", 2200, type=socket.SOCK_STREAM)]
assert sorted(places) == ["127.0.0.2", "127.0.0.3"], places
silent = socket.socket()
silent.bind((places[0], 2200))
silent.listen(0)
fillers = [socket.socket() for _ in range(2)]
for filler in fillers:
    filler.setblocking(False)
    filler.connect_ex((places[0], 2200))
answering = socket.create_server((places[1], 2200))
async def main():
    with await asyncio.wait_for(open_socket("dual", 2200), 20) as sock:
        print(sock.getpeername()[0] == places[1])
asyncio.run(main())
"""
"""A full backlog makes Linux drop further packets silently, as a network without a route does."""


def _missing() -> str:
    if os.geteuid() != 0 or not all(map(shutil.which, ("unshare", "ip", "mount"))):
        return "a network of its own needs root, unshare, ip and mount"
    tried = subprocess.run(["unshare", "--net", "--mount", "true"], capture_output=True, text=True)
    return tried.stderr.strip()


needs_namespaces = pytest.mark.skipif(bool(_missing()), reason=_missing() or "there are namespaces")


def _run_in_own_network(tmp_path: Path, script: str) -> list[str]:
    """Return what a script prints in an empty network, where names are looked up on 127.0.0.1."""
    (tmp_path / "resolv.conf").write_text("nameserver 127.0.0.1\n")
    (tmp_path / "hosts").write_text("127.0.0.2 dual\n127.0.0.3 dual\n")
    (tmp_path / "script.py").write_text(_PROLOGUE + script)
    mounts = "".join(f"mount --bind {tmp_path / name} /etc/{name} && " for name in ("resolv.conf", "hosts"))
    inside = f"ip link set lo up && {mounts}exec {sys.executable} {tmp_path / 'script.py'}"
    done = subprocess.run(["unshare", "--net", "--mount", "sh", "-c", inside], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout.splitlines()


@needs_namespaces
def test_a_silent_dns_server_is_reported_and_blocks_nothing(tmp_path: Path) -> None:
    assert _run_in_own_network(tmp_path, _SILENT_DNS) == ["['name']", "20"]


@needs_namespaces
def test_a_silent_address_does_not_hide_the_one_that_answers(tmp_path: Path) -> None:
    assert _run_in_own_network(tmp_path, _TWO_ADDRESSES) == ["True"]
