"""The firewall rules' answers to the questions that matter, beside what the probes found."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from tui.checks.bucket_region import region_of
from tui.checks.check_row import CheckRow
from tui.checks.firewall.evaluation import Decision, FirewallEndpoint, decide, lets_in_by_name
from tui.checks.firewall.firewall_remedies import narrowest
from tui.checks.port_checks import DEFAULT_PORTS, firewall_remedy, smallest_network
from tui.errors import TpuTuiError
from tui.pod.slice import Slice
from tui.text.printable import one_line

if TYPE_CHECKING:
    from tui.cloud.compute.firewall_rules import FirewallRules
    from tui.cloud.compute.firewall_types import FirewallRule, Ruleset

IAP_RANGE = "35.235.240.0/20"
"""Where Identity-Aware Proxy's TCP forwarding comes from (Google Cloud documentation)."""
ANYWHERE = "0.0.0.0/0"
SSH = 22


async def read_rules(slice_: Slice, reader: FirewallRules) -> Ruleset | TpuTuiError:
    """The rules of the slice's network and region, or why they cannot be read."""
    region = region_of(slice_.zone)
    try:
        return await reader.read(slice_.network, slice_.project, region.lower() if region else None)
    except TpuTuiError as error:
        return error


def rows_of_rules(
    slice_: Slice,
    read: Ruleset | TpuTuiError,
    *,
    ports: Sequence[int] = (),
    probed: Iterable[CheckRow] = (),
    route: str = "external",
    jump: str | None = None,
    origins: Sequence[str] = (),
    tags: Iterable[str] = (),
    account: str | None = None,
) -> list[CheckRow]:
    """The rules' answers; an unknown row for each part of them that may not be read says what is missing."""
    if isinstance(read, TpuTuiError):
        return [_row("unknown", read.sentence, read.remedy or None)]
    gaps = [_row("unknown", gap.sentence, gap.remedy or None) for gap in read.gaps]
    rows = firewall_rows(
        slice_,
        read.rules,
        ports=ports,
        probed=probed,
        route=route,
        jump=jump,
        origins=origins,
        tags=tags,
        account=account,
    )
    return [*gaps, *rows]


def firewall_rows(
    slice_: Slice,
    rules: Sequence[FirewallRule],
    *,
    ports: Sequence[int] = (),
    probed: Iterable[CheckRow] = (),
    route: str = "external",
    jump: str | None = None,
    origins: Sequence[str] = (),
    tags: Iterable[str] = (),
    account: str | None = None,
) -> list[CheckRow]:
    """A row for SSH from here and one for each port between the workers; `probed` are the probes' rows.

    `origins` are the addresses that logins came from, as workers saw them; where `jump` leads through one, the jump
    host's. `tags` and `account` are the slice's network tags and service account.
    """
    known = frozenset(tags)
    addresses = [worker.internal_ip for worker in slice_.workers if worker.internal_ip]
    workers = [FirewallEndpoint(address, known, account) for address in addresses if smallest_network([address])]
    if not workers:
        return []
    rows = [_ssh_row(slice_, rules, workers, route, jump, origins)]
    if len(workers) > 1:
        found = list(probed)
        wanted = dict.fromkeys((*DEFAULT_PORTS, *ports))
        rows += [_port_row(slice_, rules, workers, port, found) for port in wanted]
    return rows


def _row(status: str, detail: str, remedy: str | None = None) -> CheckRow:
    """The port stands in the detail: rows with a port of their own are probes, which have a state."""
    return CheckRow("firewall", None, None, None, status, None, detail, remedy)


def _ssh_row(
    slice_: Slice,
    rules: Sequence[FirewallRule],
    workers: Sequence[FirewallEndpoint],
    route: str,
    jump: str | None,
    origins: Sequence[str],
) -> CheckRow:
    """SSH from outside. Where no worker saw where a login comes from, the whole internet is asked about."""
    through_iap = route == "iap"
    who = "IAP" if through_iap else _origin_name(jump)
    if origins and not through_iap:
        return _ssh_from(rules, workers, who, origins)
    if route == "internal":
        return _row("unknown", f"tcp:22 from {who} goes by an internal address, which rules cannot tell")
    worst = _worst(rules, [IAP_RANGE if through_iap else ANYWHERE], workers)
    told = f"tcp:22 from {who}: {worst}"
    if worst.allowed:
        return _row("pass", told)
    if worst.allowed is None and worst.rule is not None:
        return _row("unknown", f"{told}, which means {_describe_match(worst)}: is {who} among them?")
    wanted = IAP_RANGE if through_iap else f"{'JUMP-HOSTS' if jump else 'YOUR'}-ADDRESS/32"
    return _row("fail", told, narrowest(slice_, f"allow-{'iap-' if through_iap else ''}ssh", SSH, wanted, worst))


