"""Resources of a project in Compute Engine other than VMs: list them, and delete one and wait until it is gone.

Source: Compute Engine API v1, the aggregated lists and the `delete` of each collection.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

from tui.cloud.compute.compute_requests import INSTANCE_ADMIN, ComputeRequests
from tui.cloud.compute.resource_rows import disk_row, image_row, policy_row, template_row
from tui.pod.resources import DISK, GROUP, IMAGE, POLICY, TEMPLATE, CloudResource, ResourceListing
from tui.settings import Settings

COLLECTIONS = {
    DISK: "disks",
    IMAGE: "images",
    GROUP: "instanceGroupManagers",
    TEMPLATE: "instanceTemplates",
    POLICY: "resourcePolicies",
}
"""The API's collections by kind."""
_PLURALS = {POLICY: "policies"}
_STORAGE_ADMIN = "roles/compute.storageAdmin"
"""Permits listing and deleting disks and images."""
_ZONE = re.compile(r".+-[a-z]")
"""A zone's name; a region's ends with a digit."""


class ComputeResources:
    """The project's disks, templates and policies in the configured zones, or in all, and its images."""

    def __init__(self, settings: Settings, *, patience: float | None = None) -> None:
        self._settings = settings
        self._patience = patience

    async def disks(self) -> ResourceListing:
        """Return the disks. Raises CloudError."""
        return await self._everywhere(DISK, lambda disk, _: disk_row(disk))

    async def templates(self) -> ResourceListing:
        """Return the instance templates. Raises CloudError."""
        return await self._everywhere(TEMPLATE, template_row)

    async def policies(self) -> ResourceListing:
        """Return the policies that shape groups: the workload policies. Raises CloudError."""
        return await self._everywhere(
            POLICY, lambda policy, _: policy_row(policy), keep=lambda policy: "workloadPolicy" in policy
        )

    async def images(self) -> ResourceListing:
        """Return the project's own images. Raises CloudError."""
        async with self._requests(IMAGE) as requests:
            images = await requests.items("images cannot be listed", "compute.images.list", "global/images")
        return ResourceListing(tuple(map(image_row, images)))

    async def delete(self, resource: CloudResource) -> AsyncIterator[str]:
        """Delete a resource and yield the progress; a resource that is already gone is not an error."""
        collection = COLLECTIONS[resource.kind]
        async with self._requests(resource.kind) as requests:
            async for line in requests.delete(
                f"{resource.kind} {resource.name}", f"compute.{collection}.delete", path_of(resource)
            ):
                yield line

    async def _everywhere(
        self,
        kind: str,
        row: Callable[[Mapping[str, Any], str], CloudResource],
        keep: Callable[[Mapping[str, Any]], bool] = lambda _: True,
    ) -> ResourceListing:
        """Return the rows of a collection in all places; `row` converts a document of the API, given the project."""
        collection = COLLECTIONS[kind]
        async with self._requests(kind) as requests:
            documents, problems = await requests.aggregated(
                _PLURALS.get(kind, f"{kind}s"), f"compute.{collection}.list", collection
            )
        rows = (row(document, requests.project) for document in documents if keep(document))
        return ResourceListing(tuple(rows), tuple(problems))

    def _requests(self, kind: str) -> ComputeRequests:
        role = _STORAGE_ADMIN if kind in (DISK, IMAGE) else INSTANCE_ADMIN
        return ComputeRequests(self._settings, role=role, patience=self._patience)


def path_of(resource: CloudResource) -> str:
    """Return a resource's path below its project."""
    zone = resource.zone
    scope = "global" if zone is None else f"{'zones' if _ZONE.fullmatch(zone) else 'regions'}/{zone}"
    return f"{scope}/{COLLECTIONS[resource.kind]}/{resource.name}"
