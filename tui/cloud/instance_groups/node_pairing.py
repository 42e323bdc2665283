"""Find the TPU Node that each group of user VMs drives. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from tui.pod.api_paths import last_part
from tui.pod.instance_group import InstanceGroup
from tui.pod.slice import Slice

_DEFAULT_NETWORK = "default"


def pair_nodes(groups: Iterable[InstanceGroup], nodes: Sequence[Slice]) -> list[InstanceGroup]:
    """Return the groups with their TPU Nodes: the one that the template names, else the only one that fits.

    A group fits a node of its zone and network whose number of endpoints is the group's target size. A node that
    several groups fit, or a group that several nodes fit, is not paired.
    """
    all_groups = list(groups)
    named = {(group.zone, group.tpu_node) for group in all_groups}
    free = [node for node in nodes if node.is_tpu_node and (node.zone, node.name) not in named]
    fitting = [(node, [group for group in all_groups if _fits(group, node)]) for node in free]
    chosen = [(node, fits[0]) for node, fits in fitting if len(fits) == 1]
    claims = [group.path for _, group in chosen]
    pairs = {group.path: node.name for node, group in chosen if claims.count(group.path) == 1}
    return [replace(group, tpu_node=pairs[group.path]) if group.path in pairs else group for group in all_groups]


def _fits(group: InstanceGroup, node: Slice) -> bool:
    return (
        not (group.is_regional or group.is_tpu or group.tpu_node or group.is_of_gke)
        and group.size == len(node.node_endpoints) > 0
        and group.zone == node.zone
        and _network(group.network) == _network(node.network)
    )


def _network(name: str | None) -> str:
    return last_part(name or _DEFAULT_NETWORK)
