"""The Cloud TPU API's messages as slices: pure functions of `tpu_v2` types.

Source: Cloud TPU API v2 reference (Node, QueuedResource, GuestAttributes); gcloud's `tpu-vm ssh` for the key alias.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from tui.cloud.api_errors import without_event_id
from tui.cloud.guest_attributes import host_keys_in
from tui.errors import CloudError
from tui.pod import accelerator
from tui.pod.api_paths import last_part
from tui.pod.creation.queued_request import QueuedRequest
from tui.pod.ports import TPU_NODE_PORT
from tui.pod.slice import CORES_PER_WORKER, OS_LOGIN, Slice, Symptom
from tui.pod.worker import SSH_PORT, Worker
from tui.text.numbers import parse_integer
from tui.text.printable import one_line
from tui.text.timestamps import to_utc

if TYPE_CHECKING:
    from google.cloud import tpu_v2

_HOSTNAME = re.compile(r"[A-Za-z0-9.-]{1,253}?(?:-w-(?P<worker>[0-9]{1,7}))?")
_MOST_NODES = 4096
"""Most nodes of a queued resource that are listed; a slice has 16 chips or more, and no zone has so many."""
_GENERATIONS = {config: generation for generation, config in accelerator.CONFIG_TYPES.items()}


def slice_of_node(node: tpu_v2.Node, *, local: bool = False) -> Slice:
    """Convert a node to a slice; the slice of a TPU Node has endpoints and no workers.

    On a local pod an endpoint's port is that of the worker's SSH server; elsewhere it is the TPU's own.
    """
    project, zone, name = split_name(node.name)
    is_tpu_node = enum_name(node.api_version) == "V1"
    workers = (
        () if is_tpu_node else tuple(_worker(node, index, local) for index in range(len(node.network_endpoints)))
    )
    kind = accelerator_type_of(node)
    scheduling = node.scheduling_config if "scheduling_config" in node else None
    return Slice(
        name=name,
        zone=zone,
        project=project,
        accelerator_type=kind,
        runtime_version=node.runtime_version or None,
        state=enum_name(node.state),
        health=enum_name(node.health),
        health_description=node.health_description or None,
        api_version=enum_name(node.api_version),
        workers=workers,
        cores=_cores(node, kind, len(workers)),
        created=_created(node),
        spot=None if scheduling is None else scheduling.spot,
        preemptible=None if scheduling is None else scheduling.preemptible,
        queued_resource=last_part(node.queued_resource) or None,
        network=_network(node),
        labels=dict(node.labels),
        symptoms=tuple(_symptom(symptom) for symptom in node.symptoms),
        data_disks=_data_disks(node),
        os_login=node.metadata.get(OS_LOGIN),
        node_endpoints=tuple(map(_endpoint, node.network_endpoints)) if is_tpu_node else (),
    )


def slices_of_queued(queued: tpu_v2.QueuedResource) -> list[Slice]:
    """Return a slice for each node that a queued resource requests, whether or not it exists yet."""
    project, zone, name = split_name(queued.name)
    state = queued.state
    failure = state.failed_data.error.message if "failed_data" in state else ""
    rows: list[Slice] = []
    for spec in queued.tpu.node_spec:
        kind = accelerator_type_of(spec.node)
        rows.extend(
            Slice(
                name=node_id,
                zone=zone,
                project=project,
                accelerator_type=kind,
                runtime_version=spec.node.runtime_version or None,
                state=enum_name(state.state),
                health_description=failure or None,
                api_version="V2",
                cores=_cores(spec.node, kind, 0),
                created=_created(queued),
                spot="spot" in queued,
                preemptible="scheduling_config" in spec.node and spec.node.scheduling_config.preemptible,
                queued_resource=name,
                network=_network(spec.node),
                labels=dict(spec.node.labels),
            )
            for node_id in _node_ids(spec, name)
        )
    return rows


def queued_request(queued: tpu_v2.QueuedResource) -> QueuedRequest:
    """Convert a queued resource to its row in `slices queued`."""
    _, zone, name = split_name(queued.name)
    node = queued.tpu.node_spec[0].node if queued.tpu.node_spec else None
    return QueuedRequest(
        name=name,
        zone=zone or "",
        state=enum_name(queued.state.state),
        reason=queued_reason(queued),
        nodes=tuple(queued_node_ids(queued)),
        accelerator_type=accelerator_type_of(node) if node is not None else None,
        runtime_version=(node.runtime_version or None) if node is not None else None,
        created=_created(queued),
        spot="spot" in queued,
        valid_until=_valid_until(queued),
        labels=dict(node.labels) if node is not None else {},
        data_disks=_data_disks(node) if node is not None else (),
    )


def queued_reason(queued: tpu_v2.QueuedResource) -> str | None:
    """Return why a queued resource is in its state; None where the state needs no explanation."""
    state, zone = queued.state, split_name(queued.name)[1]
    name = enum_name(state.state)
    if name == "FAILED" and "failed_data" in state:
        return without_event_id(state.failed_data.error.message) or None
    if name in ("SUSPENDED", "SUSPENDING"):
        by_user = enum_name(state.state_initiator) == "USER"
        return "a user deleted its slices" if by_user else "its slices were preempted, or their time was over"
    if name == "WAITING_FOR_RESOURCES":
        return f"{zone} has no capacity for it yet"
    return "it waits for its turn" if name == "ACCEPTED" else None


def queued_node_ids(queued: tpu_v2.QueuedResource) -> list[str]:
    """Return the names of the slices that a queued resource makes."""
    name = split_name(queued.name)[2]
    return [node_id for spec in queued.tpu.node_spec for node_id in _node_ids(spec, name)]


def _valid_until(queued: tpu_v2.QueuedResource) -> str | None:
    """Return when a request stops waiting; None if it never does, or after the year 9999."""
    created, policy = _created_at(queued), type(queued).pb(queued).queueing_policy
    if policy.HasField("valid_until_duration"):
        return _time(created + policy.valid_until_duration.seconds) if created else None
    if policy.HasField("valid_until_time"):
        return _time(policy.valid_until_time.seconds)
    return _time(policy.valid_interval.end_time.seconds)


def merge(nodes: Iterable[Slice], queued: Iterable[Slice]) -> tuple[Slice, ...]:
    """Return the nodes, and the queued rows whose node does not exist, sorted by zone and name."""
    merged = {(slice_.zone, slice_.name): slice_ for slice_ in nodes}
    for row in queued:
        node = merged.setdefault((row.zone, row.name), row)
        if node.queued_resource is None:
            merged[row.zone, row.name] = replace(node, queued_resource=row.queued_resource)
    return tuple(sorted(merged.values(), key=lambda slice_: (slice_.zone or "", slice_.name)))


def with_guest_attributes(slice_: Slice, answers: Sequence[tpu_v2.GuestAttributes]) -> Slice:
    """Return the slice with each worker's hostname, SSH host keys and instance, as its machine published them.

    An answer belongs to the worker in its hostname (`t1v-n-…-w-3`). Without a number there, its place in the list
    counts, if every worker answered: otherwise a worker could get its neighbour's key. Machines may publish any text:
    what is not a hostname is ignored, and a worker that several machines claim to be gets nothing from them.
    """
    by_place = len(answers) == len(slice_.workers)
    workers, claimed = list(slice_.workers), set[int]()
    for place, answer in enumerate(answers):
        items = [(item.namespace, item.key, item.value.strip()) for item in answer.query_value.items]
        published = next((value for space, key, value in items if (space, key) == ("deviceInfo", "hostname")), "")
        match = _HOSTNAME.fullmatch(published)
        hostname, number = (match[0], match["worker"]) if match else (None, None)
        index = int(number) if number else place if by_place else None
        if index is None or index >= len(workers):
            continue
        worker = slice_.workers[index]
        if index in claimed:
            workers[index] = worker
            continue
        claimed.add(index)
        machine = f"projects/{slice_.project}/zones/{slice_.zone}/instances/{hostname}" if hostname else None
        workers[index] = replace(
            worker,
            hostname=hostname or worker.hostname,
            host_keys=host_keys_in(items) or worker.host_keys,
            instance=machine or worker.instance,
        )
    return replace(slice_, workers=tuple(workers))


def document(message: Any) -> dict[str, Any]:
    """Return one of the API's messages in the API's JSON. Raises CloudError for one that has none."""
    from google.protobuf.json_format import Error, MessageToDict

    try:
        content: dict[str, Any] = MessageToDict(type(message).pb(message))
    except (Error, TypeError) as error:
        raise CloudError("a message of the Cloud TPU API is invalid", why=one_line(str(error))) from None
    return content


def split_name(name: str) -> tuple[str | None, str | None, str]:
    """Return project, zone and last part of `projects/P/locations/Z/nodes/N`."""
    parts = name.split("/")
    if len(parts) >= 6 and parts[0] == "projects" and parts[2] == "locations":
        return parts[1], parts[3], parts[-1]
    return None, None, parts[-1]


def enum_name(value: Any) -> str | None:
    """Return the API's name of an enum value; None for UNSPECIFIED, the number for one unknown to the library."""
    name = getattr(value, "name", None)
    if name is None:
        return str(int(value)) if value else None
    return None if name.endswith("UNSPECIFIED") else str(name)


