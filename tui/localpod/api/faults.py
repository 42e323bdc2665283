"""How fast, how large and how faulty the service is: settable at any time, also while it serves."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from tui.localpod.api import rpc_errors

FOREVER = -1
"""As a count of answers: never stop."""


@dataclass
class ServiceFaults:
    """The knobs of the service; tests and demonstrations turn them while clients are connected."""

    operation_seconds: float = 0.5
    """How long a long-running operation takes at least, beyond what the machines themselves need."""
    latency_seconds: float = 0.0
    """Added before every answer."""
    worker_quota: int = 64
    """Workers a project may have; a request beyond it is refused at once."""
    worker_capacity: int | None = None
    """Workers that exist in a zone; beyond it operations fail and queued resources wait. None: as many as wanted."""
    unavailable: dict[str, int] = field(default_factory=dict)
    """By zone, how many more requests are answered UNAVAILABLE (`FOREVER` for all)."""
    expired_token: int = 0
    """How many more requests are answered UNAUTHENTICATED, as for an expired access token (`FOREVER` for all)."""

    _released: asyncio.Event = field(default_factory=asyncio.Event, repr=False)

    def __post_init__(self) -> None:
        self._released.set()

    def hold_operations(self) -> None:
        """Keep operations, and queued resources, in the state that they are in until they are released."""
        self._released.clear()

    def release_operations(self) -> None:
        """Let held operations go on."""
        self._released.set()

    async def operation_delay(self) -> None:
        """Wait as long as an operation takes, and as long as operations are held."""
        await asyncio.sleep(self.operation_seconds)
        await self._released.wait()

    async def delay(self) -> None:
        """Wait the latency out."""
        if self.latency_seconds > 0:
            await asyncio.sleep(self.latency_seconds)

    def check_token(self) -> None:
        """Raise UNAUTHENTICATED while the token counts as expired."""
        if self.expired_token:
            self.expired_token -= self.expired_token > 0
            raise rpc_errors.token_expired()

    def is_unavailable(self, zone: str) -> bool:
        """Whether this request to the zone is one of those that are to fail; counts it."""
        left = self.unavailable.get(zone, 0)
        if left > 0:
            self.unavailable[zone] = left - 1
        return left != 0
