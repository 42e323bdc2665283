"""A request for a slice as the Cloud TPU API's messages. Google's libraries are imported when it is called."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tui.cloud.tpu.tpu_messages import document
from tui.pod.accelerator import CONFIG_TYPES
from tui.pod.creation.slice_request import READ_ONLY, SliceRequest

if TYPE_CHECKING:
    from google.cloud import tpu_v1, tpu_v2


def node_of(request: SliceRequest) -> tpu_v2.Node:
    """Return the node that a request creates; in the queue, every node."""
    from google.cloud import tpu_v2

    config_type: Any = tpu_v2.AcceleratorConfig.Type
    mode: Any = tpu_v2.AttachedDisk.DiskMode
    node = tpu_v2.Node(
        accelerator_type=request.accelerator_type,
        runtime_version=request.runtime_version,
        description=request.description,
        cidr_block=request.cidr_range,
        network_config=tpu_v2.NetworkConfig(
            network=request.network,
            subnetwork=request.subnetwork,
            enable_external_ips=not request.internal_ips,
            queue_count=request.queue_count or 0,
        ),
        tags=request.tags,
        labels=request.all_labels,
        metadata=dict(request.metadata),
        data_disks=[
            tpu_v2.AttachedDisk(
                source_disk=disk.source, mode=mode.READ_ONLY if disk.mode == READ_ONLY else mode.READ_WRITE
            )
            for disk in request.data_disks
        ],
    )
    if request.generation:
        kind = config_type[CONFIG_TYPES[request.generation]]
        node.accelerator_config = tpu_v2.AcceleratorConfig(type_=kind, topology=request.topology)
    if request.service_account or request.scopes:
        node.service_account = tpu_v2.ServiceAccount(email=request.service_account, scope=request.scopes)
    if request.secure_boot:
        node.shielded_instance_config = tpu_v2.ShieldedInstanceConfig(enable_secure_boot=True)
    if request.queue is None and (request.spot or request.preemptible or request.reserved):
        node.scheduling_config = tpu_v2.SchedulingConfig(
            spot=request.spot, preemptible=request.preemptible, reserved=request.reserved
        )
    return node


def tpu_node_of(request: SliceRequest) -> tpu_v1.Node:
    """Return the TPU Node that a request creates. The field for TensorFlow's version takes PyTorch's, too."""
    from google.cloud import tpu_v1

    node = tpu_v1.Node(
        accelerator_type=request.accelerator_type,
        tensorflow_version=request.runtime_version,
        description=request.description,
        cidr_block=request.cidr_range,
        network=request.network,
        labels=request.all_labels,
    )
    if request.preemptible or request.reserved:
        node.scheduling_config = tpu_v1.SchedulingConfig(preemptible=request.preemptible, reserved=request.reserved)
    return node


def queued_resource_of(request: SliceRequest, parent: str) -> tpu_v2.QueuedResource:
    """Return the queued resource of a request with a queue; `parent` is `projects/P/locations/Z`."""
    from google.cloud import tpu_v2
    from google.protobuf.duration_pb2 import Duration

    queue = request.queue
    assert queue is not None
    spec = tpu_v2.QueuedResource.Tpu.NodeSpec(parent=parent, node=node_of(request))
    if queue.nodes is None:
        spec.node_id = request.slice_names[0]
    else:
        spec.multislice_params = tpu_v2.QueuedResource.Tpu.NodeSpec.MultisliceParams(
            node_count=queue.nodes, node_id_prefix=queue.node_prefix
        )
    resource = tpu_v2.QueuedResource(tpu=tpu_v2.QueuedResource.Tpu(node_spec=[spec]))
    if request.spot:
        resource.spot = tpu_v2.QueuedResource.Spot()
    if request.reserved:
        resource.reservation_name = f"{parent}/reservations/-"
    if queue.valid_for_s is not None:
        resource.queueing_policy = tpu_v2.QueuedResource.QueueingPolicy(
            valid_until_duration=Duration(seconds=queue.valid_for_s)
        )
    if queue.valid_until is not None:
        resource.queueing_policy = tpu_v2.QueuedResource.QueueingPolicy(valid_until_time=queue.valid_until)
    return resource


def request_document(request: SliceRequest, parent: str) -> dict[str, Any]:
    """Return the request as the API's JSON: its parent, the ID in the URL, and the body."""
    if request.queue is None:
        node = tpu_node_of(request) if request.is_tpu_node else node_of(request)
        return {"parent": parent, "nodeId": request.name, "node": document(node)}
    body = document(queued_resource_of(request, parent))
    return {"parent": parent, "queuedResourceId": request.name, "queuedResource": body}
