from __future__ import annotations

import datetime
from typing import Any

import pytest
from google.cloud import tpu_v2
from google.rpc import status_pb2

from tui.cloud.google_import import silence_libraries
from tui.cloud.tpu.tpu_messages import (
    document,
    merge,
    queued_request,
    slice_of_node,
    slices_of_queued,
    with_guest_attributes,
)
from tui.errors import CloudError
from tui.pod.slice import Slice

pytestmark = pytest.mark.py310

NAME = "projects/my-project/locations/us-central2-b/nodes/pod"
CREATED = datetime.datetime(2024, 5, 6, 7, 8, 9, tzinfo=datetime.timezone.utc)


def endpoints(count: int, port: int = 8470) -> list[tpu_v2.NetworkEndpoint]:
    return [tpu_v2.NetworkEndpoint(ip_address=f"10.164.0.{index}", port=port) for index in range(count)]


def test_every_field_of_a_node_is_read() -> None:
    node = tpu_v2.Node(
        name=NAME,
        accelerator_type="v3-32",
        runtime_version="tpu-ubuntu2204-base",
        state="READY",
        health="UNHEALTHY_MAINTENANCE",
        health_description="maintenance",
        api_version="V2",
        id=77,
        create_time=CREATED,
        network_endpoints=[
            tpu_v2.NetworkEndpoint(ip_address="10.0.0.1", port=8470, access_config={"external_ip": "192.0.2.3"}),
            tpu_v2.NetworkEndpoint(ip_address="10.0.0.2", port=8470),
        ],
        scheduling_config=tpu_v2.SchedulingConfig(spot=True),
        queued_resource="projects/my-project/locations/us-central2-b/queuedResources/wish",
        network_config=tpu_v2.NetworkConfig(network="projects/my-project/global/networks/lab"),
        labels={"team": "vision"},
        symptoms=[
            tpu_v2.Symptom(symptom_type="OUT_OF_MEMORY", worker_id="1", details="oom", create_time=CREATED),
        ],
    )

    slice_ = slice_of_node(node)

    assert slice_.to_json() == {
        "name": "pod",
        "zone": "us-central2-b",
        "source": "tpu_api",
        "accelerator_type": "v3-32",
        "runtime_version": "tpu-ubuntu2204-base",
        "state": "READY",
        "health": "UNHEALTHY_MAINTENANCE",
        "health_description": "maintenance",
        "api_version": "V2",
        "workers": 2,
        "cores": 32,
        "created": "2024-05-06T07:08:09Z",
        "spot": True,
        "preemptible": False,
        "queued_resource": "wish",
        "network": "projects/my-project/global/networks/lab",
        "labels": {"team": "vision"},
        "symptoms": [
            {
                "symptom_type": "OUT_OF_MEMORY",
                "worker_id": "1",
                "details": "oom",
                "create_time": "2024-05-06T07:08:09Z",
            }
        ],
        "tpu_node": None,
    }
    assert slice_.project == "my-project"
    fields = [(w.index, w.internal_ip, w.external_ip, w.host_key_alias) for w in slice_.workers]
    assert fields == [(0, "10.0.0.1", "192.0.2.3", "tpu.77-0"), (1, "10.0.0.2", None, "tpu.77-1")]


def test_what_the_api_does_not_report_is_unknown() -> None:
    slice_ = slice_of_node(tpu_v2.Node(name=NAME))

    unknown = slice_.to_json()
    for known in ("name", "zone", "source"):
        del unknown[known]
    assert unknown == {
        **dict.fromkeys(unknown),
        "workers": 0,
        "labels": {},
        "symptoms": [],
        "tpu_node": None,
    }


@pytest.mark.parametrize(("seconds", "until"), [(60, "2024-05-06T07:09:09Z"), (315_576_000_000, None)])
def test_a_request_that_waits_beyond_the_year_9999_never_ends(seconds: int, until: str | None) -> None:
    queued = tpu_v2.QueuedResource(name=NAME.replace("nodes", "queuedResources"), create_time=CREATED)
    tpu_v2.QueuedResource.pb(queued).queueing_policy.valid_until_duration.seconds = seconds
    assert queued_request(queued).valid_until == until


