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
    reserved_capacity: int | None = None
    """The number of workers that reservations hold; beyond it, reserved nodes fail. None: no limit."""
    offered_types: dict[str, frozenset[str]] = field(default_factory=dict)
    """The accelerator types of a zone that has not all of them."""
    refusals: dict[str, list[rpc_errors.ApiError]] = field(default_factory=dict)
    """By method, the errors that its further requests get, one each, before anything is done."""
    lost_answers: dict[str, int] = field(default_factory=dict)
    """By method, the number of further requests that are carried out and whose answer is UNAVAILABLE all the same."""
    operation_failures: dict[str, list[rpc_errors.ApiError]] = field(default_factory=dict)
    """By verb ("create", "delete", "start", "stop", "reset"), the errors with which the next operations end."""
    rate_limited: int = 0
    """The number of further requests that get RESOURCE_EXHAUSTED, as above a rate limit (`FOREVER` for all)."""
    retry_after_seconds: int = 0
    """The wait that rate limits and unavailable zones ask for; 0: they name none."""
    unavailable: dict[str, int] = field(default_factory=dict)
    """By zone, the number of further requests that get UNAVAILABLE (`FOREVER` for all)."""
    expired_page_tokens: int = 0
    """The number of further requests whose page token has expired (`FOREVER` for all)."""
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
        """Raise the next error that the method's requests have to get."""
        if waiting := self.refusals.get(method):
            raise waiting.pop(0)

    def check_operation(self, verb: str) -> None:
        """Raise the next error with which an operation has to fail."""
        if waiting := self.operation_failures.get(verb):
            raise waiting.pop(0)

    def loses_answer(self, method: str) -> bool:
        """Return whether this answer has to be lost, and count it."""
        remaining = self.lost_answers.get(method, 0)
        if remaining > 0:
            self.lost_answers[method] = remaining - 1
        return remaining != 0

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
        """Return whether this request to the zone has to fail, and count it."""
        remaining = self.unavailable.get(zone, 0)
        if remaining > 0:
            self.unavailable[zone] = remaining - 1
        return remaining != 0
