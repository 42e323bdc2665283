"""asyncssh is loaded when a login is made, quickly, and with all that it can do."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import cast

import pytest


def told_by(program: str) -> dict[str, object]:
    """What a Python of its own prints as JSON."""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=100, check=True)
    return dict(json.loads(done.stdout))


_LOADED = """
import ctypes.util, gc, json, subprocess, sys
started = []
class Counting(subprocess.Popen):
    def __init__(self, command, *rest, **more):
        started.append(command[0].rpartition("/")[2])
        super().__init__(command, *rest, **more)
subprocess.Popen = Counting
before = ctypes.util.find_library
from tui.ssh.transport.asyncssh_import import load_asyncssh
lazy = "asyncssh" not in sys.modules
load_asyncssh()
load_asyncssh()
print(json.dumps({
    "lazy": lazy,
    "loaded": "asyncssh" in sys.modules,
    "started": started,
    "as before": ctypes.util.find_library is before,
    "collects": gc.isenabled(),
    "certificates": "cryptography.x509" in sys.modules,
    "remains": "asyncssh.crypto.x509" in sys.modules,
}))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only there ctypes starts compilers")
def test_loading_starts_no_compiler_and_leaves_the_process_as_it_was() -> None:
    found = told_by(_LOADED)
    assert found["lazy"]
    assert found["loaded"]
    assert not {"gcc", "cc", "ld"} & set(cast(list[str], found["started"]))
    assert found["as before"]
    assert found["collects"]


def test_nothing_is_loaded_for_certificates_that_no_worker_has() -> None:
    found = told_by(_LOADED)
    assert not found["certificates"]
    assert not found["remains"]


_ALIKE = """
import json
{how}
import asyncssh
options = asyncssh.SSHClientConnectionOptions(config=None, client_keys=None, agent_path=None)
print(json.dumps({{"kex": [str(n) for n in options.kex_algs], "mac": [str(n) for n in options.mac_algs]}}))
"""


def test_it_can_do_what_it_can_do_when_imported_plainly() -> None:
    quick = told_by(_ALIKE.format(how="from tui.ssh.transport.asyncssh_import import load_asyncssh; load_asyncssh()"))
    assert quick == told_by(_ALIKE.format(how=""))