def test_a_request_is_valid_until_its_interval_ends() -> None:
    queued = tpu_v2.QueuedResource(name=NAME.replace("nodes", "queuedResources"), create_time=CREATED)
    tpu_v2.QueuedResource.pb(queued).queueing_policy.valid_interval.end_time.seconds = 1_700_000_000
    assert queued_request(queued).valid_until == "2023-11-14T22:13:20Z"


@pytest.mark.parametrize(("seconds", "nanos"), [(2**62, 0), (-(2**62), 0), (253_402_300_800, 0), (5, -1)])
def test_a_time_out_of_range_is_unknown_and_not_shown(seconds: int, nanos: int) -> None:
    node = tpu_v2.Node(name=NAME)
    created = tpu_v2.Node.pb(node).create_time
    created.seconds, created.nanos = seconds, nanos
    assert slice_of_node(node).created in (None, "1970-01-01T00:00:05Z")
    with pytest.raises(CloudError, match="a message of the Cloud TPU API is invalid"):
        document(node)


def test_the_nodes_of_a_queued_resource_are_listed_within_bounds() -> None:
    spec = {"multislice_params": {"node_count": 2**31 - 1, "node_id_prefix": "n"}}
    queued = tpu_v2.QueuedResource(name=NAME.replace("nodes", "queuedResources"), tpu={"node_spec": [spec]})
    assert len(queued_request(queued).nodes) == 4096


def test_the_port_of_an_endpoint_is_the_ssh_port_on_a_local_pod_only() -> None:
    node = tpu_v2.Node(name=NAME, network_endpoints=endpoints(1, port=40022))

    assert slice_of_node(node).workers[0].port == 22
    assert slice_of_node(node, local=True).workers[0].port == 40022


@pytest.mark.parametrize(
    ("fields", "workers", "cores"),
    [
        ({"accelerator_type": "v4-16"}, 2, 8),
        ({"accelerator_type": "v5litepod-16"}, 4, 16),
        ({"accelerator_type": "local-3", "labels": {"cores-per-worker": "3"}}, 1, 3),
        ({"accelerator_type": "local-6", "metadata": {"cores-per-worker": "3"}}, 2, 6),
        ({"accelerator_type": "v9x-16"}, 4, None),
        ({"accelerator_type": "local-3", "labels": {"cores-per-worker": "many"}}, 1, None),
        ({"accelerator_type": "local-3", "metadata": {"cores-per-worker": "9" * 5000}}, 1, None),
        ({"accelerator_config": {"type_": "V4", "topology": "2x2x4"}}, 4, 16),
        ({"accelerator_config": {"type_": "V6E", "topology": "4x4"}}, 4, 16),
    ],
)
def test_cores_come_from_a_known_type_or_else_from_the_label(fields: Any, workers: int, cores: int | None) -> None:
    slice_ = slice_of_node(tpu_v2.Node(name=NAME, network_endpoints=endpoints(workers), **fields))

    assert (len(slice_.workers), slice_.cores) == (workers, cores)


def test_workers_are_counted_never_derived_from_the_type() -> None:
    slice_ = slice_of_node(tpu_v2.Node(name=NAME, accelerator_type="v3-32", network_endpoints=endpoints(3)))

    assert len(slice_.workers) == 3


def test_a_state_newer_than_the_library_shows_as_its_number() -> None:
    silence_libraries()
    raw = tpu_v2.Node.pb(tpu_v2.Node(name=NAME))
    raw.state = 99

    assert slice_of_node(tpu_v2.Node.wrap(raw)).state == "99"


def queued(state: str = "WAITING_FOR_RESOURCES", **fields: Any) -> tpu_v2.QueuedResource:
    spec = {"node_id": "pod", "node": {"accelerator_type": "v4-16", "runtime_version": "v2-alpha"}}
    return tpu_v2.QueuedResource(
        name="projects/my-project/locations/us-central2-b/queuedResources/wish",
        state={"state": state, **fields},
        tpu={"node_spec": [spec]},
        spot={},
    )


def test_a_queued_resource_without_a_node_is_a_row_with_its_state() -> None:
    (row,) = merge([], slices_of_queued(queued()))

    assert (row.name, row.zone, row.state) == ("pod", "us-central2-b", "WAITING_FOR_RESOURCES")
    assert (row.queued_resource, row.spot, row.cores, len(row.workers)) == ("wish", True, 8, 0)
    assert not row.is_ready


