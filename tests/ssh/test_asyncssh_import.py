"""The import of asyncssh at the first login: it is quick, and all algorithms are available."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

pytestmark = pytest.mark.py310


def output_of(program: str, **environ: str) -> dict[str, object]:
    """Return what a new Python process prints as JSON."""
    command, env = [sys.executable, "-c", program], {**os.environ, **environ}
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=True, env=env)
    return dict(json.loads(done.stdout))


_LOADED = """
import ctypes.util, json, os, sys
started = []
sys.addaudithook(lambda event, arguments: started.append(str(arguments[0])) if event == "subprocess.Popen" else None)
find_library = ctypes.util.find_library
from tui.ssh.fleet import Fleet
lazy = "asyncssh" not in sys.modules
import tui.ssh.connection, tui.runs.keeper.__main__, tui.localpod.host.worker_host
print(json.dumps({
    "lazy": lazy,
    "loaded": "asyncssh" in sys.modules,
    "certificates": "cryptography.x509" in sys.modules,
    "remains": "asyncssh.crypto.x509" in sys.modules,
    "compilers": [program for program in started if os.path.basename(program) in ("cc", "gcc", "ld")],
    "as before": ctypes.util.find_library is find_library,
}))
"""


@pytest.mark.parametrize("libraries", ["", "/usr/lib:/nowhere"])
def test_asyncssh_is_loaded_on_demand_without_unused_certificates_and_without_compilers(libraries: str) -> None:
    expected = {"lazy": True, "loaded": True, "certificates": False, "remains": False, "as before": True}
    assert output_of(_LOADED, LD_LIBRARY_PATH=libraries) == {**expected, "compilers": []}


_ALIKE = """
import json
{how}
import asyncssh
options = asyncssh.SSHClientConnectionOptions(config=None, client_keys=None, agent_path=None)
print(json.dumps({{"kex": [str(n) for n in options.kex_algs], "mac": [str(n) for n in options.mac_algs]}}))
"""


def test_asyncssh_has_the_same_algorithms_as_after_a_plain_import() -> None:
    quick = output_of(_ALIKE.format(how="import tui.ssh.asyncssh_import"))
    assert quick == output_of(_ALIKE.format(how=""))
