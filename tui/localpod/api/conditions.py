"""The conditions under which a pod's services work: how long operations take, and what the pod limits."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any


@dataclass
class ServiceConditions:
    """The real conditions, under which no request fails by chance. Tests override the methods to inject faults."""

    operation_seconds: float = 0.5
    """The duration of a long-running operation, in addition to what the machines themselves need."""
    worker_quota: int = 64
    """The number of workers that a project may have; a request for more is refused at once."""
    worker_capacity: int | None = None
    """The number of workers in a zone; beyond it, operations fail and queued resources wait. None: no limit."""

    async def operation_delay(self) -> None:
        """Wait for the duration of an operation."""
        await self.pause(self.operation_seconds)

    async def pause(self, seconds: float) -> None:
        """Wait, e.g. before another attempt."""
        await asyncio.sleep(seconds)

    async def before_call(self, name: str, request: Any) -> None:
        """Raise ApiError or ComputeError to refuse a request; called before the request has any effect.

        `name` is the method in the Cloud TPU API, and the permission in the Compute Engine API.
        """

    def after_call(self, name: str, request: Any, answer: Any) -> None:
        """Change an answer, or raise ApiError to lose it; called after the request has had its effect."""

    def check_operation(self, verb: str) -> None:
        """Raise ApiError to make an operation fail; called when it begins its work."""
