"""Disks and images of a project: list them, and delete one and wait until it is gone.

Source: Compute Engine API v1, disks, regionDisks, images and their operations.
"""

from __future__ import annotations

import asyncio
import re
import time
import uuid
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from dataclasses import replace
from datetime import timezone
from typing import Any, TypeVar

from tui.cloud.api_errors import is_missing
from tui.cloud.compute.compute_client import ComputeClient
from tui.errors import CloudError, TpuTuiError
from tui.pod.resources import DISK, IMAGE, CloudResource, is_made_by_us
from tui.settings import Settings
from tui.text.numbers import parse_integer
from tui.text.timestamps import parse_time

Answer = TypeVar("Answer")

ROLE = "roles/compute.storageAdmin"
"""Permits listing and deleting both."""
GONE_TIMEOUT_S = 600.0
"""How long a deletion may take."""
_POLL_S = 0.5
_STATES_WITHOUT_COST = ("FAILED", "DELETING")
_BYTES_PER_GB = 1e9
_ZONE = re.compile(r".+-[a-z]")
"""A zone's name; a region's ends with a digit."""
_TENANT_MACHINE = "t1v-n-"
"""Begins the names of the machines of TPU VMs, which the slice stands for."""


class DisksAndImages:
    """The project's disks in the configured zones, or in all, and its images."""

    def __init__(self, settings: Settings, *, patience: float | None = None) -> None:
        self._settings = settings
        self._patience = patience

    async def disks(self) -> tuple[list[CloudResource], list[CloudError]]:
        """Return the disks, and an error for each place that did not answer. Raises CloudError."""
        pages = await self._ask(
            "disks cannot be listed",
            "compute.disks.list",
            lambda client: client.pages(f"{client.project}/aggregated/disks", returnPartialSuccess="true"),
        )
        scopes = [(place, scope) for page in pages for place, scope in page.get("items", {}).items()]
        rows = [disk_row(one) for _, scope in scopes for one in scope.get("disks", ())]
        silent = {place for place, scope in scopes if scope.get("warning", {}).get("code") == "UNREACHABLE"}
        silent.update(place for page in pages for place in page.get("unreachables", ()))
        problems = [_did_not_answer(place) for place in sorted(silent) if self._covers(_last(place))]
        return [row for row in rows if self._covers(row.zone or "")], problems

    async def images(self) -> list[CloudResource]:
        """Return the project's own images. Raises CloudError."""
        return await self._ask(
            "images cannot be listed",
            "compute.images.list",
            lambda client: [image_row(one) for one in client.items(f"{client.project}/global/images")],
        )

    async def delete(self, resource: CloudResource) -> AsyncIterator[str]:
        """Delete a disk or an image and yield the progress; one that is gone already is no error."""
        described = f"{resource.kind} {resource.name}"
        what = f"{described} cannot be deleted"
        place, path = _paths(resource)
        request_id = str(uuid.uuid4())
        permission = f"compute.{resource.kind}s.delete"
        try:
            operation = await self._ask(
                what, permission, lambda client: client.delete(f"{client.project}/{path}", requestId=request_id)
            )
        except TpuTuiError as error:
            if not is_missing(error):
                raise
            yield f"{described} is gone already"
            return
        yield f"requested the deletion of {described}"
        end = time.monotonic() + GONE_TIMEOUT_S
        name = operation["name"]
        while operation.get("status") != "DONE":
            if time.monotonic() > end:
                raise CloudError(what, why="the operation does not end", remedy="try again later")
            await asyncio.sleep(_POLL_S)
            operation = await self._ask(
                what, permission, lambda client: client.get(f"{client.project}/{place}/operations/{name}")
            )
        if errors := operation.get("error", {}).get("errors"):
            raise CloudError(what, why=str(errors[0].get("message", errors[0])).rstrip("."))
        yield f"{described} is deleted"

    async def _ask(self, what: str, permission: str, call: Callable[[ComputeClient], Answer]) -> Answer:
        return await asyncio.to_thread(self._call, what, permission, call)

    def _call(self, what: str, permission: str, call: Callable[[ComputeClient], Answer]) -> Answer:
        from google.api_core.exceptions import GoogleAPIError
        from google.auth.exceptions import GoogleAuthError
        from requests.exceptions import RequestException

        with ComputeClient(self._settings, patience=self._patience) as client:
            began = time.monotonic()
            try:
                return call(client)
            except (GoogleAPIError, GoogleAuthError, RequestException) as error:
                tried = time.monotonic() - began
                raise client.explain(error, what, role=ROLE, permission=permission, tried_s=tried) from error

    def _covers(self, place: str) -> bool:
        """Return whether the settings name a zone, or a zone of a region."""
        zones = self._settings.zones
        return not zones or any(place in (zone, zone.rpartition("-")[0]) for zone in zones)


