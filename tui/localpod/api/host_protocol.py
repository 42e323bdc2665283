"""The protocol through which the API starts, stops and reaches worker machines."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True)
class HostedWorker:
    """One running worker machine, reachable over SSH at `address:port`.

    `hostname` has the shape `t1v-n-<8 hex>-w-<index>`; `host_key_public` is one line as OpenSSH prints it
    (`ssh-ed25519 AAAA…`), the key that the machine really answers with.
    """

    index: int
    address: str
    port: int
    hostname: str
    host_key_public: str


class WorkerHosts(Protocol):
    """Starts and ends the machines of a slice.

    `slice_name` is the node's id; in zones other than the pod's first one it is `<id>@<zone>`.
    """

    async def start(self, slice_name: str, workers: int, cores: int, chips: int | None = None) -> list[HostedWorker]:
        """Start `workers` machines with `cores` devices each, on so many chips, and return them in worker order.

        All of them or none: when it raises or is cancelled, nothing may be left running. Called again for a
        slice that was stopped, it brings the same workers back.
        """

    async def stop(self, slice_name: str) -> None:
        """End every machine of the slice and whatever runs on it; a slice that is not there is no error."""

    async def remove(self, slice_name: str) -> None:
        """End the slice's machines for good, their disks included; a slice that is not there is no error."""

    def alive(self, slice_name: str) -> list[bool]:
        """Whether each worker's machine still runs, in worker order; empty for a slice that is not there."""

    def authorize(self, slice_name: str, ssh_keys: str) -> None:
        """Authorize exactly the keys of the node's metadata `ssh-keys`."""
