"""The local pod: API, workers, bucket and guardian together. Other commands find it by the profile `local`."""

from __future__ import annotations

import asyncio
import getpass
import os
import secrets
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tui.errors import TpuTuiError, UsageError
from tui.localpod.api.owner import make_token
from tui.localpod.bucket.bucket import DEFAULT_LOCATION, Bucket, find_binary
from tui.localpod.cleanup.guardian_client import GuardianClient
from tui.localpod.cleanup.process_sweep import POD_VARIABLE, WORKER_VARIABLE, Mark
from tui.localpod.host.host_spec import TOKEN_FILE
from tui.localpod.host.machines import Machines
from tui.localpod.requirements import require_linux
from tui.procs.python_env import PACKAGE_ROOT, python_path
from tui.settings import LOCAL_PROFILE, profile_path, save_profile
from tui.settings.profiles import read_profile

if TYPE_CHECKING:
    from tui.localpod.api.compute_api import ComputeService
    from tui.localpod.api.server import TpuService

PROJECT = "local"
ZONE = "local-a"
FIRST_SLICE = "local"
POD_ID_BYTES = 6


def _plain_environment() -> dict[str, str]:
    """This process's environment without another pod's marks, able to import this package from any directory."""
    environment = {name: value for name, value in os.environ.items() if name not in (POD_VARIABLE, WORKER_VARIABLE)}
    return environment | {"PYTHONPATH": python_path(environment)}


def _make_login_key(directory: Path) -> tuple[Path, str]:
    """A new ed25519 key pair; returns the private key's file and the public key's line."""
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    key = Ed25519PrivateKey.generate()
    path = directory / "id_ed25519"
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.OpenSSH, serialization.NoEncryption()
    )
    _write_secret(path, private.decode())
    public = key.public_key().public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
    line = f"{public.decode()} tpu-tui local pod"
    path.with_suffix(".pub").write_text(line + "\n")
    return path, line


def _write_secret(path: Path, text: str) -> None:
    path.touch(mode=0o600)
    path.write_text(text)


