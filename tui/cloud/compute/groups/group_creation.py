"""Create a group and what it needs, in order: image, workload policy, template, group, resize request, VMs.

A resource that exists already and was made for the group is used, so that repeating an interrupted creation continues
it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from tui.cloud.compute.compute_requests import ComputeRequests
from tui.cloud.compute.groups.vm_wait import READ, UPDATE, VmWait
from tui.errors import NoSuchResourceError, UsageError
from tui.pod.api_paths import last_part
from tui.pod.creation.slice_request import CreationStep
from tui.pod.groups.group_documents import (
    group_document,
    image_document,
    policy_document,
    resize_request_document,
    template_document,
    template_path,
)
from tui.pod.groups.group_request import GroupRequest, group_in_marker
from tui.settings import Settings

_REQUESTS = "resizeRequests"
"""The collection whose permissions are those of its groups."""
_STOPPED = "TERMINATED"
"""The state of a VM that is stopped (Compute Engine API v1, `Instance.status`)."""


class GroupCreation:
    """Creates what a checked request names, and yields each step."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    async def prepare(self, request: GroupRequest) -> GroupRequest:
        """Return the request with the boot disk of `image_from`. Raises UsageError if there is no such VM."""
        if not request.image_from:
            return request
        async with ComputeRequests(self._settings) as api:
            vm = await self._vm(api, request)
        sources = [str(disk.get("source", "")) for disk in vm.get("disks", ()) if disk.get("boot")]
        if not sources:
            raise UsageError(request.failure, why=f"VM {request.image_from} has no boot disk")
        source = sources[0]
        return replace(request, source_disk=source[source.index("projects/") :] if "projects/" in source else source)

    async def create(
        self, request: GroupRequest, *, dry_run: bool = False, waits: bool = True
    ) -> AsyncIterator[CreationStep]:
        """Create what is missing and yield the steps; without `waits`, return once the VMs are requested.

        With `dry_run`, yield what would be sent. Raises UsageError (a name is taken, no such image …) or CloudError
        (quota, capacity, permission …); what was created by then stays, and a repetition continues.
        """
        async with ComputeRequests(self._settings) as api:
            if request.image_from and not dry_run:
                async for line in self._stop_vm(api, request):
                    yield CreationStep(line)
            project = await api.ask(request.failure, "compute.projects.get", lambda client: client.project)
            if request.template:
                await _require_template(api, request, template_path(request, project))
            for resource in _resources(request, project):
                async for step in _create(api, request, *resource, dry_run=dry_run):
                    yield step
            if waits and not dry_run:
                wait = VmWait(api, request.zone, request.name, request.name if request.has_resize_request else "")
                async for line in wait.until_running(
                    request.vms or 0, is_queued=request.waits_for_capacity, valid_for_s=request.valid_for_s
                ):
                    yield CreationStep(line)

    async def _stop_vm(self, api: ComputeRequests, request: GroupRequest) -> AsyncIterator[str]:
        """Stop the VM whose disk becomes the image, unless the image exists already or the VM is stopped."""
        name = request.image_from
        if await api.get(request.failure, "compute.images.get", f"global/images/{request.image_name}") is not None:
            return
        state = (await self._vm(api, request)).get("status")
        if state == _STOPPED:
            yield f"VM {name} is stopped already"
            return
        what, permission = f"VM {name} cannot be stopped", "compute.instances.stop"
        operation = await api.post(what, permission, f"zones/{request.zone}/instances/{name}/stop")
        yield f"requested the stop of VM {name}"
        async for line in api.finish(operation, what, permission):
            yield line
        yield f"VM {name} is stopped"

    async def _vm(self, api: ComputeRequests, request: GroupRequest) -> dict[str, Any]:
        path = f"zones/{request.zone}/instances/{request.image_from}"
        vm = await api.get(request.failure, "compute.instances.get", path)
        if vm is None:
            why = f"there is no VM {request.image_from} in {request.zone}"
            raise NoSuchResourceError(request.failure, why=why, remedy="gcloud compute instances list lists them")
        return vm


