"""What firewall rules decide: a question at a time, with the rule that decides it.

VPC firewall rules and firewall policies (Google Cloud documentation): policies are asked one after the other, and the
VPC's rules in their midst; in each the lowest priority number decides, deny before allow among equals. What no rule
means, or one that says `goto_next`, is left to the next; in the end ingress is denied and egress allowed.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby

from tui.cloud.compute.firewall_types import FirewallRule, Traffic
from tui.text.printable import one_line

Network = ipaddress.IPv4Network
_TCP = ("tcp", "6", "all")


@dataclass(frozen=True)
class FirewallEndpoint:
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

    `allowed` None: it depends on which address of the range it is, or on what cannot be known here, as secure tags;
    `rule` is then the first that tells them apart.
    """

    allowed: bool | None
    rule: FirewallRule | None
    direction: str

    def __str__(self) -> str:
        if self.rule is None:
            return "no rule allows it" if self.direction == "INGRESS" else "nothing forbids it"
        verb = {True: "allowed by", False: "denied by", None: "only partly decided by"}[self.allowed]
        return f"{verb} {named(self.rule)}"


def named(rule: FirewallRule) -> str:
    """A rule as a person finds it: its name, its priority, and whose it is where that is not the VPC."""
    policy = f" of the {rule.policy.kind} firewall policy {rule.policy.name}" if rule.policy else ""
    return one_line(f"{rule.name} (priority {rule.priority}{policy})")


@dataclass(frozen=True)
class _Outcomes:
    """What may become of a connection from some rule on; `usual` is when doubtful rules do not mean it."""

    usual: Decision
    possible: frozenset[bool | None]
    parting: FirewallRule | None = None
    """The first rule after which it depends."""

    def decision(self) -> Decision:
        return self.usual if len(self.possible) == 1 else Decision(None, self.parting, self.usual.direction)


def decide(rules: Iterable[FirewallRule], source: FirewallEndpoint, target: FirewallEndpoint, port: int) -> Decision:
    """Whether `source` may open tcp:`port` on `target`: out of the one, where that is of ours, and into the other."""
    known = list(rules)
    entering = _decide([rule for rule in known if rule.direction == "INGRESS"], source, target, port, "INGRESS")
    if not source.inside:
        return entering
    leaving = _decide([rule for rule in known if rule.direction == "EGRESS"], source, target, port, "EGRESS")
    if leaving.allowed is False or (leaving.allowed is None and entering.allowed is not False):
        return leaving
    return entering


def _decide(
    rules: Sequence[FirewallRule], source: FirewallEndpoint, target: FirewallEndpoint, port: int, direction: str
) -> Decision:
    """From the last rule to the first: what a rule leaves open is the fate that comes after it."""
    owner = target if direction == "INGRESS" else source
    implied = direction == "EGRESS"
    fate = _Outcomes(Decision(implied, None, direction), frozenset({implied}))
    by_level = sorted(rules, key=lambda rule: (rule.level, rule.priority, rule.allows))
    for _, level in groupby(reversed(by_level), key=lambda rule: rule.level):
        following = fate
        for rule in level:
            share = _coverage(rule, source, target, owner, port, direction)
            if share == _NONE:
                continue
            decided = _Outcomes(Decision(rule.allows, rule, direction), frozenset({rule.allows}))
            reached = following if rule.goes_on else decided
            fate = reached if share == _ALL else _either(fate, reached, rule)
    return fate.decision()


def _either(fate: _Outcomes, reached: _Outcomes, rule: FirewallRule) -> _Outcomes:
    if fate.possible == reached.possible:
        return fate
    return _Outcomes(fate.usual, fate.possible | reached.possible, rule)


def _coverage(
    rule: FirewallRule,
    source: FirewallEndpoint,
    target: FirewallEndpoint,
    owner: FirewallEndpoint,
    port: int,
    direction: str,
) -> int:
    """How much of the connections between the two a rule means: none, some (or who knows), all."""
    if rule.disabled or not _applies(rule, owner) or not _about(rule.traffic, port):
        return _NONE
    share = min(_from(rule, source, direction), _to(rule, target, direction))
    return min(share, _SOME) if rule.only else share


_NONE, _SOME, _ALL = range(3)


def _applies(rule: FirewallRule, owner: FirewallEndpoint) -> bool:
    if rule.target_tags:
        return not owner.tags.isdisjoint(rule.target_tags)
    return not rule.target_accounts or owner.account in rule.target_accounts


def lets_in_by_name(rule: FirewallRule, port: int) -> bool:
    """Whether a rule is about what enters on tcp:`port` from machines with a tag or a service account."""
    names = rule.source_tags or rule.source_accounts
    return bool(names) and rule.direction == "INGRESS" and not rule.disabled and _about(rule.traffic, port)


def _about(traffic: Iterable[Traffic], port: int) -> bool:
    return any(one.protocol.lower() in _TCP and _has_port(one.ports, port) for one in traffic)


def _has_port(ports: Sequence[str], port: int) -> bool:
    return not ports or any(_in_span(span, port) for span in ports)


def _in_span(span: str, port: int) -> bool:
    first, _, last = span.partition("-")
    return int(first) <= port <= int(last or first)


def _from(rule: FirewallRule, source: FirewallEndpoint, direction: str) -> int:
    """How much of the source a rule means. Ranges, tags and accounts add up."""
    known = not source.tags.isdisjoint(rule.source_tags) or source.account in rule.source_accounts
    if direction == "INGRESS" and source.inside and known:
        return _ALL
    others = bool(rule.source_tags or rule.source_accounts)
    return _end(source, rule.source_ranges, rule.further if direction == "INGRESS" else (), others)


def _to(rule: FirewallRule, target: FirewallEndpoint, direction: str) -> int:
    return _end(target, rule.destination_ranges, rule.further if direction == "EGRESS" else (), False)


def _end(machine: FirewallEndpoint, ranges: Sequence[str], further: Sequence[str], others: bool) -> int:
    """How much of one end the ranges mean, and what else is named there but not known: at most some."""
    if not ranges and not further:
        return _NONE if others else _ALL
    covered = _covered(machine.network, ranges)
    return max(covered, _SOME) if further else covered


def _covered(network: str, ranges: Iterable[str]) -> int:
    """How much of an IPv4 network lies within the ranges; those of IPv6 mean none of it."""
    wanted = ipaddress.IPv4Network(network)
    parts = [Network(text, strict=False) for text in ranges if ":" not in text]
    held = [part for part in ipaddress.collapse_addresses(parts) if part.overlaps(wanted)]
    if not held:
        return _NONE
    return _ALL if any(wanted.subnet_of(part) for part in held) else _SOME
