"""The gcloud commands that create, resize and delete the same group as a request. Pure.

Flex-start templates need `gcloud beta`, and bulk groups `gcloud alpha` (gcloud 528).
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from tui.pod.api_paths import last_part
from tui.pod.creation.gcloud_commands import join_items, join_pairs
from tui.pod.groups.group_request import FLEX_START, RESERVATION_BOUND, SPOT, GroupRequest
from tui.pod.resources import GROUP, IMAGE, POLICY, TEMPLATE, CloudResource

Option = tuple[str, str | None]
"""An option's name and its value; None for a flag."""
_COLLECTIONS = {
    GROUP: "instance-groups managed",
    TEMPLATE: "instance-templates",
    IMAGE: "images",
    POLICY: "resource-policies",
}
"""gcloud's names of the collections."""


def create_group_commands(request: GroupRequest, project: str) -> list[str]:
    """Return the equivalent gcloud commands in their order, quoted for a shell."""
    commands: list[str] = []
    if request.image_from:
        zone = ("zone", request.zone)
        commands.append(_command("instances stop", request.image_from, [("project", project), zone]))
        commands.append(_command("images create", request.image_name, _image_options(request, project)))
    if request.is_bulk:
        commands.append(
            _command("resource-policies create workload-policy", request.name, _policy_options(request, project))
        )
    if not request.template:
        track = "beta " if request.flex_start else ""
        texts = _template_options(request, project)
        commands.append(_command("instance-templates create", request.template_name, texts, track))
    track = "alpha " if request.is_bulk else ""
    commands.append(_command("instance-groups managed create", request.name, _group_options(request, project), track))
    if request.has_resize_request:
        options: list[Option] = [
            *_place(request, project),
            ("resize-request", request.name),
            ("resize-by", str(request.vms)),
        ]
        if request.run_duration_s is not None:
            options.append(("requested-run-duration", f"{request.run_duration_s}s"))
        commands.append(_command("instance-groups managed resize-requests create", request.name, options))
    return commands


def resize_group_command(name: str, zone: str, project: str, size: int) -> str:
    """Return the equivalent gcloud command."""
    options: list[Option] = [("project", project), ("zone", zone), ("size", str(size))]
    return _command("instance-groups managed resize", name, options)


def delete_command_of_gcloud(resource: CloudResource, project: str) -> str:
    """Return the gcloud command that deletes a group, or what it is made of."""
    options: list[Option] = [("project", project)]
    if resource.zone:
        options.append(("zone" if resource.kind == GROUP else "region", resource.zone))
    return _command(f"{_COLLECTIONS[resource.kind]} delete", resource.name, options)


def _command(verb: str, name: str, options: list[Option], track: str = "") -> str:
    arguments = [f"--{option}" if value is None else f"--{option}={value}" for option, value in options]
    return shlex.join([*f"gcloud {track}compute {verb}".split(), name, *arguments])


def _place(request: GroupRequest, project: str) -> list[Option]:
    return [("project", project), ("zone", request.zone)]


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


def _template_options(request: GroupRequest, project: str) -> list[Option]:
    return [*_template_texts(request, project), *_scheduling_options(request)]


def _template_texts(request: GroupRequest, project: str) -> Iterator[Option]:
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
    model = request.provisioning
    yield "provisioning-model", model
    if request.is_tpu or model in (SPOT, FLEX_START, RESERVATION_BOUND):
        yield "maintenance-policy", "TERMINATE"
    if model in (SPOT, FLEX_START):
        yield "no-restart-on-failure", None
    if model in (FLEX_START, RESERVATION_BOUND) or request.run_duration_s is not None:
        yield "instance-termination-action", "DELETE"
    if request.run_duration_s is not None:
        yield "max-run-duration", f"{request.run_duration_s}s"
    if request.reservation:
        yield "reservation-affinity", "specific"
        yield "reservation", request.reservation
    elif request.flex_start:
        yield "reservation-affinity", "none"


def _group_options(request: GroupRequest, project: str) -> list[Option]:
    options = _place(request, project)
    options.append(("size", "0" if request.has_resize_request else str(request.vms)))
    options.append(("template", request.template_name))
    options.append(("description", request.marker))
    if request.is_bulk:
        policy = f"projects/{project}/regions/{request.region}/resourcePolicies/{request.name}"
        options += [("workload-policy", policy), ("target-size-policy-mode", "bulk")]
    if request.flex_start:
        options.append(("default-action-on-vm-failure", "do-nothing"))
    return options
