"""The gcloud command that adds the narrowest rule which changes a decision."""

from __future__ import annotations

from tui.checks.firewall.evaluation import Decision
from tui.cloud.compute.firewall_types import FirewallRule, Policy
from tui.pod.slice import Slice

_ENDS = {"INGRESS": ("--source-ranges", "--src-ip-ranges"), "EGRESS": ("--destination-ranges", "--dest-ip-ranges")}
"""How gcloud calls the other end of a direction: in the VPC's rules, and in policies."""


def narrowest(slice_: Slice, name: str, port: int, ranges: str, decision: Decision) -> str:
    """Where the rule that decides is the VPC's, or asked after those, a VPC rule; else one in the same policy."""
    rule = decision.rule
    if rule is not None and rule.policy is not None and not rule.policy.after_vpc:
        return _in_policy(slice_, rule, rule.policy, port, ranges, decision.direction)
    before = rule if rule is not None and rule.policy is None else None
    if before is not None and before.priority == 0:
        return f"nothing comes before {before.name} (priority 0): change that rule"
    network = (slice_.network or "default").rpartition("/")[2]
    priority = f" --priority={before.priority - 1}" if before else ""
    return (
        f"gcloud compute firewall-rules create {name}-{network}-tcp-{port} --network={network} "
        f"--direction={decision.direction} --allow=tcp:{port} {_ENDS[decision.direction][0]}={ranges}{priority}"
        f"{_project(slice_)}"
    )


def _in_policy(slice_: Slice, rule: FirewallRule, policy: Policy, port: int, ranges: str, direction: str) -> str:
    if policy.kind == "system":
        return f"{policy.name} is Google's own and cannot be changed; ask Google Cloud support"
    if rule.priority == 0:
        return f"nothing comes before {rule.name} of {policy.name} (priority 0): change that rule"
    words = (
        f"{rule.priority - 1} --firewall-policy={policy.name} --direction={direction} --action=allow "
        f"--layer4-configs=tcp:{port} {_ENDS[direction][1]}={ranges}"
    )
    if policy.kind == "organisation":
        return (
            "ask whoever looks after the organisation's firewall policies for: "
            f"gcloud compute firewall-policies rules create {words} --organization=ORGANIZATION"
        )
    where = "--global-firewall-policy"
    if policy.kind == "regional":
        where = f"--firewall-policy-region={(slice_.zone or 'REGION').rpartition('-')[0] or 'REGION'}"
    return f"gcloud compute network-firewall-policies rules create {words} {where}{_project(slice_)}"


def _project(slice_: Slice) -> str:
    return f" --project={slice_.project}" if slice_.project else ""
