"""Decide whether firewall rules let a connection through, and name the deciding rule.

Google Cloud documentation, VPC firewall rules and policies: the levels are evaluated in order; in each level, the
matching rule with the lowest priority number decides, deny before allow. A rule with `goto_next`, and a level without
a match, leave the decision to the next level. If no level decides, ingress is denied and egress is allowed.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from dataclasses import dataclass

from tui.cloud.compute.firewall_types import ALLOW, DENY, NEXT, FirewallRule
from tui.text.printable import one_line

_NONE, _SOME, _ALL = range(3)
"""How many of the connections a rule matches; _SOME also if that is not known."""


@dataclass(frozen=True)
class FirewallEndpoint:
    """One end of a connection: an address or a range of them, and the names that rules may use for it."""

    network: str
    """An IPv4 address, or a range whose addresses are all evaluated at once."""
    tags: frozenset[str] | None = frozenset()
    """Network tags; None: it may be a machine of the network with any tag or service account."""
    account: str | None = None
    inside: bool = True
    """Whether it is a known machine of the network, for which egress rules count too."""


@dataclass(frozen=True)
class Decision:
    """Whether connections pass, and the deciding rule; None is the implied rule.

    `allowed` is None if the result depends on the address in a range or on something unknown, such as secure tags;
    `rule` is then the first rule on which it depends.
    """

    allowed: bool | None
    rule: FirewallRule | None
    direction: str

    def __str__(self) -> str:
        if self.rule is None:
            return "no rule allows it" if self.direction == "INGRESS" else "no rule forbids it"
        verb = {True: "allowed by", False: "denied by", None: "depends on"}[self.allowed]
        of = f" of the {self.rule.policy}" if self.rule.policy else ""
        return one_line(f"{verb} {self.rule.name} (priority {self.rule.priority}{of})")


def decide(rules: Iterable[FirewallRule], source: FirewallEndpoint, target: FirewallEndpoint, port: int) -> Decision:
    """Return whether `source` may connect to tcp:`port` of `target`, by the egress and the ingress rules."""
    ordered = sorted(rules, key=lambda rule: (rule.level, rule.priority, rule.action != DENY))
    entering = _decide(ordered, source, target, port, "INGRESS")
    leaving = _decide(ordered, source, target, port, "EGRESS") if source.inside else None
    if leaving and (leaving.allowed is False or (leaving.allowed is None and entering.allowed is not False)):
        return leaving
    return entering


def _decide(
    ordered: Iterable[FirewallRule], source: FirewallEndpoint, target: FirewallEndpoint, port: int, direction: str
) -> Decision:
    decision = Decision(direction == "EGRESS", None, direction)
    doubtful: list[FirewallRule] = []
    decided_level = left_level = None
    for rule in ordered:
        if rule.direction != direction or rule.level == decided_level:
            continue
        share = _share_matched(rule, source, target, port)
        if share == _ALL and rule.action != NEXT and rule.level != left_level:
            decision = Decision(rule.action == ALLOW, rule, direction)
            break
        if share == _ALL:
            decided_level = rule.level
        if share != _NONE and rule.action != NEXT:
            doubtful.append(rule)
        elif share == _SOME:
            left_level = rule.level  # some connections skip the rest of this level
    differing = [rule for rule in doubtful if (rule.action == ALLOW) != decision.allowed]
    return Decision(None, differing[0], direction) if differing else decision


def _share_matched(rule: FirewallRule, source: FirewallEndpoint, target: FirewallEndpoint, port: int) -> int:
    """Return how many of the connections between the two a rule matches: none, some (or unknown), all."""
    ingress = rule.direction == "INGRESS"
    if not any(first <= port <= last for first, last in rule.ports) or not _applies(
        rule, target if ingress else source
    ):
        return _NONE
    entering = _by_identity(rule, source) if ingress else _NONE
    names_others = bool(rule.source_tags or rule.source_accounts or (ingress and rule.also))
    far = max(entering, _share_covered(source.network, rule.source_ranges, _NONE if names_others else _ALL))
    near = _share_covered(target.network, rule.destination_ranges, _NONE if rule.also and not ingress else _ALL)
    if rule.also:
        far, near = (max(far, _SOME), near) if ingress else (far, max(near, _SOME))
    return min(far, near, _SOME if rule.only else _ALL)


def _applies(rule: FirewallRule, owner: FirewallEndpoint) -> bool:
    if rule.target_tags:
        return not (owner.tags or frozenset()).isdisjoint(rule.target_tags)
    return not rule.target_accounts or owner.account in rule.target_accounts


def _by_identity(rule: FirewallRule, source: FirewallEndpoint) -> int:
    """Return whether a rule names the source by tag or service account."""
    if source.tags is None:
        return _SOME if rule.source_tags or rule.source_accounts else _NONE
    named = not source.tags.isdisjoint(rule.source_tags) or source.account in rule.source_accounts
    return _ALL if named and source.inside else _NONE


def _share_covered(network: str, ranges: Iterable[str], without_ranges: int) -> int:
    """Return how much of an IPv4 network lies within the ranges; IPv6 ranges contain none of it."""
    if not ranges:
        return without_ranges
    span = ipaddress.IPv4Network(network)
    blocks = [ipaddress.IPv4Network(text, strict=False) for text in ranges if ":" not in text]
    overlapping = [block for block in ipaddress.collapse_addresses(blocks) if block.overlaps(span)]
    if not overlapping:
        return _NONE
    return _ALL if any(span.subnet_of(block) for block in overlapping) else _SOME
