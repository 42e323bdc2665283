"""Convert Compute Engine's documents of a managed instance group, and the group to a slice. Pure.

Source: Compute Engine API v1, `instanceGroupManagers`, `instanceTemplates`, `ManagedInstance`, `instances` and
`getGuestAttributes`; gcloud's `compute ssh` for the key alias; the metadata `tpu-env` of TPU VMs.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from tui.cloud.guest_attributes import host_keys_in
from tui.cloud.instance_groups.group_state import describe_state, health_of, state_of, symptoms_of
from tui.pod import accelerator
from tui.pod.api_paths import last_part
from tui.pod.instance_group import TPU_NODE_KEY, GroupVm, InstanceGroup, accelerator_type_of, in_worker_order
from tui.pod.resources import is_made_by_us
from tui.pod.slice import CORES_PER_WORKER, INSTANCE_GROUP, OS_LOGIN, Slice
from tui.pod.worker import MOST_PORT, MOST_WORKERS, SSH_PORT, SSH_PORT_KEY, Worker
from tui.text.numbers import parse_integer
from tui.text.printable import one_line
from tui.text.timestamps import to_utc

Document = Mapping[str, Any]

_TPU_ENV = "tpu-env"
_WORKER_ID = re.compile(r"^\s*(?:TPU_)?WORKER_ID\s*[:=]\s*['\"]?(\d{1,7})\b", re.MULTILINE)
_HEALTH_ORDER = ("UNHEALTHY", "TIMEOUT", "DRAINING", "UNKNOWN", "HEALTHY")
"""Health states of a VM, the worst first."""


def group_of(manager: Document, template: Document | None) -> InstanceGroup:
    """Convert a group and the template of its VMs, which is None if it could not be read."""
    properties = (template or {}).get("properties", {})
    interfaces, scheduling = properties.get("networkInterfaces", ()), properties.get("scheduling", {})
    metadata = _metadata(properties)
    accounts = properties.get("serviceAccounts", ())
    return InstanceGroup(
        name=manager["name"],
        zone=last_part(manager.get("zone") or manager.get("region") or ""),
        size=int(manager.get("targetSize", 0)),
        template=last_part(template_link(manager)) or None,
        policy=last_part(manager.get("resourcePolicies", {}).get("workloadPolicy", "")) or None,
        machine_type=last_part(properties.get("machineType", "")) or None,
        tpu_node=last_part(metadata.get(TPU_NODE_KEY, "")) or None,
        network=(interfaces[0].get("network") if interfaces else None) or None,
        labels=properties.get("labels", {}),
        created=to_utc(manager.get("creationTimestamp")),
        made_by_us=is_made_by_us({}, manager.get("description", "")),
        is_stable=manager.get("status", {}).get("isStable"),
        is_regional="zone" not in manager,
        spot=scheduling.get("provisioningModel") == "SPOT" if template else None,
        preemptible=bool(scheduling.get("preemptible")) if template else None,
        metadata=metadata,
        tags=tuple(properties.get("tags", {}).get("items", ())),
        account=accounts[0].get("email") if accounts else None,
    )


def template_link(manager: Document) -> str:
    """Return the address of the template from which a group creates new VMs."""
    for version in manager.get("versions", ()):
        is_for_the_rest = not {"fixed", "percent"} & set(version.get("targetSize", ()))
        if is_for_the_rest and (link := version.get("instanceTemplate")):
            return str(link)
    return str(manager.get("instanceTemplate", ""))


def vm_of(managed: Document) -> GroupVm:
    """Convert a row of `listManagedInstances`."""
    states = [check.get("detailedHealthState", "UNKNOWN") for check in managed.get("instanceHealth", ())]
    errors = managed.get("lastAttempt", {}).get("errors", {}).get("errors", ())
    messages = dict.fromkeys(one_line(error.get("message") or error.get("code") or "") for error in errors)
    return GroupVm(
        name=managed.get("name") or last_part(managed.get("instance", "")),
        status=managed.get("instanceStatus") or None,
        action=managed.get("currentAction") or "NONE",
        health=min(states, key=_place_of_health) if states else None,
        error="; ".join(message for message in messages if message),
        id=str(managed["id"]) if managed.get("id") else None,
    )


def _place_of_health(state: str) -> int:
    return _HEALTH_ORDER.index(state) if state in _HEALTH_ORDER else 0


def slice_of_group(
    group: InstanceGroup, project: str, vms: Sequence[GroupVm], instances: Mapping[str, Document]
) -> Slice:
    """Convert a group to a slice, with the VMs that stay as its workers; `instances` are their documents by name.

    A VM that does not exist now is a worker without an address.
    """
    ids = {name: worker_id for name, instance in instances.items() if (worker_id := _worker_id(instance)) is not None}
    staying = in_worker_order((vm for vm in vms if not vm.is_leaving), ids)
    workers = tuple(
        _worker(index, vm, group, project, instances.get(vm.name, {})) for index, vm in enumerate(staying)
    )
    state = state_of(group, vms)
    cores = parse_integer(group.labels.get(CORES_PER_WORKER) or group.metadata.get(CORES_PER_WORKER) or "")
    kind = accelerator_type_of(group.machine_type, len(workers))
    parsed = accelerator.parse(kind) if kind else None
    return Slice(
        name=group.name,
        zone=group.zone,
        source=INSTANCE_GROUP,
        project=project,
        accelerator_type=kind,
        state=state,
        health=health_of(staying),
        health_description=describe_state(group, state, staying),
        workers=workers,
        cores=parsed.devices if parsed else cores * len(workers) if cores else None,
        created=group.created,
        spot=group.spot,
        preemptible=group.preemptible,
        network=group.network,
        labels=dict(group.labels),
        symptoms=symptoms_of(staying, is_spot=group.can_be_preempted),
        os_login=group.metadata.get(OS_LOGIN),
        tpu_node=group.tpu_node,
    )


def with_node(slice_: Slice, node: Slice) -> Slice:
    """Return the slice of a group with the TPU Node that its VMs drive: its type, cores and endpoints.

    The slice is ready, or healthy, when both are.
    """
    if slice_.state == "READY" and node.state != "READY":
        state, description = node.state, f"TPU Node {node.name} is {node.state}"
    else:
        state, description = slice_.state, slice_.health_description or ""
    is_sick = node.health not in (None, "HEALTHY")
    if is_sick and node.health_description:
        description = "; ".join(filter(None, (description, f"TPU Node {node.name}: {node.health_description}")))
    return replace(
        slice_,
        accelerator_type=node.accelerator_type,
        cores=node.cores,
        runtime_version=node.runtime_version,
        state=state,
        health=node.health if is_sick else slice_.health or node.health,
        health_description=description or None,
        symptoms=(*slice_.symptoms, *node.symptoms),
        tpu_node=node.name,
        node_endpoints=node.node_endpoints,
    )


def host_keys_of(answer: Document) -> tuple[str, ...]:
    """Return the public host keys that a VM published as guest attributes."""
    items = answer.get("queryValue", {}).get("items", ())
    return host_keys_in(
        (item.get("namespace", ""), item.get("key", ""), item.get("value", "").strip()) for item in items
    )


def _worker(index: int, vm: GroupVm, group: InstanceGroup, project: str, instance: Document) -> Worker:
    interfaces = instance.get("networkInterfaces", ())
    access = interfaces[0].get("accessConfigs", ()) if interfaces else ()
    port = parse_integer(_metadata(instance).get(SSH_PORT_KEY, ""), MOST_PORT)
    return Worker(
        index=index,
        hostname=vm.name,
        internal_ip=(interfaces[0].get("networkIP") or None) if interfaces else None,
        external_ip=(access[0].get("natIP") or None) if access else None,
        port=port or SSH_PORT,
        host_key_alias=f"compute.{vm.id}" if vm.id else None,
        instance=f"projects/{project}/zones/{group.zone}/instances/{vm.name}",
        machine_id=vm.id,
    )


def _worker_id(instance: Document) -> int | None:
    match = _WORKER_ID.search(_metadata(instance).get(_TPU_ENV, ""))
    return parse_integer(match[1], MOST_WORKERS - 1) if match else None


def _metadata(document: Document) -> dict[str, str]:
    return {item["key"]: item.get("value", "") for item in document.get("metadata", {}).get("items", ())}
