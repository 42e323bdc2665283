"""Delays, quotas, capacities and faults of the service, which can be set while it runs."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from tui.localpod.api import rpc_errors

FOREVER = -1
"""The value of the counters below that stands for all requests."""


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
    reserved_capacity: int | None = None
    """The number of workers that reservations hold; beyond it, reserved nodes fail. None: no limit."""
    offered_types: dict[str, frozenset[str]] = field(default_factory=dict)
    """The accelerator types of each zone that does not have all of them."""
    refusals: dict[str, list[rpc_errors.ApiError]] = field(default_factory=dict)
    """By method, the errors of upcoming requests: one each, before the request has any effect."""
    lost_answers: dict[str, int] = field(default_factory=dict)
    """By method, the number of upcoming requests that take effect but get UNAVAILABLE (`FOREVER` for all)."""
    operation_failures: dict[str, list[rpc_errors.ApiError]] = field(default_factory=dict)
    """By verb ("create", "delete", "start", "stop", "reset"), the errors of upcoming operations, one each."""
    rate_limited: int = 0
    """The number of upcoming requests that get RESOURCE_EXHAUSTED, as above a rate limit (`FOREVER` for all)."""
    retry_after_seconds: int = 0
    """The delay before a retry that rate limits and unavailable zones suggest to clients; 0: none."""
    unavailable: dict[str, int] = field(default_factory=dict)
    """By zone, the number of upcoming requests that get UNAVAILABLE (`FOREVER` for all)."""
    expired_page_tokens: int = 0
    """The number of upcoming requests whose page token counts as expired (`FOREVER` for all)."""
    expired_token: int = 0
    """The number of upcoming requests that get UNAUTHENTICATED, as for an expired token (`FOREVER` for all)."""

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
        await self.pause(self.operation_seconds)

    async def pause(self, seconds: float) -> None:
        """Wait before another attempt, and while operations are held."""
        await asyncio.sleep(seconds)
        await self._released.wait()

    async def delay(self) -> None:
        """Wait for the configured latency."""
        if self.latency_seconds > 0:
            await asyncio.sleep(self.latency_seconds)

    def check_rate(self) -> None:
        """Raise RESOURCE_EXHAUSTED while the rate limit counts as exceeded."""
        if self.rate_limited:
            self.rate_limited -= self.rate_limited > 0
            raise rpc_errors.rate_limited(self.retry_after_seconds)

    def check_refusals(self, method: str) -> None:
        """Raise the error that is set for the method's next request, if there is one."""
        if waiting := self.refusals.get(method):
            raise waiting.pop(0)

    def check_operation(self, verb: str) -> None:
        """Raise the error that is set for the next operation of this kind, if there is one."""
        if waiting := self.operation_failures.get(verb):
            raise waiting.pop(0)

    def loses_answer(self, method: str) -> bool:
        """Return whether the answer to this request is lost, and count the request."""
        return _count_down(self.lost_answers, method)

    def offers(self, zone: str, accelerator_type: str) -> bool:
        """Return whether the zone has the accelerator type."""
        return accelerator_type in self.offered_types.get(zone, (accelerator_type,))

    def check_token(self) -> None:
        """Raise UNAUTHENTICATED while the token counts as expired."""
        if self.expired_token:
            self.expired_token -= self.expired_token > 0
            raise rpc_errors.token_expired()

    def check_page_token(self, token: str) -> None:
        """Raise INVALID_ARGUMENT for a page token that counts as expired."""
        if token and self.expired_page_tokens:
            self.expired_page_tokens -= self.expired_page_tokens > 0
            raise rpc_errors.invalid("the page_token has expired", "page_token")

    def is_unavailable(self, zone: str) -> bool:
        """Return whether the zone does not answer this request, and count the request."""
        return _count_down(self.unavailable, zone)


def _count_down(counts: dict[str, int], key: str) -> bool:
    """Return whether a count is not 0, and reduce it by 1 if it is positive."""
    remaining = counts.get(key, 0)
    if remaining > 0:
        counts[key] = remaining - 1
    return remaining != 0
