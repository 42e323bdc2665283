"""What firewall rules decide: a question at a time, with the rule that decides it.

VPC firewall rules (Google Cloud documentation): the lowest priority number decides, deny before allow among equals;
without a rule ingress is denied and egress allowed.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tui.cloud.firewall_rules import Rule, Traffic

Network = ipaddress.IPv4Network
_TCP = ("tcp", "6", "all")


@dataclass(frozen=True)
class Machine:
    """One end of a connection: an address or a range of them, and what rules may know it by."""

    network: str
    """An IPv4 address, or a range whose members are all asked about at once."""
    tags: frozenset[str] = frozenset()
    account: str | None = None
    inside: bool = True
    """Whether it is a machine of the same network; rules by tag or service account mean only those."""


@dataclass(frozen=True)
class Decision:
    """Whether traffic passes, and the rule that says so: None is the implied one.

    `allowed` None: it depends on which address of the range it is; `rule` is then the first that tells them apart.
    """

    allowed: bool | None
    rule: Rule | None
    direction: str

    def __str__(self) -> str:
        if self.rule is None:
            return "no rule allows it" if self.direction == "INGRESS" else "nothing forbids it"
        verb = {True: "allowed by", False: "denied by", None: "only partly decided by"}[self.allowed]
        return f"{verb} {self.rule.name} (priority {self.rule.priority})"


def decide(rules: Iterable[Rule], source: Machine, target: Machine, port: int) -> Decision:
    """Whether `source` may open tcp:`port` on `target`: out of the one, where that is of ours, and into the other."""
    known = list(rules)
    if source.inside:
        leaving = _decide([rule for rule in known if rule.direction == "EGRESS"], source, target, port, "EGRESS")
        if leaving.allowed is not True:
            return leaving
    return _decide([rule for rule in known if rule.direction == "INGRESS"], source, target, port, "INGRESS")


def _decide(rules: Sequence[Rule], source: Machine, target: Machine, port: int, direction: str) -> Decision:
    """Rules that mean only a part of a range leave the others to the next; all must agree in the end."""
    owner = target if direction == "INGRESS" else source
    partial: list[Rule] = []
    last = Decision(direction == "EGRESS", None, direction)
    for rule in sorted(rules, key=lambda rule: (rule.priority, rule.allows)):
        if rule.disabled or not _applies(rule, owner) or not _about(rule.traffic, port):
            continue
        share = min(_from(rule, source, direction), _to(rule, target))
        if share == _ALL:
            last = Decision(rule.allows, rule, direction)
            break
        if share == _SOME:
            partial.append(rule)
    for rule in partial:
        if rule.allows != last.allowed:
            return Decision(None, rule, direction)
    return last


_NONE, _SOME, _ALL = range(3)


def _applies(rule: Rule, owner: Machine) -> bool:
    if rule.target_tags:
        return not owner.tags.isdisjoint(rule.target_tags)
    return not rule.target_accounts or owner.account in rule.target_accounts


def _about(traffic: Iterable[Traffic], port: int) -> bool:
    return any(one.protocol.lower() in _TCP and _has_port(one.ports, port) for one in traffic)


def _has_port(ports: Sequence[str], port: int) -> bool:
    return not ports or any(_in_span(span, port) for span in ports)


def _in_span(span: str, port: int) -> bool:
    first, _, last = span.partition("-")
    return int(first) <= port <= int(last or first)


def _from(rule: Rule, source: Machine, direction: str) -> int:
    """How much of the source a rule means. Ranges, tags and accounts add up."""
    known = not source.tags.isdisjoint(rule.source_tags) or source.account in rule.source_accounts
    if direction == "INGRESS" and source.inside and known:
        return _ALL
    if not rule.source_ranges:
        return _NONE if rule.source_tags or rule.source_accounts else _ALL
    return _covered(source.network, rule.source_ranges)


def _to(rule: Rule, target: Machine) -> int:
    return _covered(target.network, rule.destination_ranges) if rule.destination_ranges else _ALL


def _covered(network: str, ranges: Iterable[str]) -> int:
    """How much of an IPv4 network lies within the ranges; those of IPv6 mean none of it."""
    wanted = ipaddress.IPv4Network(network)
    parts = [Network(text, strict=False) for text in ranges if ":" not in text]
    held = [part for part in ipaddress.collapse_addresses(parts) if part.overlaps(wanted)]
    if not held:
        return _NONE
    return _ALL if any(wanted.subnet_of(part) for part in held) else _SOME
