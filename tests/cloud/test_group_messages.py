"""Compute Engine's documents of instance groups as slices with workers, states and symptoms."""

from __future__ import annotations

from typing import Any

import pytest

from tests.cloud.group_documents import ROOT, instance, managed, manager, template
from tui.cloud.instance_groups.group_messages import group_of, host_keys_of, slice_of_group, vm_of, with_node
from tui.pod.instance_group import GroupVm
from tui.pod.slice import Slice


def slice_of(rows: list[dict[str, Any]], *instances: dict[str, Any], size: int = 2, **fields: Any) -> Slice:
    group = group_of(manager(size=size), template(**fields))
    return slice_of_group(group, "p", [vm_of(row) for row in rows], {one["name"]: one for one in instances})


def test_a_group_has_what_its_template_says() -> None:
    document = manager(
        description="tpu-tui: created",
        resourcePolicies={"workloadPolicy": f"{ROOT}/regions/us-central1/resourcePolicies/wp"},
    )
    made = template(
        metadata={"tpu-node": "pod", "enable-oslogin": "TRUE"},
        labels={"team": "vision"},
        tags={"items": ["tpus"]},
        serviceAccounts=[{"email": "robot@p.iam.gserviceaccount.com"}],
        scheduling={"provisioningModel": "SPOT"},
    )

    group = group_of(document, made)

    assert (group.name, group.zone, group.size, group.template) == ("tpus", "us-central1-a", 2, "tpus-template")
    assert (group.policy, group.tpu_node, group.labels) == ("wp", "pod", {"team": "vision"})
    assert (group.tags, group.account) == (("tpus",), "robot@p.iam.gserviceaccount.com")
    assert (group.spot, group.made_by_us, group.is_stable) == (True, True, True)
    assert group.created == "2026-11-24T15:00:00Z"


def test_a_group_whose_template_cannot_be_read_has_no_machine_type() -> None:
    group = group_of(manager(), None)
    assert (group.machine_type, group.spot, group.is_slice) == (None, None, False)


def test_a_canary_version_does_not_give_the_group_its_template() -> None:
    canary = {"instanceTemplate": f"{ROOT}/global/instanceTemplates/next", "targetSize": {"fixed": 1}}
    stable = {"instanceTemplate": f"{ROOT}/global/instanceTemplates/now", "targetSize": {"calculated": 1}}
    assert group_of(manager(versions=[canary, stable]), None).template == "now"


def test_a_group_whose_vms_run_is_a_ready_slice_with_its_workers() -> None:
    found = slice_of(
        [managed("tpus-b"), managed("tpus-a")],
        instance("tpus-a", "10.0.0.2", "34.1.1.1", tpu_env="ACCELERATOR_TYPE: 'v6e-8'\nWORKER_ID: '1'"),
        instance("tpus-b", "10.0.0.3", tpu_env="TPU_WORKER_ID: '0'"),
    )

    assert (found.source, found.state, found.health, found.health_description) == (
        "instance_group",
        "READY",
        None,
        None,
    )
    assert (found.accelerator_type, found.cores, found.created) == ("v6e-8", 8, "2026-11-24T15:00:00Z")
    first, second = found.workers
    assert (first.index, first.hostname, first.internal_ip, first.external_ip) == (0, "tpus-b", "10.0.0.3", None)
    assert (second.hostname, second.internal_ip, second.external_ip) == ("tpus-a", "10.0.0.2", "34.1.1.1")
    assert second.instance == "projects/p/zones/us-central1-a/instances/tpus-a"
    assert second.host_key_alias == f"compute.{second.machine_id}"
    assert not found.symptoms


def test_a_vm_of_a_local_pod_names_the_port_of_its_ssh_server() -> None:
    found = slice_of([managed("a"), managed("b")], instance("a", "127.0.2.1", ssh_port="2222"))
    assert [worker.port for worker in found.workers] == [2222, 22]


def test_the_cores_of_an_unknown_machine_type_come_from_a_label() -> None:
    found = slice_of([managed("a"), managed("b")], machine_type="n1-standard-4", labels={"cores-per-worker": "8"})
    assert (found.accelerator_type, found.cores) == (None, 16)


ERROR = {"errors": {"errors": [{"code": "ZONE_RESOURCE_POOL_EXHAUSTED", "message": "no more capacity"}]}}


@pytest.mark.parametrize(
    ("second", "state", "symptom", "details"),
    [
        (managed("b", None, "CREATING", lastAttempt=ERROR), "CREATING", "CREATING", "no more capacity"),
        (managed("b", "STOPPING", "RECREATING"), "REPAIRING", "RECREATING", "is STOPPING, RECREATING"),
        (managed("b", "RUNNING", "RESTARTING"), "RESTARTING", "RESTARTING", "is RUNNING, RESTARTING"),
        (managed("b", "RUNNING", "VERIFYING"), "STARTING", "STARTING", "VERIFYING"),
        (managed("b", "STAGING"), "STARTING", "STARTING", "STAGING"),
        (managed("b", "TERMINATED"), "STOPPED", "STOPPED", "TERMINATED"),
        (managed("b", "REPAIRING"), "REPAIRING", "REPAIRING", "REPAIRING"),
        (managed("b", "MELTING"), "UNKNOWN", "UNKNOWN", "MELTING"),
    ],
)
def test_a_vm_that_does_not_run_undisturbed_is_named(
    second: dict[str, Any], state: str, symptom: str, details: str
) -> None:
    found = slice_of([managed("a"), second])

    assert (found.state, found.is_ready) == (state, False)
    (one,) = found.symptoms
    assert (one.symptom_type, one.worker_id, details in one.details) == (symptom, "1", True)
    assert f"worker 1 (b) is {one.details.partition(' is ')[2]}" == found.health_description


