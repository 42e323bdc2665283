"""The local pod's services with faults, which tests set while clients are connected."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web
from google.protobuf.duration_pb2 import Duration
from google.rpc.error_details_pb2 import RetryInfo

from tests.localpod import refusals
from tui.localpod.api import rpc_errors
from tui.localpod.api.compute.answers import ComputeError
from tui.localpod.api.compute.service import ComputeService
from tui.localpod.api.conditions import ServiceConditions
from tui.localpod.api.host_protocol import WorkerHosts
from tui.localpod.api.resources.resource_names import parse_place
from tui.localpod.api.resources.zone_offers import no_such_accelerator
from tui.localpod.api.routes import resource_of
from tui.localpod.api.server import TpuService

FOREVER = -1
"""The value of the counters below that stands for all requests."""


@dataclass
class Faults(ServiceConditions):
    """Delays, refusals and losses. Methods are named as in the Cloud TPU API; in Compute Engine, by permission."""

    latency_seconds: float = 0.0
    """Added before every answer."""
    offered_types: dict[str, frozenset[str]] = field(default_factory=dict)
    """The accelerator types of each zone that does not have all of them."""
    denied: set[str] = field(default_factory=set)
    """The permissions of Compute Engine that the caller does not have."""
    refusals: dict[str, list[rpc_errors.ApiError]] = field(default_factory=dict)
    """By method, the errors of upcoming requests: one each, before the request has any effect."""
    lost_answers: dict[str, int] = field(default_factory=dict)
    """By method, the number of upcoming requests that take effect but get UNAVAILABLE (`FOREVER` for all)."""
    operation_failures: dict[str, list[rpc_errors.ApiError]] = field(default_factory=dict)
    """By verb ("create", "delete", "start", "stop", "reset"), the errors of upcoming TPU operations, one each."""
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

    async def pause(self, seconds: float) -> None:
        """Wait, also while operations are held."""
        await super().pause(seconds)
        await self._released.wait()

    async def before_call(self, name: str, request: Any) -> None:
        """Delay a request, and refuse it if a fault is set for it."""
        if self.latency_seconds > 0:
            await asyncio.sleep(self.latency_seconds)
        if _count_down(vars(self), "expired_token"):
            raise refusals.token_expired()
        if _count_down(vars(self), "rate_limited"):
            raise self._to_retry(refusals.rate_limited(), request)
        if name in self.denied:
            raise ComputeError(403, f"Required '{name}' permission for 'projects/local'", "forbidden")
        is_http = isinstance(request, web.Request)
        if not is_http and name != "ListLocations":
            self._check_zone(name, request)
        if waiting := self.refusals.get(name):
            raise waiting.pop(0)
        token = request.query.get("pageToken") if is_http else getattr(request, "page_token", "")
        if token and _count_down(vars(self), "expired_page_tokens"):
            raise rpc_errors.invalid("the page_token has expired", "page_token")

    def after_call(self, name: str, request: Any, answer: Any) -> None:
        """Lose an answer, or remove from it what zones have if they do not answer or do not offer it."""
        if _count_down(self.lost_answers, name):
            raise self._to_retry(refusals.unavailable(), request)
        if isinstance(request, web.Request):
            if "/aggregated/" in request.path:
                self._warn_of_zones(answer)
        elif name in ("ListNodes", "ListQueuedResources") and request.parent.endswith("/-"):
            self._leave_out_zones("nodes" if name == "ListNodes" else "queued_resources", request.parent, answer)
        elif name == "ListAcceleratorTypes":
            offered = self.offered_types.get(parse_place(request.parent).zone)
            answer.accelerator_types = [
                kind for kind in answer.accelerator_types if offered is None or kind.type_ in offered
            ]

    def check_operation(self, verb: str) -> None:
        """Raise the error that is set for the next operation of this kind, if there is one."""
        if waiting := self.operation_failures.get(verb):
            raise waiting.pop(0)

    def _check_zone(self, name: str, request: Any) -> None:
        """Raise ApiError for a zone that does not answer, or that does not offer what the request wants."""
        place = parse_place(resource_of(request))
        if _count_down(self.unavailable, place.zone):
            raise self._to_retry(refusals.unavailable(), request)
        wanted = {
            "CreateNode": lambda: [request.node],
            "CreateQueuedResource": lambda: [spec.node for spec in request.queued_resource.tpu.node_spec],
        }
        for node in wanted.get(name, list)():
            if node.accelerator_type not in self.offered_types.get(place.zone, (node.accelerator_type,)):
                raise no_such_accelerator(place, node.accelerator_type)

    def _warn_of_zones(self, answer: web.Response) -> None:
        document = json.loads(answer.text or "")
        for zone in self.unavailable:
            if _count_down(self.unavailable, zone):
                warning = {"code": "UNREACHABLE", "message": f"{zone} did not answer"}
                document["items"][f"zones/{zone}"] = {"warning": warning}
        answer.text = json.dumps(document)

    def _leave_out_zones(self, field_name: str, parent: str, answer: Any) -> None:
        for zone in self.unavailable:
            if _count_down(self.unavailable, zone):
                place = f"{parent.removesuffix('-')}{zone}"
                others = [item for item in getattr(answer, field_name) if not item.name.startswith(f"{place}/")]
                setattr(answer, field_name, others)
                answer.unreachable = [*answer.unreachable, place]

    def _to_retry(self, error: rpc_errors.ApiError, request: Any) -> Exception:
        """Return the error with the delay before a retry, if there is one: as a detail, or in Compute as a header."""
        if not self.retry_after_seconds:
            return error
        if isinstance(request, web.Request):
            kind = {429: web.HTTPTooManyRequests, 503: web.HTTPServiceUnavailable}[error.http_status]
            headers = {"Retry-After": str(self.retry_after_seconds)}
            return kind(text=json.dumps(error.to_json()), content_type="application/json", headers=headers)
        delay = RetryInfo(retry_delay=Duration(seconds=self.retry_after_seconds))
        return rpc_errors.ApiError(error.code, error.message, (*error.details, delay))


class FaultyTpuService(TpuService):
    """A Cloud TPU API with faults."""

    def __init__(self, hosts: WorkerHosts, *, faults: Faults | None = None, **options: Any) -> None:
        self.faults = faults or Faults()
        super().__init__(hosts, conditions=self.faults, **options)


class FaultyComputeService(ComputeService):
    """A Compute Engine API with faults."""

    def __init__(self, hosts: WorkerHosts, *, faults: Faults | None = None, **options: Any) -> None:
        self.faults = faults or Faults()
        super().__init__(hosts, conditions=self.faults, **options)


def _count_down(counts: dict[str, Any], key: str) -> bool:
    """Return whether a count is not 0, and reduce it by 1 if it is positive."""
    remaining = counts.get(key, 0)
    if remaining > 0:
        counts[key] = remaining - 1
    return bool(remaining)
