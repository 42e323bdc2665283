"""One row of a check's answer."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class CheckRow:
    """What one check found. `status` is pass, warn, fail or unknown; unknown is never to be read as fine."""

    check: str
    """`slice health symptom runtime`; `tcp handshake host_key reachability` (login); `disk memory load chips device
    lockfile runs worker`; `versions code clock` (workers held against each other); `ports`; `firewall`;
    `region data` (buckets and what is in them)."""
    worker: int | None
    """The worker it was found on; None: the slice."""
    peer: int | None
    """The worker at the other end, where there is one."""
    port: int | None
    status: str
    state: str | None
    """Of a port, as nmap says it: open, closed or filtered; None when it could not be told."""
    detail: str
    remedy: str | None = None

    @property
    def hinders(self) -> bool:
        """Whether it is a reason not to launch; warnings and what is unknown are not."""
        return self.status == "fail"

    def to_json(self) -> dict[str, Any]:
        """The row as `check --json` prints it (names are stable)."""
        return asdict(self)
