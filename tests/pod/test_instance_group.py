"""Instance groups: which are slices, their accelerator types, and the order of their workers."""

from __future__ import annotations

import pytest

from tui.pod.instance_group import (
    GroupVm,
    InstanceGroup,
    accelerator_type_of,
    chips_of_machine,
    in_worker_order,
    is_tpu_machine,
)


@pytest.mark.parametrize(
    ("machine", "chips"),
    [
        ("ct6e-standard-4t", 4),
        ("ct5lp-hightpu-1t", 1),
        ("ct5p-hightpu-4t", 4),
        ("tpu7x-standard-4t", 4),
        ("n1-standard-16", None),
        ("ctx-standard-4", None),
        (None, None),
    ],
)
def test_a_machine_type_with_tpus_names_its_chips(machine: str | None, chips: int | None) -> None:
    assert chips_of_machine(machine) == chips
    assert is_tpu_machine(machine) == (chips is not None)


@pytest.mark.parametrize(
    ("machine", "vms", "kind"),
    [
        ("ct6e-standard-4t", 4, "v6e-16"),
        ("ct6e-standard-8t", 1, "v6e-8"),
        ("ct5lp-hightpu-4t", 2, "v5litepod-8"),
        ("ct5p-hightpu-4t", 2, "v5p-16"),
        ("tpu7x-standard-4t", 16, "tpu7x-128"),
        ("ct6e-standard-4t", 0, None),
        ("n1-standard-16", 4, None),
    ],
)
def test_the_accelerator_type_counts_the_chips_of_all_vms(machine: str, vms: int, kind: str | None) -> None:
    assert accelerator_type_of(machine, vms) == kind


def test_a_group_is_a_slice_if_its_vms_have_tpus_or_drive_a_tpu_node() -> None:
    web = InstanceGroup("web", "us-central1-a", machine_type="e2-medium")
    tpus = InstanceGroup("tpus", "us-central1-a", machine_type="ct6e-standard-4t")
    users = InstanceGroup("users", "us-central1-a", machine_type="n1-standard-16", tpu_node="node")
    regional = InstanceGroup("tpus", "us-central1", machine_type="ct6e-standard-4t", is_regional=True)
    assert [group.is_slice for group in (web, tpus, users, regional)] == [False, True, True, False]
    assert [group.to_json()["slice"] for group in (web, tpus, users)] == [None, "tpus", "users"]


def test_a_row_of_groups_list_keeps_its_names() -> None:
    group = InstanceGroup(
        "vms", "europe-west4-a", 4, "template", "policy", machine_type="n1-standard-16", tpu_node="pod"
    )
    assert group.to_json() == {
        "name": "vms",
        "zone": "europe-west4-a",
        "size": 4,
        "template": "template",
        "policy": "policy",
        "tpu_node": "pod",
        "slice": "vms",
    }


def _ordered(names: list[str], ids: dict[str, int] | None = None) -> list[str]:
    return [vm.name for vm in in_worker_order(map(GroupVm, names), ids or {})]


def test_workers_are_in_the_order_of_their_tpu_worker_ids() -> None:
    assert _ordered(["g-a", "g-b", "g-c"], {"g-a": 2, "g-b": 0, "g-c": 1}) == ["g-b", "g-c", "g-a"]


def test_a_vm_that_is_being_recreated_takes_the_free_place() -> None:
    assert _ordered(["g-a", "g-b", "g-c"], {"g-a": 2, "g-c": 0}) == ["g-c", "g-b", "g-a"]


def test_without_ids_the_index_in_the_name_counts_and_then_the_name() -> None:
    assert _ordered(["vm-10", "vm-9", "vm-001"]) == ["vm-001", "vm-9", "vm-10"]
    assert _ordered(["g-x2k1", "g-1234", "g-hm88"]) == ["g-1234", "g-hm88", "g-x2k1"]


def test_ids_that_name_one_place_twice_are_not_used() -> None:
    assert _ordered(["g-b", "g-a"], {"g-a": 0, "g-b": 0}) == ["g-a", "g-b"]