def _resources(request: GroupRequest, project: str) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Yield the collection, place and document of each resource to create, in order."""
    zone = f"zones/{request.zone}"
    if request.image_from:
        yield "images", "global", image_document(request)
    if request.is_bulk:
        yield "resourcePolicies", f"regions/{request.region}", policy_document(request)
    if not request.template:
        yield "instanceTemplates", "global", template_document(request, project)
    yield "instanceGroupManagers", zone, group_document(request, project)
    if request.has_resize_request:
        yield _REQUESTS, f"{zone}/instanceGroupManagers/{request.name}", resize_request_document(request)


async def _require_template(api: ComputeRequests, request: GroupRequest, path: str) -> None:
    """Raise UsageError if the template that the request names does not exist."""
    if await api.get(request.failure, "compute.instanceTemplates.get", path) is None:
        why = f"there is no template {last_part(path)}"
        remedy = "tpu-tui resources lists them; omit --template to make one"
        raise NoSuchResourceError(request.failure, why=why, remedy=remedy)


async def _create(
    api: ComputeRequests,
    request: GroupRequest,
    collection: str,
    place: str,
    document: Mapping[str, Any],
    *,
    dry_run: bool,
) -> AsyncIterator[CreationStep]:
    """Create a resource and wait until it exists; one that was made for the group before is used unchanged."""
    kind, name, path = _KINDS[collection], str(document["name"]), f"{place}/{collection}"
    read, change = f"compute.{collection}.get", f"compute.{collection}.create"
    if collection == _REQUESTS:
        read, change = READ, UPDATE
    described = f"{kind.noun} {name}"
    existing = await api.get(request.failure, read, f"{path}/{name}")
    if existing is not None:
        _require_same(request, kind, existing, document)
        yield CreationStep(f"{described} exists already")
        return
    if dry_run:
        yield CreationStep(f"would create {described}", request={"path": path, "document": document})
        return
    what = f"{described} cannot be created"
    operation = await api.post(what, change, path, document)
    yield CreationStep(f"requested {described}", request={"path": path, "document": document})
    async for line in api.finish(operation, what, change):
        yield CreationStep(f"{described}: {line}")
    yield CreationStep(f"{described} is created")


def _require_same(
    request: GroupRequest, kind: _Kind, existing: Mapping[str, Any], document: Mapping[str, Any]
) -> None:
    """Raise UsageError for a resource that was not made for this group, or was made with other settings."""
    why = f"{kind.noun} {document['name']} exists already"
    otherwise = kind.otherwise.format(name=document["name"], group=request.path)
    if group_in_marker(str(existing.get("description", ""))) != request.path:
        raise UsageError(request.failure, why=why, remedy=otherwise)
    if kind.compare(existing) != kind.compare(document):
        remedy = f"{otherwise}, or delete it first: {request.delete_command}"
        raise UsageError(request.failure, why=f"{why} with other settings", remedy=remedy)


def _of_template(document: Mapping[str, Any]) -> Any:
    """Return the settings of a template that the request determines, in the same form for both documents."""
    properties = document.get("properties", {})
    disk = (properties.get("disks") or [{}])[0].get("initializeParams", {})
    return (
        last_part(str(properties.get("machineType"))),
        last_part(str(disk.get("sourceImage"))),
        {item["key"]: item.get("value", "") for item in properties.get("metadata", {}).get("items", ())},
        dict(properties.get("labels", {})),
        properties.get("scheduling", {}).get("provisioningModel"),
    )


def _of_group(document: Mapping[str, Any]) -> Any:
    """Return the settings of a group that the request determines, without a size that a resize request changes."""
    is_bulk = document.get("targetSizePolicy", {}).get("mode") == "BULK"
    repairs = document.get("instanceLifecyclePolicy", {}).get("defaultActionOnFailure") != "DO_NOTHING"
    size = document.get("targetSize") if is_bulk or repairs else None
    return last_part(str(document.get("instanceTemplate"))), is_bulk, repairs, size


@dataclass(frozen=True)
class _Kind:
    """The name of a kind of resource, and what of an existing one must equal the request."""

    noun: str
    compare: Callable[[Mapping[str, Any]], Any]
    otherwise: str = "choose another name for the group"


_KINDS = {
    "images": _Kind(
        "image",
        lambda document: last_part(str(document.get("sourceDisk"))),
        "choose another --image, or use it without --image-from",
    ),
    "resourcePolicies": _Kind(
        "policy", lambda document: document.get("workloadPolicy", {}).get("acceleratorTopology")
    ),
    "instanceTemplates": _Kind(
        "template", _of_template, "use it with --template {name}, or choose another name for the group"
    ),
    "instanceGroupManagers": _Kind(
        "group", _of_group, "choose another name, or change it: tpu-tui groups resize {group} --size N"
    ),
    _REQUESTS: _Kind("resize request", lambda document: document.get("resizeBy")),
}
"""By collection."""
