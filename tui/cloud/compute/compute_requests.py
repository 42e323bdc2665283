"""Requests to the Compute Engine API from asynchronous code, and the wait for their operations.

Every change has a request ID: a repetition after a lost answer returns the operation of the first request (Compute
Engine API v1, `requestId`).
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import time
import uuid
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any, TypeVar

from tui.cloud.api_errors import did_not_answer, is_missing
from tui.cloud.compute.compute_client import ComputeClient
from tui.cloud.compute.operation_errors import explain_failure
from tui.cloud.retries import GONE_TIMEOUT_S
from tui.cloud.state_reports import StateReports
from tui.errors import CloudError, NoSuchResourceError, TpuTuiError
from tui.pod.api_paths import last_part, region_of
from tui.settings import Settings

Answer = TypeVar("Answer")

INSTANCE_ADMIN = "roles/compute.instanceAdmin.v1"
"""Permits listing, creating and deleting VMs, groups, templates, policies, disks and images."""
_GLOBAL = "global"
_NOT_READY = "resourceNotReady"
"""The reason of a refusal while another operation on the same resource is in progress."""


class ComputeRequests:
    """Sends requests in threads, several at a time; `close`, or leaving the context, closes the sessions.

    Errors of requests are CloudError or UsageError, which name `role` where a permission is missing.
    """

    def __init__(self, settings: Settings, *, role: str = INSTANCE_ADMIN, patience: float | None = None) -> None:
        self._settings = settings
        self._role = role
        self._patience = patience
        self._idle: list[ComputeClient] = []
        self._is_closed = False
        self.project = settings.project or ""
        """Known after the first request."""

    async def __aenter__(self) -> ComputeRequests:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the sessions; that of a cancelled request is closed when its thread ends."""
        self._is_closed = True
        self._close_idle()

    def _close_idle(self) -> None:
        with contextlib.suppress(IndexError):  # other threads take and return sessions at the same time
            while True:
                self._idle.pop().close()

    async def ask(self, what: str, permission: str, call: Callable[[ComputeClient], Answer]) -> Answer:
        """Make requests with a client, in a thread; `what` is the sentence of an error."""
        return await asyncio.to_thread(self._call, what, permission, call)

    async def get(self, what: str, permission: str, path: str) -> dict[str, Any] | None:
        """Return the resource at `path`, None if it does not exist.

        The path is one below the project, or a full path or address, which may be of another project.
        """
        _, is_full, full = path.partition("projects/")
        try:
            return await self.ask(
                what, permission, lambda client: client.get(full if is_full else f"{client.project}/{path}")
            )
        except TpuTuiError as error:
            if is_missing(error):
                return None
            raise

    async def items(self, what: str, permission: str, path: str, **query: str) -> list[dict[str, Any]]:
        """Return the items of a list below the project."""
        return await self.ask(what, permission, lambda client: client.items(f"{client.project}/{path}", **query))

    async def aggregated(
        self, things: str, permission: str, collection: str, **query: str
    ) -> tuple[list[dict[str, Any]], list[CloudError]]:
        """Return a collection's resources in the configured zones and their regions, or in all places.

        The second list has an error for each place that did not answer; `things` names the resources in errors.
        """
        pages = await self.ask(
            f"{things} cannot be listed",
            permission,
            lambda client: client.pages(
                f"{client.project}/aggregated/{collection}", returnPartialSuccess="true", **query
            ),
        )
        scopes = [(last_part(place), scope) for page in pages for place, scope in page.get("items", {}).items()]
        resources = [row for place, scope in scopes if self._covers(place) for row in scope.get(collection, ())]
        silent = {place for place, scope in scopes if scope.get("warning", {}).get("code") == "UNREACHABLE"}
        silent.update(last_part(place) for page in pages for place in page.get("unreachables", ()))
        return resources, [did_not_answer(things, place) for place in sorted(silent) if self._covers(place)]

    def _covers(self, place: str) -> bool:
        """Return whether the settings name a zone, or a zone of a region; global resources are always covered."""
        zones = self._settings.zones
        return not zones or place == _GLOBAL or any(place in (zone, region_of(zone)) for zone in zones)

    async def post(
        self, what: str, permission: str, path: str, body: Mapping[str, Any] | None = None, **query: str
    ) -> dict[str, Any]:
        """Create a resource or call a method that changes one; return the operation."""
        query["requestId"] = str(uuid.uuid4())
        return await self.ask(what, permission, lambda client: client.post(f"{client.project}/{path}", body, **query))

    async def finish(
        self, operation: Mapping[str, Any], what: str, permission: str, timeout_s: float = math.inf
    ) -> AsyncIterator[str]:
        """Poll an operation of a zone, a region or the project until it is done; yield its state while it lasts.

        Raises the operation's error as a sentence, and CloudError after `timeout_s`.
        """
        reports, deadline = StateReports(), time.monotonic() + timeout_s
        reports.report(str(operation.get("status")))
        path = _path_of(operation)
        while operation.get("status") != "DONE":
            if time.monotonic() > deadline:
                raise CloudError(what, why="the operation does not end", remedy="try again later")
            await reports.pause()
            try:
                operation = await self.ask(what, permission, lambda client: client.get(f"{client.project}/{path}"))
                line = None if operation.get("status") == "DONE" else reports.report(str(operation.get("status")))
            except TpuTuiError as error:
                if not is_outage(error):
                    raise
                line = reports.report_outage("Compute Engine", error)
            if line:
                yield line
        if errors := operation.get("error", {}).get("errors"):
            raise explain_failure(errors[0], what, self.project)

    async def delete(self, described: str, permission: str, path: str) -> AsyncIterator[str]:
        """Delete the resource at `path` and yield the progress; a resource that is already gone is not an error.

        While another operation changes or deletes the resource, the request is repeated. Raises CloudError after
        `GONE_TIMEOUT_S`.
        """
        what, reports, deadline = f"{described} cannot be deleted", StateReports(), time.monotonic() + GONE_TIMEOUT_S

        def send(client: ComputeClient) -> dict[str, Any]:
            return client.delete(f"{client.project}/{path}", requestId=str(uuid.uuid4()))

        while True:
            try:
                operation = await self.ask(what, permission, send)
                break
            except TpuTuiError as error:
                if is_missing(error):
                    yield f"{described} is gone already"
                    return
                if not _is_busy(error) or time.monotonic() > deadline:
                    raise
            if line := reports.report(f"{described} is busy with another operation"):
                yield line
            await reports.pause()
        yield f"requested the deletion of {described}"
        try:
            async for line in self.finish(operation, what, permission, GONE_TIMEOUT_S):
                yield f"{described}: {line}"
        except NoSuchResourceError:
            pass  # another deletion was faster
        yield f"{described} is deleted"

    def _call(self, what: str, permission: str, call: Callable[[ComputeClient], Answer]) -> Answer:
        try:
            client = self._idle.pop()
        except IndexError:
            client = ComputeClient(self._settings, patience=self._patience)
        self.project = client.project
        try:
            return client.ask(what, lambda: call(client), role=self._role, permission=permission)
        finally:
            self._idle.append(client)
            if self._is_closed:
                self._close_idle()


def _path_of(operation: Mapping[str, Any]) -> str:
    """Return the path of an operation below its project."""
    for scope in ("zone", "region"):
        if scope in operation:
            return f"{scope}s/{last_part(operation[scope])}/operations/{operation['name']}"
    return f"global/operations/{operation['name']}"


def is_outage(error: TpuTuiError) -> bool:
    """Return whether a request had no answer or the service was unavailable, so that a later one may succeed."""
    from google.api_core.exceptions import ServerError, TooManyRequests
    from requests.exceptions import RequestException

    return isinstance(error.__cause__, RequestException | ServerError | TooManyRequests)


def _is_busy(error: TpuTuiError) -> bool:
    """Return whether a request was refused because another operation on the same resource is in progress."""
    reasons = (detail.get("reason") for detail in getattr(error.__cause__, "errors", ()) if isinstance(detail, dict))
    return _NOT_READY in reasons
