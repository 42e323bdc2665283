"""How fast, how large and how faulty the service is; all of it can be set while the service runs."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from tui.localpod.api import rpc_errors

FOREVER = -1
"""As a number of requests: all of them."""


@dataclass
class ServiceFaults:
    """The settings of the service that tests and demonstrations change while clients are connected."""

    operation_seconds: float = 0.5
    """The duration of a long-running operation, in addition to what the machines themselves need."""
    latency_seconds: float = 0.0
    """Added before every answer."""
    worker_quota: int = 64
    """The number of workers that a project may have; a request for more is refused at once."""
    worker_capacity: int | None = None
    """The number of workers in a zone; beyond it, operations fail and queued resources wait. None: no limit."""
    unavailable: dict[str, int] = field(default_factory=dict)
    """By zone, the number of further requests that get UNAVAILABLE (`FOREVER` for all)."""
    expired_token: int = 0
    """The number of further requests that get UNAUTHENTICATED, as for an expired token (`FOREVER` for all)."""

    _released: asyncio.Event = field(default_factory=asyncio.Event, repr=False)

    def __post_init__(self) -> None:
        self._released.set()

    def hold_operations(self) -> None:
        """Keep operations and queued resources in their present state until they are released."""
        self._released.clear()

    def release_operations(self) -> None:
        """Let held operations continue."""
        self._released.set()

    async def operation_delay(self) -> None:
        """Wait for the duration of an operation, and while operations are held."""
        await asyncio.sleep(self.operation_seconds)
        await self._released.wait()

    async def delay(self) -> None:
        """Wait for the configured latency."""
        if self.latency_seconds > 0:
            await asyncio.sleep(self.latency_seconds)

    def check_token(self) -> None:
        """Raise UNAUTHENTICATED while the token counts as expired."""
        if self.expired_token:
            self.expired_token -= self.expired_token > 0
            raise rpc_errors.token_expired()

    def is_unavailable(self, zone: str) -> bool:
        """Return whether this request to the zone has to fail, and count it."""
        left = self.unavailable.get(zone, 0)
        if left > 0:
            self.unavailable[zone] = left - 1
        return left != 0