def _worker(node: tpu_v2.Node, index: int, local: bool) -> Worker:
    endpoint = node.network_endpoints[index]
    return Worker(
        index=index,
        internal_ip=endpoint.ip_address or None,
        external_ip=endpoint.access_config.external_ip or None,
        port=(endpoint.port or SSH_PORT) if local else SSH_PORT,
        host_key_alias=f"tpu.{node.id}-{index}" if node.id else None,
    )


def _endpoint(endpoint: tpu_v2.NetworkEndpoint) -> str:
    return f"{endpoint.ip_address}:{endpoint.port or TPU_NODE_PORT}"


def accelerator_type_of(node: tpu_v2.Node) -> str | None:
    """Return the type of a node, which may be given by a generation and a topology instead."""
    if node.accelerator_type:
        return last_part(node.accelerator_type)
    if "accelerator_config" not in node:
        return None
    config = node.accelerator_config
    return accelerator.type_of_topology(_GENERATIONS.get(enum_name(config.type_) or "", ""), config.topology)


def _cores(node: tpu_v2.Node, kind: str | None, workers: int) -> int | None:
    """Return the XLA devices of the whole slice, by its type if that is known, else by its label or metadata."""
    parsed = accelerator.parse(kind) if kind else None
    if parsed is not None:
        return parsed.devices
    label = node.labels.get(CORES_PER_WORKER) or node.metadata.get(CORES_PER_WORKER) or ""
    cores = parse_integer(label)
    return None if cores is None or not workers else cores * workers