def _origin_name(jump: str | None) -> str:
    """Who knocks at the workers: this machine, or the last jump host on the way to them."""
    return f"the jump host {one_line(jump.rpartition(',')[2])}" if jump else "this machine"


def _ssh_from(
    rules: Sequence[FirewallRule], workers: Sequence[FirewallEndpoint], who: str, origins: Sequence[str]
) -> CheckRow:
    """SSH from where a login came: it works, so rules that forbid it are not the ones that hold."""
    worst = _worst(rules, origins, workers)
    told = f"tcp:22 from {who} ({', '.join(origins)}): {worst}"
    if worst.allowed is False and worst.rule is None and _by_name(rules, origins):
        return _row("pass", f"{told} by its address, {_by_name(rules, origins)} may by what it is; a login works")
    if worst.allowed is False:
        remedy = "rules may have changed a moment ago: connections that are open stay, new ones may not come through"
        return _row("warn", f"{told}; but a login works: rules and probes disagree", remedy)
    return _row("pass", f"{told}; a login works")


def _by_name(rules: Sequence[FirewallRule], origins: Sequence[str]) -> str:
    """Rules that let machines of the network in by tag or service account, which a private address may have."""
    if not all(ipaddress.ip_address(origin).is_private for origin in origins):
        return ""
    named = [rule for rule in rules if rule.allows and lets_in_by_name(rule, SSH)]
    return one_line(", ".join(rule.name for rule in named))


def _worst(rules: Sequence[FirewallRule], sources: Iterable[str], workers: Sequence[FirewallEndpoint]) -> Decision:
    decisions = [
        decide(rules, FirewallEndpoint(source, inside=False), worker, SSH) for source in sources for worker in workers
    ]
    return min(decisions, key=lambda one: _SEVERITY[one.allowed])


def _describe_match(decision: Decision) -> str:
    """Whom the rule means that part of the connections depend on."""
    rule = decision.rule
    assert rule is not None
    ranges = rule.source_ranges if decision.direction == "INGRESS" else rule.destination_ranges
    return (
        one_line(", ".join((*ranges, *rule.further, *(f"only {words}" for words in rule.only)))) or "some addresses"
    )


_SEVERITY = {False: 0, None: 1, True: 2}


def _port_row(
    slice_: Slice,
    rules: Sequence[FirewallRule],
    workers: Sequence[FirewallEndpoint],
    port: int,
    probed: Sequence[CheckRow],
) -> CheckRow:
    decision = _between(rules, workers, port)
    told = f"tcp:{port} between workers: {decision}"
    seen = [row.state for row in probed if row.check == "ports" and row.port == port and row.state]
    blocked = sum(state == "filtered" for state in seen)
    beside = f"; probes: {len(seen) - blocked} of {len(seen)} get through" if seen else ""
    if decision.allowed:
        if blocked:
            remedy = "look for a firewall on the workers (nft, iptables) and at the network's routes"
            return _row("warn", f"{told}{beside}: rules and probes disagree", remedy)
        return _row("pass", told + beside)
    if decision.allowed is None:
        return _row(
            "pass" if seen and not blocked else "unknown", f"{told}, which means {_describe_match(decision)}{beside}"
        )
    if seen and not blocked:
        remedy = "rules may have changed a moment ago, or come with permissions that this login lacks; look again"
        return _row("warn", f"{told}{beside}: rules and probes disagree", remedy)
    return _row("fail", told + beside, _between_remedy(slice_, workers, port, decision))


def _between(rules: Sequence[FirewallRule], workers: Sequence[FirewallEndpoint], port: int) -> Decision:
    """One decision for all pairs where the rules treat them alike, else the worst pair's."""
    span = str(smallest_network([worker.network for worker in workers]))
    every = FirewallEndpoint(span, workers[0].tags, workers[0].account)
    whole = decide(rules, every, every, port)
    if whole.allowed is not None:
        return whole
    pairs = [decide(rules, one, other, port) for one in workers for other in workers if one is not other]
    return min(pairs, key=lambda one: _SEVERITY[one.allowed])


def _between_remedy(slice_: Slice, workers: Sequence[FirewallEndpoint], port: int, decision: Decision) -> str:
    if decision.rule is None:
        return firewall_remedy(slice_, port)
    span = str(smallest_network([worker.network for worker in workers]))
    return narrowest(slice_, "allow", port, span, decision)
