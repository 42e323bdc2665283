"""asyncssh is loaded when a login is made, quickly, and with all that it can do."""

from __future__ import annotations

import json
import subprocess
import sys


def output_of(program: str) -> dict[str, object]:
    """Return what a new Python process prints as JSON."""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=100, check=True)
    return dict(json.loads(done.stdout))


_LOADED = """
import json, sys
from tui.ssh.transport.asyncssh_import import load_asyncssh
lazy = "asyncssh" not in sys.modules
load_asyncssh()
load_asyncssh()
print(json.dumps({
    "lazy": lazy,
    "loaded": "asyncssh" in sys.modules,
    "certificates": "cryptography.x509" in sys.modules,
    "remains": "asyncssh.crypto.x509" in sys.modules,
}))
"""


def test_asyncssh_is_loaded_on_demand_and_without_certificates_that_no_worker_has() -> None:
    assert output_of(_LOADED) == {"lazy": True, "loaded": True, "certificates": False, "remains": False}


_ALIKE = """
import json
{how}
import asyncssh
options = asyncssh.SSHClientConnectionOptions(config=None, client_keys=None, agent_path=None)
print(json.dumps({{"kex": [str(n) for n in options.kex_algs], "mac": [str(n) for n in options.mac_algs]}}))
"""


def test_it_can_do_what_it_can_do_when_imported_plainly() -> None:
    quick = output_of(
        _ALIKE.format(how="from tui.ssh.transport.asyncssh_import import load_asyncssh; load_asyncssh()")
    )
    assert quick == output_of(_ALIKE.format(how=""))