def _network(node: tpu_v2.Node) -> str | None:
    """Return the network of the first interface, as the API names it."""
    config = node.network_configs[0] if node.network_configs else node.network_config
    return config.network or None


def _data_disks(node: tpu_v2.Node) -> tuple[str, ...]:
    return tuple(disk.source_disk for disk in node.data_disks)


def _symptom(symptom: tpu_v2.Symptom) -> Symptom:
    return Symptom(
        symptom_type=enum_name(symptom.symptom_type) or "UNKNOWN",
        worker_id=symptom.worker_id,
        details=symptom.details,
        create_time=_created(symptom),
    )


def _node_ids(spec: tpu_v2.QueuedResource.Tpu.NodeSpec, queued: str) -> list[str]:
    if "multislice_params" in spec:
        prefix = spec.multislice_params.node_id_prefix or queued
        return [f"{prefix}-{number}" for number in range(min(spec.multislice_params.node_count, _MOST_NODES))]
    return [spec.node_id or queued]


def _created(message: Any) -> str | None:
    return _time(_created_at(message))


def _created_at(message: Any) -> int:
    """Return when a resource was created (Unix time); the library raises for times that Python does not have."""
    return int(type(message).pb(message).create_time.seconds)


def _time(seconds: int) -> str | None:
    """Format a Unix time as RFC 3339 in UTC; the epoch stands for none, as do years that Python does not have."""
    try:
        return to_utc(datetime.fromtimestamp(seconds, timezone.utc)) if seconds > 0 else None
    except (ValueError, OverflowError, OSError):
        return None