def test_the_error_of_a_failed_queued_resource_is_reported() -> None:
    failed = queued("FAILED", failed_data={"error": status_pb2.Status(code=8, message="no quota")})

    assert slices_of_queued(failed)[0].health_description == "no quota"


def test_a_node_replaces_its_queued_resource_and_names_it() -> None:
    node = slice_of_node(tpu_v2.Node(name=NAME, state="READY"))

    (row,) = merge([node], slices_of_queued(queued("ACTIVE")))

    assert (row.state, row.queued_resource) == ("READY", "wish")


def test_a_queued_resource_of_several_slices_is_a_row_each() -> None:
    several = tpu_v2.QueuedResource(
        name="projects/p/locations/z/queuedResources/wish",
        state={"state": "ACCEPTED"},
        tpu={"node_spec": [{"multislice_params": {"node_count": 2, "node_id_prefix": "part"}, "node": {}}]},
    )

    assert [row.name for row in slices_of_queued(several)] == ["part-0", "part-1"]


def attributes(*items: tuple[str, str, str]) -> tpu_v2.GuestAttributes:
    entries = [{"namespace": space, "key": key, "value": value} for space, key, value in items]
    return tpu_v2.GuestAttributes(query_value={"items": entries})


def of_worker(number: int) -> tpu_v2.GuestAttributes:
    return attributes(
        ("deviceInfo", "hostname", f"t1v-n-0a1b2c3d-w-{number}"),
        ("hostkeys", "ssh-ed25519", f"AAAA{number}"),
        ("hostkeys", "ecdsa-sha2-nistp256", f"BBBB{number}"),
    )


def pod_of(workers: int) -> Slice:
    return slice_of_node(tpu_v2.Node(name=NAME, network_endpoints=endpoints(workers)))


def test_guest_attributes_give_hostname_and_host_keys() -> None:
    slice_ = with_guest_attributes(pod_of(2), [of_worker(0), of_worker(1)])

    assert [worker.hostname for worker in slice_.workers] == ["t1v-n-0a1b2c3d-w-0", "t1v-n-0a1b2c3d-w-1"]
    assert slice_.workers[1].host_keys == ("ssh-ed25519 AAAA1", "ecdsa-sha2-nistp256 BBBB1")
    machine = f"projects/{slice_.project}/zones/{slice_.zone}/instances/t1v-n-0a1b2c3d-w-1"
    assert slice_.workers[1].instance == machine


def test_the_hostname_decides_which_worker_the_keys_belong_to() -> None:
    slice_ = with_guest_attributes(pod_of(3), [of_worker(2), of_worker(0)])

    assert [worker.host_keys[:1] for worker in slice_.workers] == [("ssh-ed25519 AAAA0",), (), ("ssh-ed25519 AAAA2",)]


def test_a_worker_that_another_machine_claims_to_be_gets_no_key_of_either() -> None:
    slice_ = with_guest_attributes(pod_of(2), [of_worker(0), of_worker(1), of_worker(0)])

    assert [worker.host_keys[:1] for worker in slice_.workers] == [(), ("ssh-ed25519 AAAA1",)]


def test_answers_without_hostnames_count_by_position_only_if_every_worker_answered() -> None:
    nameless = attributes(("hostkeys", "ssh-ed25519", "AAAA"))

    assert all(worker.host_keys for worker in with_guest_attributes(pod_of(2), [nameless, nameless]).workers)
    assert not any(worker.host_keys for worker in with_guest_attributes(pod_of(2), [nameless]).workers)


@pytest.mark.parametrize("hostname", [f"t1v-w-{'9' * 5000}", "a/../b-w-1", "\x1b[31m-w-1", ""])
def test_a_hostname_that_is_none_is_ignored(hostname: str) -> None:
    keys = ("hostkeys", "ssh-ed25519", "AAAA")

    (worker,) = with_guest_attributes(pod_of(1), [attributes(("deviceInfo", "hostname", hostname), keys)]).workers

    assert (worker.hostname, worker.instance, worker.host_keys) == (None, None, ("ssh-ed25519 AAAA",))


@pytest.mark.parametrize("value", ["AAAA\nssh-ed25519 BBBB", "AAAA evil", "", "\x1b[31m"])
def test_a_host_key_that_is_no_key_is_left_out(value: str) -> None:
    (worker,) = with_guest_attributes(pod_of(1), [attributes(("hostkeys", "ssh-ed25519", value))]).workers

    assert worker.host_keys == ()
