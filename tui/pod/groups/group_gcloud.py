"""The gcloud commands that create, resize and delete the same group as a request. Pure.

Flex-start templates need `gcloud beta`, and bulk groups `gcloud alpha` (gcloud 528).
"""

from __future__ import annotations

from collections.abc import Iterator

from tui.pod.api_paths import last_part
from tui.pod.creation.gcloud_commands import Option, gcloud_command, join_items, join_pairs
from tui.pod.groups.group_documents import policy_path, scheduling_of
from tui.pod.groups.group_request import GroupRequest
from tui.pod.resources import GROUP, IMAGE, POLICY, TEMPLATE, CloudResource

_COLLECTIONS = {
    GROUP: "instance-groups managed",
    TEMPLATE: "instance-templates",
    IMAGE: "images",
    POLICY: "resource-policies",
}
"""gcloud's names of the collections."""


def create_group_commands(request: GroupRequest, project: str) -> Iterator[str]:
    """Yield the equivalent gcloud commands in their order, quoted for a shell."""
    name, place = request.name, _place(project, request.zone)
    if request.image_from:
        yield gcloud_command("instances stop", request.image_from, place)
        yield gcloud_command("images create", request.image_name, _image_options(request, project))
    if request.is_bulk:
        yield gcloud_command("resource-policies create workload-policy", name, _policy_options(request, project))
    if not request.template:
        options = [*_template_options(request, project), *_scheduling_options(request)]
        track = "beta" if request.flex_start else ""
        yield gcloud_command("instance-templates create", request.template_name, options, track)
    track = "alpha" if request.is_bulk else ""
    yield gcloud_command("instance-groups managed create", name, [*place, *_group_options(request, project)], track)
    if request.has_resize_request:
        options = [*place, ("resize-request", name), ("resize-by", str(request.vms))]
        if request.run_duration_s is not None:
            options.append(("requested-run-duration", f"{request.run_duration_s}s"))
        yield gcloud_command("instance-groups managed resize-requests create", name, options)


def resize_group_command(name: str, zone: str, project: str, size: int) -> str:
    """Return the equivalent gcloud command."""
    return gcloud_command("instance-groups managed resize", name, [*_place(project, zone), ("size", str(size))])


def delete_command_of_gcloud(resource: CloudResource, project: str) -> str:
    """Return the gcloud command that deletes a group, or what it is made of."""
    options: list[Option] = [("project", project)]
    if resource.zone:
        options.append(("zone" if resource.kind == GROUP else "region", resource.zone))
    return gcloud_command(f"{_COLLECTIONS[resource.kind]} delete", resource.name, options)


def _place(project: str, zone: str) -> list[Option]:
    return [("project", project), ("zone", zone)]


def _image_options(request: GroupRequest, project: str) -> list[Option]:
    texts = {
        "project": project,
        "source-disk": last_part(request.source_disk) or request.image_from,
        "source-disk-zone": request.zone,
        "family": request.image_family,
        "storage-location": request.region,
        "description": request.marker,
        "labels": join_pairs(request.all_labels),
    }
    return [(name, value) for name, value in texts.items() if value]


def _policy_options(request: GroupRequest, project: str) -> list[Option]:
    return [
        ("project", project),
        ("region", request.region),
        ("type", "HIGH_THROUGHPUT"),
        ("accelerator-topology", request.topology),
        ("description", request.marker),
    ]


def _template_options(request: GroupRequest, project: str) -> Iterator[Option]:
    plain = {key: value for key, value in request.all_metadata.items() if key not in request.metadata_files}
    texts = {
        "project": project,
        "machine-type": request.machine,
        "image-project": request.image_project or project,
        "image": request.image_name,
        "image-family": "" if request.image_name else request.image_family,
        "boot-disk-size": "" if request.disk_size_gb is None else f"{request.disk_size_gb}GB",
        "boot-disk-type": request.disk_type,
        "network": request.network,
        "subnet": request.subnetwork,
        "region": request.region if request.subnetwork else "",
        "service-account": request.service_account,
        "scopes": join_items(request.scopes) or "cloud-platform",
        "tags": join_items(request.tags),
        "labels": join_pairs(request.all_labels),
        "metadata": join_pairs(plain),
        "metadata-from-file": join_pairs(request.metadata_files),
        "description": request.marker,
    }
    yield from ((name, value) for name, value in texts.items() if value)
    if request.internal_ips:
        yield "no-address", None


def _scheduling_options(request: GroupRequest) -> Iterator[Option]:
    scheduling = scheduling_of(request)
    yield "provisioning-model", scheduling["provisioningModel"]
    if "onHostMaintenance" in scheduling:
        yield "maintenance-policy", scheduling["onHostMaintenance"]
    if not scheduling["automaticRestart"]:
        yield "no-restart-on-failure", None
    if "instanceTerminationAction" in scheduling:
        yield "instance-termination-action", scheduling["instanceTerminationAction"]
    if request.run_duration_s is not None:
        yield "max-run-duration", f"{request.run_duration_s}s"
    if request.reservation:
        yield "reservation-affinity", "specific"
        yield "reservation", request.reservation
    elif request.flex_start:
        yield "reservation-affinity", "none"


def _group_options(request: GroupRequest, project: str) -> Iterator[Option]:
    yield "size", "0" if request.has_resize_request else str(request.vms)
    yield "template", request.template_name
    yield "description", request.marker
    if request.is_bulk:
        yield "workload-policy", policy_path(request, project)
        yield "target-size-policy-mode", "bulk"
    if request.flex_start:
        yield "default-action-on-vm-failure", "do-nothing"
