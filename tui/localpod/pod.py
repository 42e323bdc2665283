"""The local pod: API, workers, bucket and guardian. Other commands find it by the profile `local`."""

from __future__ import annotations

import getpass
import os
import secrets
import tempfile
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from tui.errors import TpuTuiError, UsageError
from tui.localpod.api.authentication import make_token
from tui.localpod.api.compute.instances import GUEST_ATTRIBUTES
from tui.localpod.api.compute.service import ComputeService
from tui.localpod.api.os_login_api import OsLoginService
from tui.localpod.api.rpc_errors import ApiError
from tui.localpod.api.server import TpuService
from tui.localpod.bucket.bucket import Bucket, find_binary
from tui.localpod.cleanup.guardian_client import GuardianClient
from tui.localpod.cleanup.process_sweep import POD_VARIABLE, WORKER_VARIABLE, Mark
from tui.localpod.host.host_spec import TOKEN_FILE
from tui.localpod.host.machines import Machines
from tui.localpod.requirements import require_linux
from tui.procs.python_env import PACKAGE_ROOT, python_path
from tui.settings import LOCAL_PROFILE, profile_path, save_profile
from tui.settings.profiles import read_profile
from tui.text.printable import format_count

PROJECT = "local"
ZONE = "local-a"
FIRST_SLICE = "local"
POD_ID_BYTES = 6


def _plain_environment() -> dict[str, str]:
    """Return this process's environment without another pod's marks, and with this package on PYTHONPATH."""
    environment = {name: value for name, value in os.environ.items() if name not in (POD_VARIABLE, WORKER_VARIABLE)}
    return environment | {"PYTHONPATH": python_path(environment)}


def _public_line(key: Ed25519PrivateKey) -> str:
    """Return the public key as a line of an authorized_keys file."""
    public = key.public_key().public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
    return f"{public.decode()} tpu-tui local pod"


def _write_login_key(path: Path, key: Ed25519PrivateKey) -> None:
    """Write a key pair as ssh-keygen does: the private key to `path`, the public key beside it."""
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.OpenSSH, serialization.NoEncryption()
    )
    _write_secret(path, private.decode())
    path.with_suffix(".pub").write_text(_public_line(key) + "\n")


def _write_secret(path: Path, text: str) -> None:
    path.touch(mode=0o600)
    path.write_text(text)