class LocalPod:
    """A pod on this machine. `home` is where the profile `local` is written; files live in a directory of their own.

    `close` ends every process, port and file of it; so does the guardian when this process dies.
    """

    def __init__(self, home: Path, *, location: str = DEFAULT_LOCATION) -> None:
        self.home = home
        self.id = secrets.token_hex(POD_ID_BYTES)
        self.token = make_token()
        """What the owner's requests bear; it is in the profile and in `token_file`, for the owner's eyes only."""
        self.directory = Path(tempfile.gettempdir()) / f"tpu-tui-pod-{self.id}"
        self.identity = Path()
        self.slices: tuple[str, ...] = ()
        self._location = location
        self._wards: GuardianClient | None = None
        self._machines: Machines | None = None
        self._bucket: Bucket | None = None
        self._service: TpuService | None = None
        self.compute: ComputeService | None = None
        """Its firewall rules, which can be turned; None until it is started."""

    @property
    def token_file(self) -> Path:
        """The token alone, as gcloud reads it from CLOUDSDK_AUTH_ACCESS_TOKEN_FILE."""
        return self.directory / TOKEN_FILE

    @property
    def exposure(self) -> str | None:
        """Why the bucket is open to the machine's other users; None where it is not."""
        return self._bucket.exposure if self._bucket is not None else None

    @property
    def machines(self) -> Machines:
        """The worker hosts, for what only a local pod can do: `preempt`, `pids`, `homes`."""
        if self._machines is None:
            raise RuntimeError("the pod is not started")
        return self._machines

    @property
    def service(self) -> TpuService:
        """The Cloud TPU API service, whose behaviour can be turned."""
        if self._service is None:
            raise RuntimeError("the pod is not started")
        return self._service

    async def start(self, workers: int = 4, cores: int = 1, slices: int = 1) -> None:
        """Bring everything up and write the profile. Raises TpuTuiError; whatever had started is ended then."""
        self._require_possible()
        try:
            await self._start(workers, cores, slices)
        except BaseException:
            await self.close()
            raise

    def _require_possible(self) -> None:
        require_linux()
        find_binary()
        path = profile_path(self.home, LOCAL_PROFILE)
        if path.exists() and (owner := _live_owner(self.home)):
            raise UsageError(
                "A local pod is running already",
                why=f"process {owner} has written {path}",
                remedy=f"End it (kill {owner}), or set another TPU_TUI_HOME.",
            )

    async def _start(self, workers: int, cores: int, slices: int) -> None:
        plain = _plain_environment()
        marked = plain | Mark(self.id).environment
        self._wards = GuardianClient(self.id, self.directory, profile_path(self.home, LOCAL_PROFILE))
        await self._wards.open(plain)
        self.directory.mkdir(mode=0o700)
        self.identity, public_key = _make_login_key(self.directory)
        self._machines = Machines(self.id, self.directory, public_key, self._wards)
        await self._machines.open(marked)
        _write_secret(self.token_file, self.token)
        self._bucket = Bucket(self.directory, location=self._location, token=self.token)
        storage = asyncio.create_task(self._bucket.start(marked))
        try:
            await asyncio.sleep(0)  # the bucket's process starts before the API's library is imported here
            service = await self._start_service(cores)
        finally:
            await storage
        self._machines.environment = {"STORAGE_EMULATOR_HOST": self._bucket.endpoint} | _imports()
        self.slices = tuple(FIRST_SLICE if i == 0 else f"{FIRST_SLICE}-{i + 1}" for i in range(slices))
        for name in self.slices:
            await _add_slice(service, name, workers, cores)
        save_profile(self.home, LOCAL_PROFILE, self.profile())

    async def _start_service(self, cores: int) -> TpuService:
        from tui.localpod.api.compute_api import ComputeService
        from tui.localpod.api.server import TpuService

        self.compute = ComputeService(self._instances, zone=ZONE)
        routes = self.compute.routes()
        self._service = TpuService(
            self.machines, project=PROJECT, zone=ZONE, cores=cores, rest_routes=routes, token=self.token
        )
        await self._service.start()
        return self._service

    def _instances(self) -> list[tuple[str, str]]:
        """Every slice's machines, as Compute Engine lists them."""
        workers = [worker for name in self.machines.slices for worker in self.machines.workers(name)]
        return [(worker.hostname, worker.address) for worker in workers]

    def _endpoints(self) -> dict[str, str]:
        assert self._bucket is not None
        rest = f"http://127.0.0.1:{self.service.rest_port}"
        return {"tpu": f"127.0.0.1:{self.service.grpc_port}", "compute": rest, "storage": self._bucket.endpoint}

    def profile(self) -> dict[str, Any]:
        """Return the content of the profile `local`."""
        assert self._bucket is not None
        return {
            "project": PROJECT,
            "zones": [ZONE],
            "user": getpass.getuser(),
            "identity": str(self.identity),
            "host_keys": "strict",
            "runtime": "cpu",
            "endpoints": self._endpoints(),
            "token": self.token,
            "local": {"pid": os.getpid(), "pod": self.id, "bucket": self._bucket.url},
        }

    def announcement(self) -> dict[str, Any]:
        """The JSON line of `local up`."""
        assert self._bucket is not None
        endpoints = self._endpoints()
        return {
            "token": self.token,
            "profile": LOCAL_PROFILE,
            "project": PROJECT,
            "zone": ZONE,
            "slices": list(self.slices),
            "tpu_api": {"grpc": endpoints["tpu"], "rest": f"http://127.0.0.1:{self.service.rest_port}"},
            "compute_api": endpoints["compute"],
            "storage": endpoints["storage"],
            "bucket": self._bucket.url,
            "pid": os.getpid(),
        }

    async def close(self) -> None:
        """End everything and remove every file; can be called again."""
        service, self._service = self._service, None
        wards, self._wards = self._wards, None
        machines, self._machines = self._machines, None
        bucket, self._bucket = self._bucket, None
        try:
            if service is not None:
                await service.close()
        finally:
            if wards is not None:
                await wards.close()
            if machines is not None:
                await machines.close()
            if bucket is not None:
                await bucket.close()


async def _add_slice(service: TpuService, name: str, workers: int, cores: int) -> None:
    from tui.localpod.api.rpc_errors import ApiError

    try:
        await service.add_slice(name, workers, cores)
    except ApiError as error:
        raise UsageError(
            f"Slice {name} of {workers} workers with {cores} cores each could not be made", why=str(error)
        ) from error


def _imports() -> dict[str, str]:
    """What makes `python -m trainer.train` work on a worker when the package runs from a clone."""
    is_installed = PACKAGE_ROOT.name in ("site-packages", "dist-packages")
    return {} if is_installed else {"PYTHONPATH": str(PACKAGE_ROOT)}


def _live_owner(home: Path) -> int | None:
    """The process of the local pod that the profile belongs to, if it lives."""
    try:
        profile = read_profile(home, LOCAL_PROFILE, Path.home())
    except TpuTuiError:
        return None
    return int(profile.local["pid"]) if profile.belongs_to_live_pod else None
