"""The protocol through which the API starts, stops and reaches worker machines."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True)
class HostedWorker:
    """One running worker machine, reachable over SSH at `address:port`.

    `hostname` has the shape `t1v-n-<8 hex>-w-<index>`; `host_key_public` is one line as OpenSSH prints it
    (`ssh-ed25519 AAAA…`), the key that the machine really uses.
    """

    index: int
    address: str
    port: int
    hostname: str
    host_key_public: str

    @property
    def host_key(self) -> tuple[str, str]:
        """The type of the host key, and the key in base64."""
        kind, key, *_ = self.host_key_public.split()
        return kind, key


class WorkerHosts(Protocol):
    """Starts and ends the machines of a slice.

    `slice_name` is the node's id; in zones other than the pod's first one it is `<id>@<zone>`. A machine of Compute
    Engine is a slice of one worker, `vm@<name>@<zone>`.
    """

    exited: Callable[[str], None]
    """Called with the name of a slice after one of its machines has ended without a request."""

    async def start(
        self,
        slice_name: str,
        workers: int,
        cores: int,
        chips: int | None = None,
        startup_script: str = "",
        *,
        hostname: str = "",
    ) -> list[HostedWorker]:
        """Start `workers` machines with `cores` devices and `chips` chips each; return them in worker order.

        Each machine runs the startup script, whose end is not awaited. Start all machines or none: an error or a
        cancellation leaves nothing running. A stopped slice gets the same workers again. `hostname` is the name of a
        slice's only machine; by default, names are generated (`HostedWorker`).
        """

    async def stop(self, slice_name: str) -> None:
        """Stop every machine of the slice and all that runs on it; a slice that does not exist is not an error."""

    async def remove(self, slice_name: str) -> None:
        """Delete the slice's machines and their disks; a slice that does not exist is not an error."""

    def alive(self, slice_name: str) -> list[bool]:
        """Return whether each worker's machine runs, in worker order; empty for a slice that does not exist."""

    def authorize(self, slice_name: str, ssh_keys: str, os_login: Mapping[str, Sequence[str]] | None) -> None:
        """Authorize only the keys of the metadata `ssh-keys`, or with OS Login only those of each user name."""

    def preempt(self, slice_name: str, index: int) -> None:
        """End one worker's machine, as a preemption would."""
