"""A request for a group as the documents of the Compute Engine API v1. Pure.

Source: Compute Engine API v1, `images`, `instanceTemplates`, `resourcePolicies`, `instanceGroupManagers` and
`instanceGroupManagerResizeRequests`; "Create a MIG with multi-host TPU slice" for the workload policy.
"""

from __future__ import annotations

from typing import Any

from tui.pod.groups.group_request import FLEX_START, RESERVATION_BOUND, SPOT, GroupRequest

_CLOUD_PLATFORM = "https://www.googleapis.com/auth/cloud-platform"
_SCOPE_ROOT = "https://www.googleapis.com/auth/"
_SHORT_SCOPES = {
    "compute-ro": "compute.readonly",
    "compute-rw": "compute",
    "default": "cloud-platform",
    "logging-write": "logging.write",
    "monitoring-read": "monitoring.read",
    "monitoring-write": "monitoring.write",
    "storage-full": "devstorage.full_control",
    "storage-ro": "devstorage.read_only",
    "storage-rw": "devstorage.read_write",
}
"""gcloud's short names of scopes that differ from the scopes' own."""
_RESERVATION_KEY = "compute.googleapis.com/reservation-name"


def image_document(request: GroupRequest) -> dict[str, Any]:
    """Return the image of the source disk, which is stored in the zone's region."""
    document = {
        "name": request.image_name,
        "description": request.marker,
        "sourceDisk": request.source_disk,
        "storageLocations": [request.region],
        "labels": request.all_labels,
    }
    return {**document, **({"family": request.image_family} if request.image_family else {})}


def template_document(request: GroupRequest, project: str) -> dict[str, Any]:
    """Return the instance template of the group's VMs."""
    scopes = [*map(_scope, request.scopes)] or [_CLOUD_PLATFORM]
    properties: dict[str, Any] = {
        "machineType": request.machine,
        "disks": [_boot_disk(request, project)],
        "networkInterfaces": [_interface(request, project)],
        "serviceAccounts": [{"email": request.service_account or "default", "scopes": scopes}],
        "scheduling": scheduling_of(request),
        "labels": request.all_labels,
    }
    if request.all_metadata:
        items = [{"key": key, "value": value} for key, value in request.all_metadata.items()]
        properties["metadata"] = {"items": items}
    if request.tags:
        properties["tags"] = {"items": list(request.tags)}
    if request.reservation:
        affinity = {"consumeReservationType": "SPECIFIC_RESERVATION", "key": _RESERVATION_KEY}
        properties["reservationAffinity"] = {**affinity, "values": [request.reservation]}
    elif request.flex_start:
        properties["reservationAffinity"] = {"consumeReservationType": "NO_RESERVATION"}
    return {"name": request.template_name, "description": request.marker, "properties": properties}


def policy_document(request: GroupRequest) -> dict[str, Any]:
    """Return the workload policy that connects the VMs as one slice."""
    policy = {"type": "HIGH_THROUGHPUT", "acceleratorTopology": request.topology}
    return {"name": request.name, "description": request.marker, "workloadPolicy": policy}


def group_document(request: GroupRequest, project: str) -> dict[str, Any]:
    """Return the managed group, whose size is 0 where a resize request adds the VMs."""
    document: dict[str, Any] = {
        "name": request.name,
        "description": request.marker,
        "baseInstanceName": request.name,
        "instanceTemplate": template_path(request, project),
        "targetSize": 0 if request.has_resize_request else request.vms,
    }
    if request.is_bulk:
        document["resourcePolicies"] = {"workloadPolicy": policy_path(request, project)}
        document["targetSizePolicy"] = {"mode": "BULK"}
    if request.flex_start:
        document["instanceLifecyclePolicy"] = {"defaultActionOnFailure": "DO_NOTHING"}
    return document


def resize_request_document(request: GroupRequest) -> dict[str, Any]:
    """Return the request for all VMs of a flex-start group, which waits for capacity."""
    document: dict[str, Any] = {"name": request.name, "description": request.marker, "resizeBy": request.vms}
    if request.run_duration_s is not None:
        document["requestedRunDuration"] = {"seconds": str(request.run_duration_s)}
    return document


def policy_path(request: GroupRequest, project: str) -> str:
    """Return the full path of the group's workload policy."""
    return f"projects/{project}/regions/{request.region}/resourcePolicies/{request.name}"


def template_path(request: GroupRequest, project: str) -> str:
    """Return the full path of the group's template, which a request may give by name, path or address."""
    name = request.template_name
    if "/" not in name:
        return f"projects/{project}/global/instanceTemplates/{name}"
    return name if name.startswith(("projects/", "https://")) else f"projects/{project}/{name}"


def _boot_disk(request: GroupRequest, project: str) -> dict[str, Any]:
    collection = f"projects/{request.image_project or project}/global/images"
    image = (
        f"{collection}/{request.image_name}" if request.image_name else f"{collection}/family/{request.image_family}"
    )
    parameters: dict[str, Any] = {"sourceImage": image}
    if request.disk_size_gb is not None:
        parameters["diskSizeGb"] = str(request.disk_size_gb)
    if request.disk_type:
        parameters["diskType"] = request.disk_type
    return {
        "boot": True,
        "autoDelete": True,
        "type": "PERSISTENT",
        "mode": "READ_WRITE",
        "initializeParams": parameters,
    }


def _interface(request: GroupRequest, project: str) -> dict[str, Any]:
    interface: dict[str, Any] = {}
    if request.network or not request.subnetwork:
        interface["network"] = _full(request.network or "default", f"projects/{project}/global/networks")
    if request.subnetwork:
        interface["subnetwork"] = _full(
            request.subnetwork, f"projects/{project}/regions/{request.region}/subnetworks"
        )
    if not request.internal_ips:
        interface["accessConfigs"] = [{"name": "external-nat", "type": "ONE_TO_ONE_NAT"}]
    return interface


def _full(name: str, collection: str) -> str:
    return name if "/" in name else f"{collection}/{name}"


def _scope(scope: str) -> str:
    return scope if "://" in scope else f"{_SCOPE_ROOT}{_SHORT_SCOPES.get(scope, scope)}"


def scheduling_of(request: GroupRequest) -> dict[str, Any]:
    """Return the template's scheduling. VMs with TPUs, and those that can be taken back, are not migrated live."""
    model = request.provisioning
    scheduling: dict[str, Any] = {"provisioningModel": model, "automaticRestart": model not in (SPOT, FLEX_START)}
    if model == SPOT:
        scheduling["preemptible"] = True
    if request.is_tpu or model in (SPOT, FLEX_START, RESERVATION_BOUND):
        scheduling["onHostMaintenance"] = "TERMINATE"
    if model in (FLEX_START, RESERVATION_BOUND) or request.run_duration_s is not None:
        scheduling["instanceTerminationAction"] = "DELETE"
    if request.run_duration_s is not None:
        scheduling["maxRunDuration"] = {"seconds": str(request.run_duration_s)}
    return scheduling
