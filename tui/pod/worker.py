"""A worker: one VM of a slice, reached over SSH."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

SSH_PORT = 22
SSH_PORT_KEY = "ssh-port"
"""Metadata key with the port of a VM's SSH server, where that is not 22: a local pod's VMs have it."""
MOST_WORKERS = 1_000_000
"""Upper bound of worker indices: the largest slices have some thousands."""
MOST_PORT = 65_535
RUN_ROOT = "~/.tpu-tui"
"""The directory of the runs on a worker, unless a profile names another."""


@dataclass(frozen=True, slots=True)
class Worker:
    """One VM of a slice. `index` is its place in the slice; `reachable` is None until tested."""

    index: int
    hostname: str | None = None
    internal_ip: str | None = None
    external_ip: str | None = None
    port: int = SSH_PORT
    user: str | None = None
    """Set where the source names one (a hosts file's `user@host`, OS Login); otherwise the profile's user applies."""
    host_keys: tuple[str, ...] = ()
    """Public host keys reported by the API, in OpenSSH's format (`ssh-ed25519 AAAA…`)."""
    host_key_alias: str | None = None
    """The name under which gcloud saves this worker's key (`tpu.<node id>-<index>`, `compute.<instance id>`)."""
    instance: str | None = None
    """Its name in Compute Engine (`projects/P/zones/Z/instances/NAME`), by which IAP finds it."""
    machine_id: str | None = None
    """The ID of its VM, where VMs are replaced one by one: a later VM of the same name has another ID."""
    reachable: bool | None = None
    error: str | None = None
    remedy: str | None = None
    """What to do about the error."""

    @property
    def name(self) -> str:
        """The hostname where known, else the address, else the number."""
        return self.hostname or self.internal_ip or self.external_ip or f"worker {self.index}"

    def to_json(self) -> dict[str, Any]:
        """Return the row that `workers --json` prints (names are stable)."""
        return {
            "worker": self.index,
            "hostname": self.hostname,
            "internal_ip": self.internal_ip,
            "external_ip": self.external_ip,
            "port": self.port,
            "reachable": self.reachable,
            "error": self.error,
            "remedy": self.remedy,
        }
