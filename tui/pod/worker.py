"""A worker: one VM of a slice, reached over SSH."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

SSH_PORT = 22
MOST_WORKERS = 1_000_000
"""Indices of workers are below it: the largest slices have some thousands."""
MOST_PORT = 65_535


@dataclass(frozen=True, slots=True)
class Worker:
    """One VM of a slice. `index` is its place in the slice; `reachable` is None until it was tried."""

    index: int
    hostname: str | None = None
    internal_ip: str | None = None
    external_ip: str | None = None
    port: int = SSH_PORT
    user: str | None = None
    """Only where the source names one (a hosts file's `user@host`); else the profile's user holds."""
    host_keys: tuple[str, ...] = ()
    """Public host keys that the API vouches for, as OpenSSH prints them (`ssh-ed25519 AAAA…`)."""
    host_key_alias: str | None = None
    """The name under which gcloud files this worker's key (`tpu.<node id>-<index>`)."""
    instance: str | None = None
    """Its machine as Compute Engine names it (`projects/P/zones/Z/instances/NAME`), by which IAP finds it."""
    reachable: bool | None = None
    error: str | None = None
    remedy: str | None = None
    """What to do about the error."""

    @property
    def name(self) -> str:
        """What people call it: its hostname where known, else its address, else its number."""
        return self.hostname or self.internal_ip or self.external_ip or f"worker {self.index}"

    def to_json(self) -> dict[str, Any]:
        """The row that `workers --json` prints (names are stable)."""
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
