"""Checks of a request for a group before anything is sent: one sentence for each refused combination. Pure.

Sources: gcloud's `instance-templates create` and `instance-groups managed create`; Compute Engine documentation,
"About bulk mode" (all at once, no resize requests), "About resize requests in a MIG" (10 minutes to 7 days), "TPU
instances in MIGs".
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from tui.errors import UsageError
from tui.pod.accelerator import chips_of_topology
from tui.pod.creation.machine_checks import Objection, list_machine_objections, options_of
from tui.pod.creation.slice_names import NAME_RULE, suggest_name
from tui.pod.groups.group_request import MACHINE_TYPES, GroupRequest
from tui.pod.instance_group import chips_of_machine
from tui.text.durations import format_duration

MAX_SIZE = 1000
"""VMs of a zonal group (Compute Engine documentation, "Limitations" of managed instance groups)."""
MIN_RUN_S, MAX_RUN_S = 600, 7 * 86_400
"""How long flex-start VMs may run."""
_OF_TEMPLATE = {
    **options_of("machine_type", "accelerator_type", "image", "image_family", "image_project", "image_from"),
    "disk_size_gb": "--boot-disk-size",
    "disk_type": "--boot-disk-type",
    **options_of("network", "subnetwork", "internal_ips", "service_account", "scopes", "tags", "labels", "metadata"),
    **options_of("tpu_node", "spot", "reservation"),
}
"""The options of a new template, by their fields of `GroupRequest`."""


def check_group_request(request: GroupRequest) -> None:
    """Raise UsageError with the first reason for which a request cannot be sent."""
    checks = (_to_name, _to_template, _to_image, _to_accelerator, _to_size, _to_price, list_machine_objections)
    for _, why, remedy in chain.from_iterable(check(request) for check in checks):
        raise UsageError(request.failure, why=why, remedy=remedy)


def _to_name(request: GroupRequest) -> Iterator[Objection]:
    if remedy := suggest_name(request.name, "tpu-tui groups create NAME …"):
        yield "name", NAME_RULE, remedy
    image = request.image_name if request.image_from else ""
    if image and (remedy := suggest_name(image, "choose another --image")):
        yield "image", f"{image} cannot be the name of an image: {NAME_RULE}", remedy


def _to_template(request: GroupRequest) -> Iterator[Objection]:
    if request.template:
        for field, option in _OF_TEMPLATE.items():
            if getattr(request, field):
                yield "template", f"{option} is for a new template, and --template names one", "give one of them"
    elif not (request.machine or request.accelerator_type):
        yield (
            "machine-type",
            "no machine type was given",
            "add --machine-type TYPE, e.g. n1-standard-16 or ct6e-standard-4t, or --template NAME",
        )


def _to_image(request: GroupRequest) -> Iterator[Objection]:
    if request.template:
        return
    if request.image_from and request.image_project:
        yield "image-project", "--image-from makes the image in your own project", "omit --image-project"
    if request.image and request.image_family and not request.image_from:
        yield "image", "--image and --image-family were both given", "give one of them"
    if not (request.image or request.image_family or request.image_from):
        yield (
            "image",
            "no image was given",
            "add --image NAME or --image-family FAMILY (with --image-project for a public one), "
            "or --image-from VM for the disk of a prepared VM",
        )


def _to_accelerator(request: GroupRequest) -> Iterator[Objection]:
    generation, kind = request.accelerator_type.partition("-")[0], request.accelerator
    if request.accelerator_type and request.machine_type:
        yield "accelerator-type", "--accelerator-type and --machine-type were both given", "give one of them"
    elif request.accelerator_type and generation not in MACHINE_TYPES:
        yield (
            "accelerator-type",
            f"Compute Engine has no machine type for {request.accelerator_type}",
            f"use one of {', '.join(MACHINE_TYPES)}; tpu-tui slices create has the older ones",
        )
    elif kind is not None and request.topology and chips_of_topology(request.topology) != kind.chips:
        yield (
            "topology",
            f"{request.accelerator_type} has {kind.chips} chips, but {request.topology} does not",
            f"omit --topology, or give --accelerator-type {generation}",
        )
    elif kind is not None and not request.topology and kind.workers > 1:
        yield (
            "topology",
            f"{request.accelerator_type} has {kind.workers} VMs, and how they are connected is not known",
            "add --topology, e.g. 4x4 for v6e-16 or 2x2x4 for tpu7x-32",
        )
    if request.topology and chips_of_topology(request.topology) is None:
        yield "topology", f"{request.topology} is not a topology", "give chips per side, e.g. 4x4 or 2x2x4"
    elif request.topology and not (request.is_tpu or request.template):
        remedy = f"use --machine-type {', '.join(MACHINE_TYPES.values())}, or omit --topology"
        yield "topology", f"{request.machine or 'the VMs'} have no TPU chips to connect", remedy
    elif request.topology and request.is_tpu and request.needed_vms is None:
        chips = chips_of_machine(request.machine)
        yield (
            "topology",
            f"{request.topology} is not a multiple of the {chips} chips of a {request.machine}",
            "use another topology",
        )
    if request.tpu_node and request.is_tpu:
        yield "tpu-node", f"a {request.machine} has TPU chips itself", "omit --tpu-node"


def _to_size(request: GroupRequest) -> Iterator[Objection]:
    needed = request.needed_vms
    if request.vms is None:
        yield "size", "no size was given", "add --size N"
    elif not 0 < request.vms <= MAX_SIZE:
        yield "size", f"--size is {request.vms}", f"a group has 1 to {MAX_SIZE:,} VMs"
    elif needed is not None and needed != request.vms and (request.topology or request.accelerator_type):
        shape = request.topology or request.accelerator_type
        yield "size", f"{shape} needs {needed} VMs of {request.machine}, not {request.vms}", "omit --size"


def _to_price(request: GroupRequest) -> Iterator[Objection]:
    kinds = {"--spot": request.spot, "--flex-start": request.flex_start, "--reservation": bool(request.reservation)}
    chosen = [option for option, is_on in kinds.items() if is_on]
    if len(chosen) > 1:
        yield chosen[0].removeprefix("--"), f"{' and '.join(chosen)} were given", "give one of them"
    if request.flex_start and request.run_duration_s is None and not request.template:
        yield "run-duration", "flex-start VMs run for a limited time", "add --run-duration TIME, e.g. 8h (at most 7d)"
    if request.run_duration_s is not None and not MIN_RUN_S <= request.run_duration_s <= MAX_RUN_S:
        duration = format_duration(request.run_duration_s)
        yield "run-duration", f"--run-duration is {duration}", "VMs run for 10 minutes to 7 days"
    if request.run_duration_s is not None and request.template and not request.has_resize_request:
        yield "run-duration", "the run duration is the template's", "omit --run-duration, or add --flex-start"
    if request.valid_for_s is not None and not request.waits_for_capacity:
        yield "valid-for", "--valid-for is for groups that wait for capacity", "add --flex-start or --topology"
    if request.valid_for_s == 0:
        yield "valid-for", "--valid-for is 0", "give a duration, e.g. 6h"