class LocalPod:
    """A pod on this machine. The profile `local` is written to `home`; the pod's files have their own directory.

    Each of its slices has `workers` workers with `cores` devices each. `close` ends every process and removes every
    port and file of the pod; if this process dies, the guardian does so.
    """

    def __init__(self, home: Path, *, workers: int = 4, cores: int = 1, slices: int = 1) -> None:
        self.home = home
        self.slices = tuple(FIRST_SLICE if i == 0 else f"{FIRST_SLICE}-{i + 1}" for i in range(slices))
        self._workers = workers
        self._cores = cores
        self.id = secrets.token_hex(POD_ID_BYTES)
        self.token = make_token()
        """The owner's bearer token. The profile and `TOKEN_FILE` contain it; only the owner can read them."""
        self.directory = Path(tempfile.gettempdir()) / f"tpu-tui-pod-{self.id}"
        self.identity = self.directory / "id_ed25519"
        self._login_key = Ed25519PrivateKey.generate()
        self._guardian = GuardianClient(self.id, self.directory, profile_path(home, LOCAL_PROFILE))
        self.machines = Machines(self.id, self.directory, _public_line(self._login_key), self._guardian)
        """The worker hosts, also for what only a local pod can do: `preempt`, `pids`, `homes`."""
        self._bucket = Bucket(self.directory, token=self.token)
        self.compute = ComputeService(self.machines, zone=ZONE, project=PROJECT)
        """The Compute Engine API with the pod's firewall rules, disks and images."""
        self.compute.networks.metadata[GUEST_ATTRIBUTES] = "TRUE"
        self.os_login = OsLoginService(PROJECT, lambda: self.compute.networks.metadata)
        """The OS Login API with the profiles of the pod's users."""
        self.compute.instances.os_logins = self.os_login.logins
        self.os_login.changed.append(self.compute.instances.authorize_all)
        self.service = TpuService(
            self.machines,
            project=PROJECT,
            zone=ZONE,
            cores=cores,
            rest_routes=[*self.compute.routes(), *self.os_login.routes()],
            token=self.token,
            store=self.compute.store,
            os_login=self.os_login,
        )
        """The Cloud TPU API service."""

    @property
    def exposure(self) -> str | None:
        """The reason why other users of the machine can reach the bucket; None if they cannot."""
        return self._bucket.exposure

    async def start(self) -> None:
        """Start everything and write the profile. Raises TpuTuiError after closing what was already started."""
        self._check_requirements()
        try:
            await self._start()
        except BaseException:
            await self.close()
            raise

    def _check_requirements(self) -> None:
        require_linux()
        find_binary()
        path = profile_path(self.home, LOCAL_PROFILE)
        if path.exists() and (owner := _live_owner(self.home)):
            raise UsageError(
                "a local pod is already running",
                why=f"process {owner} wrote {path}",
                remedy=f"stop it (kill {owner}), or set another TPU_TUI_HOME",
            )

    async def _start(self) -> None:
        plain = _plain_environment()
        marked = plain | Mark(self.id).environment
        await self._guardian.open(plain)
        self.directory.mkdir(mode=0o700)
        _write_login_key(self.identity, self._login_key)
        await self.machines.open(marked)
        _write_secret(self.directory / TOKEN_FILE, self.token)
        await self._bucket.start(marked)
        await self.service.start()
        self.machines.environment = {"STORAGE_EMULATOR_HOST": self._bucket.endpoint} | _imports()
        for name in self.slices:
            await self._add_slice(name)
        save_profile(self.home, LOCAL_PROFILE, self.profile())

    async def _add_slice(self, name: str) -> None:
        try:
            await self.service.add_slice(name, self._workers, self._cores)
        except ApiError as error:
            size = f"{format_count(self._workers, 'worker')} with {format_count(self._cores, 'core')} each"
            raise UsageError(f"Slice {name} of {size} could not be created", why=str(error)) from error

    def _endpoints(self) -> dict[str, str]:
        rest = f"http://127.0.0.1:{self.service.rest_port}"
        tpu, storage = f"127.0.0.1:{self.service.grpc_port}", self._bucket.endpoint
        return {"tpu": tpu, "compute": rest, "oslogin": rest, "storage": storage}

    def profile(self) -> dict[str, Any]:
        """Return the content of the profile `local`."""
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
        """Return the JSON line of `local up`."""
        endpoints = self._endpoints()
        return {
            "token": self.token,
            "profile": LOCAL_PROFILE,
            "project": PROJECT,
            "zone": ZONE,
            "slices": list(self.slices),
            "tpu_api": {"grpc": endpoints["tpu"], "rest": endpoints["compute"]},
            "compute_api": endpoints["compute"],
            "storage": endpoints["storage"],
            "bucket": self._bucket.url,
            "pid": os.getpid(),
        }

    async def close(self) -> None:
        """End everything and remove every file. A second call has no effect."""
        try:
            await self.service.close()
            await self.compute.close()
        finally:
            await self._guardian.close()
            await self.machines.close()
            await self._bucket.close()


def _imports() -> dict[str, str]:
    """Return the variables with which `python -m trainer.train` works on a worker if the package is not installed."""
    is_installed = PACKAGE_ROOT.name in ("site-packages", "dist-packages")
    return {} if is_installed else {"PYTHONPATH": str(PACKAGE_ROOT)}


def _live_owner(home: Path) -> int | None:
    """Return the PID of the local pod that wrote the profile, if it is still running."""
    try:
        profile = read_profile(home, LOCAL_PROFILE, Path.home())
    except TpuTuiError:
        return None
    return int(profile.local["pid"]) if profile.belongs_to_live_pod else None
