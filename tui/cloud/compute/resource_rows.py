"""Disks, images, instance templates and workload policies of the Compute Engine API as rows of resources. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from tui.pod.api_paths import last_part
from tui.pod.groups.group_request import group_in_marker
from tui.pod.resources import DISK, IMAGE, POLICY, TEMPLATE, CloudResource, is_made_by_us
from tui.text.numbers import parse_integer
from tui.text.timestamps import to_utc

_STATES_WITHOUT_COST = ("FAILED", "DELETING")
_BYTES_PER_GB = 1e9
_TENANT_MACHINE = "t1v-n-"
"""Begins the names of the machines of TPU VMs, instead of which a row names the slice."""


def disk_row(disk: Mapping[str, Any]) -> CloudResource:
    """Convert a disk of the API; its users are the machines that it is attached to."""
    users = sorted({last_part(user) for user in disk.get("users", ())})
    return _costly_row(
        DISK,
        disk,
        zone=last_part(disk.get("zone") or disk.get("region") or "") or None,
        used_by=tuple(users),
        size_gb=_number(disk.get("sizeGb")),
    )


def image_row(image: Mapping[str, Any]) -> CloudResource:
    """Convert an image of the API; it is charged by its archive's size."""
    stored = _number(image.get("archiveSizeBytes"))
    return _costly_row(IMAGE, image, size_gb=None if stored is None else stored / _BYTES_PER_GB)


def template_row(template: Mapping[str, Any], project: str) -> CloudResource:
    """Convert an instance template of the API; it uses the project's images from which its disks are made."""
    disks = template.get("properties", {}).get("disks", ())
    sources = [str(disk.get("initializeParams", {}).get("sourceImage", "")) for disk in disks]
    images = [last_part(source) for source in sources if f"projects/{project}/global/images/" in source]
    return _row(
        TEMPLATE,
        template,
        zone=last_part(template.get("region", "")) or None,
        uses=tuple(f"{IMAGE}/{name}" for name in dict.fromkeys(images)),
        cost_relevant=False,
    )


def policy_row(policy: Mapping[str, Any]) -> CloudResource:
    """Convert a resource policy of the API."""
    region, state = last_part(policy.get("region", "")) or None, policy.get("status")
    return _row(POLICY, policy, zone=region, state=state, cost_relevant=False)


def _costly_row(kind: str, document: Mapping[str, Any], **more: Any) -> CloudResource:
    state = document.get("status")
    cost_relevant = None if state is None else state not in _STATES_WITHOUT_COST
    return _row(kind, document, state=state, cost_relevant=cost_relevant, **more)


def _row(kind: str, document: Mapping[str, Any], **more: Any) -> CloudResource:
    labels, description = document.get("labels", {}), document.get("description", "")
    return CloudResource(
        kind,
        document["name"],
        created=to_utc(document.get("creationTimestamp")),
        labels=labels,
        made_by_us=is_made_by_us(labels, description),
        made_for=group_in_marker(description),
        **more,
    )


def attach_slices(
    disks: Iterable[CloudResource], users: Mapping[str, Iterable[str]], *, slices_known: bool
) -> list[CloudResource]:
    """Return the disks with the slices and queued resources that name them; `users` is by `zone/name`.

    Unless all slices are known, the users of a disk without any are unknown (None).
    """
    attached = [replace(disk, used_by=_users(disk, sorted(set(users.get(disk.path, ()))))) for disk in disks]
    return [disk if disk.used_by or slices_known else replace(disk, used_by=None) for disk in attached]


def _users(disk: CloudResource, slices: list[str]) -> tuple[str, ...]:
    machines = [user for user in disk.used_by or () if not (slices and user.startswith(_TENANT_MACHINE))]
    return (*slices, *(machine for machine in machines if machine not in slices))


def _number(text: Any) -> float | None:
    """Return an integer of the API, which it writes as text."""
    number = parse_integer(str(text))
    return None if number is None else float(number)
