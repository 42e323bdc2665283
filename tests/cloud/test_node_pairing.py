"""Which group of user VMs drives which TPU Node."""

from __future__ import annotations

from dataclasses import replace

from tui.cloud.instance_groups.node_pairing import pair_nodes
from tui.pod.instance_group import InstanceGroup
from tui.pod.slice import Slice

ENDPOINTS = tuple(f"10.1.0.{index}:8470" for index in range(4))
NODE = Slice(
    "pod", zone="z", api_version="V1", node_endpoints=ENDPOINTS, network="projects/p/global/networks/default"
)
USERS = InstanceGroup("users", "z", 4, machine_type="n1-standard-16", network="https://x/global/networks/default")


def pairs(groups: list[InstanceGroup], *nodes: Slice) -> dict[str, str | None]:
    return {group.name: group.tpu_node for group in pair_nodes(groups, nodes)}


def test_the_only_group_that_fits_drives_the_node() -> None:
    small = replace(USERS, name="small", size=2)
    elsewhere = replace(USERS, name="elsewhere", zone="other")
    apart = replace(USERS, name="apart", network="private")
    tpus = replace(USERS, name="tpus", machine_type="ct6e-standard-4t")
    pool = replace(USERS, name="gke-pool")
    regional = replace(USERS, name="regional", is_regional=True)
    found = pairs([USERS, small, elsewhere, apart, tpus, pool, regional], NODE)
    assert {name for name, node in found.items() if node} == {"users"}


def test_a_group_without_a_network_is_in_the_default_one() -> None:
    assert pairs([replace(USERS, network=None)], replace(NODE, network=None)) == {"users": "pod"}


def test_two_groups_that_fit_are_not_paired() -> None:
    assert pairs([USERS, replace(USERS, name="web")], NODE) == {"users": None, "web": None}


def test_two_nodes_that_fit_are_not_paired() -> None:
    assert pairs([USERS], NODE, replace(NODE, name="next")) == {"users": None}


def test_the_node_that_a_template_names_is_taken_and_leaves_the_rest() -> None:
    named = replace(USERS, name="named", tpu_node="pod")
    assert pairs([named, USERS], NODE) == {"named": "pod", "users": None}
    assert pairs([named, USERS], NODE, replace(NODE, name="next")) == {"named": "pod", "users": "next"}


def test_tpu_vms_are_not_driven_by_others() -> None:
    assert pairs([USERS], replace(NODE, api_version="V2")) == {"users": None}