def disk_row(disk: Mapping[str, Any]) -> CloudResource:
    """Convert a disk of the API; its users are the machines that it is attached to."""
    users = sorted({_last(user) for user in disk.get("users", ())})
    return _row(
        DISK,
        disk,
        zone=_last(disk.get("zone") or disk.get("region") or "") or None,
        used_by=tuple(users),
        size_gb=_number(disk.get("sizeGb")),
    )


def image_row(image: Mapping[str, Any]) -> CloudResource:
    """Convert an image of the API; it is charged by its archive's size."""
    stored = _number(image.get("archiveSizeBytes"))
    return _row(IMAGE, image, size_gb=None if stored is None else stored / _BYTES_PER_GB)


def _row(kind: str, found: Mapping[str, Any], **more: Any) -> CloudResource:
    labels, state = found.get("labels", {}), found.get("status")
    return CloudResource(
        kind,
        found["name"],
        state=state,
        created=_time(found.get("creationTimestamp")),
        labels=labels,
        made_by_us=is_made_by_us(labels, found.get("description", "")),
        cost_relevant=None if state is None else state not in _STATES_WITHOUT_COST,
        **more,
    )


def attach_slices(
    disks: Iterable[CloudResource], users: Mapping[str, Iterable[str]], *, slices_known: bool
) -> list[CloudResource]:
    """Return the disks with the slices and queued resources that name them; `users` is by `zone/name`.

    Unless all slices are known, a disk without a user may have one.
    """
    found = [replace(disk, used_by=_users(disk, sorted(set(users.get(disk.path, ()))))) for disk in disks]
    return [disk if disk.used_by or slices_known else replace(disk, used_by=None) for disk in found]


def _users(disk: CloudResource, slices: list[str]) -> tuple[str, ...]:
    machines = [user for user in disk.used_by or () if not (slices and user.startswith(_TENANT_MACHINE))]
    return (*slices, *(machine for machine in machines if machine not in slices))


def _paths(resource: CloudResource) -> tuple[str, str]:
    """Return the place of a resource's operations, and the resource's own path."""
    if resource.kind == IMAGE:
        return "global", f"global/images/{resource.name}"
    zone = resource.zone or ""
    place = f"{'zones' if _ZONE.fullmatch(zone) else 'regions'}/{zone}"
    return place, f"{place}/disks/{resource.name}"


def _last(path: str) -> str:
    return path.rpartition("/")[2]


def _number(text: Any) -> float | None:
    """Return an integer of the API, which it writes as text."""
    number = parse_integer(str(text))
    return None if number is None else float(number)


def _time(text: Any) -> str | None:
    """Convert a time to RFC 3339 in UTC, to the second."""
    moment = parse_time(text if isinstance(text, str) else None)
    return moment.astimezone(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ") if moment else None


def _did_not_answer(place: str) -> CloudError:
    return CloudError(f"disks in {_last(place)} cannot be listed", why="the zone did not answer", remedy="try again")