def test_a_spot_vm_that_stopped_was_preempted() -> None:
    found = slice_of([managed("a"), managed("b", "TERMINATED")], scheduling={"provisioningModel": "SPOT"})
    assert (found.state, found.symptoms[0].symptom_type) == ("PREEMPTED", "PREEMPTED")


def test_settings_that_change_beside_a_running_vm_do_not_disturb_it() -> None:
    assert slice_of([managed("a"), managed("b", "RUNNING", "REFRESHING")]).state == "READY"


def test_a_vm_that_is_leaving_is_no_worker() -> None:
    found = slice_of([managed("a"), managed("b", "STOPPING", "DELETING")], size=1)
    assert (found.state, [worker.hostname for worker in found.workers]) == ("READY", ["a"])


@pytest.mark.parametrize(
    ("rows", "size", "state", "description"),
    [
        ([], 0, "STOPPED", "the group has no VMs: its size is 0"),
        ([], 4, "CREATING", "0 of 4 VMs exist"),
        ([managed("a")], 2, "CREATING", "1 of 2 VMs exist"),
        ([managed("a", "STOPPING", "DELETING")], 0, "DELETING", None),
    ],
)
def test_a_group_without_all_its_vms_is_not_ready(
    rows: list[dict[str, Any]], size: int, state: str, description: str | None
) -> None:
    found = slice_of(rows, size=size)
    assert (found.state, found.health_description) == (state, description)


def test_health_checks_give_the_slice_its_health() -> None:
    well, sick = (
        [{"detailedHealthState": "HEALTHY"}],
        [{"detailedHealthState": "HEALTHY"}, {"detailedHealthState": "TIMEOUT"}],
    )
    assert slice_of([managed("a", instanceHealth=well), managed("b", instanceHealth=well)]).health == "HEALTHY"

    found = slice_of([managed("a", instanceHealth=well), managed("b", instanceHealth=sick)])

    assert (found.state, found.health, found.symptoms[0].symptom_type) == ("READY", "TIMEOUT", "TIMEOUT")


def test_many_vms_are_described_by_the_first_ones() -> None:
    found = slice_of([managed(f"vm-{number}", "TERMINATED") for number in range(9)], size=9)
    assert found.health_description is not None
    assert found.health_description.endswith("; and 5 more")
    assert len(found.symptoms) == 9


NODE = Slice(
    "pod",
    zone="us-central1-a",
    accelerator_type="v3-16",
    cores=16,
    state="READY",
    health="HEALTHY",
    runtime_version="pytorch-1.13",
    api_version="V1",
    node_endpoints=("10.1.0.2:8470", "10.1.0.3:8470"),
)


def test_the_slice_of_user_vms_has_the_type_and_the_endpoints_of_their_tpu_node() -> None:
    vms = slice_of([managed("a"), managed("b")], machine_type="n1-standard-16")

    found = with_node(vms, NODE)

    assert (found.accelerator_type, found.cores, found.cores_per_worker) == ("v3-16", 16, 8)
    assert (found.tpu_node, found.node_endpoints) == ("pod", ("10.1.0.2:8470", "10.1.0.3:8470"))
    assert (found.name, found.source, found.state, found.health) == ("tpus", "instance_group", "READY", "HEALTHY")


def test_a_tpu_node_that_is_not_ready_keeps_the_slice_from_being_ready() -> None:
    vms = slice_of([managed("a"), managed("b")], machine_type="n1-standard-16")
    found = with_node(vms, Slice("pod", state="PREEMPTED", api_version="V1"))
    assert (found.state, found.health_description) == ("PREEMPTED", "TPU Node pod is PREEMPTED")


def test_host_keys_are_the_guest_attributes_of_their_namespace() -> None:
    items = [
        {"namespace": "hostkeys", "key": "ssh-ed25519", "value": "AAAAC3Nza\n"},
        {"namespace": "hostkeys", "key": "ssh-rsa", "value": "no key; rm -rf ~"},
        {"namespace": "guestInventory", "key": "Hostname", "value": "AAAA"},
    ]
    assert host_keys_of({"queryValue": {"items": items}}) == ("ssh-ed25519 AAAAC3Nza",)
    assert host_keys_of({}) == ()


def test_a_vm_without_a_name_field_has_that_of_its_address() -> None:
    assert vm_of({"instance": "https://x/zones/z/instances/vm-7"}) == GroupVm("vm-7")
