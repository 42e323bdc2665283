"""Check rows about what the firewall rules decide for SSH and for the ports between workers."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Sequence

from tui.checks.buckets import storage_region
from tui.checks.check_row import CheckRow, error_row, make_row
from tui.checks.firewall.evaluation import Decision, FirewallEndpoint, decide
from tui.checks.port_checks import DEFAULT_PORTS, allow_command, firewall_remedy, smallest_network
from tui.cloud.compute.firewall_rules import FirewallRules
from tui.cloud.compute.firewall_types import FirewallRule, Ruleset
from tui.errors import TpuTuiError
from tui.pod.slice import Slice
from tui.pod.worker import SSH_PORT
from tui.text.printable import one_line

IAP_RANGE = "35.235.240.0/20"
"""The sources of Identity-Aware Proxy's TCP forwarding (Google Cloud documentation)."""
ANYWHERE = "0.0.0.0/0"
_SEVERITY = {False: 0, None: 1, True: 2}


async def read_rules(slice_: Slice, reader: FirewallRules) -> Ruleset | TpuTuiError:
    """Return the rules of the slice's network and region, or why they cannot be read."""
    region = storage_region(slice_.zone)
    try:
        return await reader.read(slice_.network, slice_.project, region.lower() if region else None)
    except TpuTuiError as error:
        return error


def firewall_rows(
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
    """Return a row for SSH from here, one for each port between the workers, and an unknown one for each gap.

    `probed` are the rows of the probes. `origins` are the addresses from which logins arrived at the workers: this
    machine's, or the jump host's. `tags` and `account` are the slice's network tags and service account.
    """
    if isinstance(read, TpuTuiError):
        return [error_row("firewall", "unknown", read)]
    tag_set = frozenset(tags)
    addresses = [worker.internal_ip for worker in slice_.workers if worker.internal_ip]
    workers = [FirewallEndpoint(address, tag_set, account) for address in addresses if smallest_network([address])]
    rows = [error_row("firewall", "unknown", gap) for gap in read.gaps]
    if workers:
        rows.append(_ssh_row(slice_, read.rules, workers, route, jump, origins))
    if len(workers) > 1:
        probes = list(probed)
        all_ports = dict.fromkeys((*DEFAULT_PORTS, *ports))
        rows += [_port_row(slice_, read.rules, workers, port, probes) for port in all_ports]
    return rows


def _row(status: str, detail: str, remedy: str | None = None) -> CheckRow:
    """Return a row with the port in its detail: rows with a `port` are probes, which have a state."""
    return make_row("firewall", status, detail, remedy)


def _ssh_row(
    slice_: Slice,
    rules: Sequence[FirewallRule],
    workers: Sequence[FirewallEndpoint],
    route: str,
    jump: str | None,
    origins: Sequence[str],
) -> CheckRow:
    """Return the row for SSH: from IAP, from where logins arrived, or else from the whole internet."""
    iap = route == "iap"
    client = "IAP" if iap else f"the jump host {one_line(jump.rpartition(',')[2])}" if jump else "this machine"
    if origins and not iap:
        decision = _worst(rules, origins, workers)
        detail = f"tcp:22 from {client} ({', '.join(origins)}): {decision}"
        if decision.allowed is False:
            remedy = "the rules may have changed a moment ago: open connections stay, new ones may be blocked"
            return _row("warn", f"{detail}; but a login works: rules and probes disagree", remedy)
        return _row("pass", f"{detail}; a login works")
    if route == "internal":
        return _row(
            "unknown", f"tcp:22 from {client}: its internal address is not known, so rules cannot be evaluated"
        )
    decision = _worst(rules, [IAP_RANGE if iap else ANYWHERE], workers)
    detail = f"tcp:22 from {client}: {decision}"
    if decision.allowed is None:
        return _row("unknown", f"{detail}, which matches {_matches(decision)}: is {client} among them?")
    if decision.allowed:
        return _row("pass", detail)
    source = IAP_RANGE if iap else f"{'JUMP-HOSTS' if jump else 'YOUR'}-ADDRESS/32"
    return _row("fail", detail, _remedy(slice_, f"allow-{'iap-' if iap else ''}ssh", SSH_PORT, source, decision))


def _worst(rules: Sequence[FirewallRule], sources: Iterable[str], workers: Sequence[FirewallEndpoint]) -> Decision:
    """Return the strictest decision about SSH from these addresses; a private one may be a machine of the network."""
    ends = [
        FirewallEndpoint(source, None if ipaddress.IPv4Network(source).is_private else frozenset(), inside=False)
        for source in sources
    ]
    decisions = [decide(rules, end, worker, SSH_PORT) for end in ends for worker in workers]
    return min(decisions, key=lambda decision: _SEVERITY[decision.allowed])


def _matches(decision: Decision) -> str:
    """Return the conditions of the rule on which a decision depends."""
    rule = decision.rule
    assert rule is not None
    ranges = rule.source_ranges if decision.direction == "INGRESS" else rule.destination_ranges
    conditions = (*ranges, *rule.also, *(f"only {text}" for text in rule.only))
    return one_line(", ".join(conditions)) or "some addresses"


def _port_row(
    slice_: Slice,
    rules: Sequence[FirewallRule],
    workers: Sequence[FirewallEndpoint],
    port: int,
    probed: Sequence[CheckRow],
) -> CheckRow:
    decision = _decide_between(rules, workers, port)
    states = [row.state for row in probed if row.check == "ports" and row.port == port and row.state]
    blocked = states.count("filtered")
    probes = f"; probes: {len(states) - blocked} of {len(states)} get through" if states else ""
    detail = f"tcp:{port} between workers: {decision}"
    if decision.allowed is None:
        status = "pass" if states and not blocked else "unknown"
        return _row(status, f"{detail}, which matches {_matches(decision)}{probes}")
    if decision.allowed and blocked:
        remedy = "look for a firewall on the workers (nft, iptables) and at the network's routes"
        return _row("warn", f"{detail}{probes}: rules and probes disagree", remedy)
    if not decision.allowed and states and not blocked:
        remedy = "the rules may have changed a moment ago, or this login cannot read all of them; check again"
        return _row("warn", f"{detail}{probes}: rules and probes disagree", remedy)
    if decision.allowed:
        return _row("pass", detail + probes)
    if decision.rule is None:
        return _row("fail", detail + probes, firewall_remedy(slice_, port))
    span = str(smallest_network([worker.network for worker in workers]))
    return _row("fail", detail + probes, _remedy(slice_, "allow", port, span, decision))


def _decide_between(rules: Sequence[FirewallRule], workers: Sequence[FirewallEndpoint], port: int) -> Decision:
    """Return one decision for all pairs if the rules treat them alike, else the strictest pair's."""
    span = str(smallest_network([worker.network for worker in workers]))
    all_workers = FirewallEndpoint(span, workers[0].tags, workers[0].account)
    joint = decide(rules, all_workers, all_workers, port)
    if joint.allowed is not None:
        return joint
    decisions = [
        decide(rules, source, target, port) for source in workers for target in workers if source is not target
    ]
    return min(decisions, key=lambda decision: _SEVERITY[decision.allowed])


def _remedy(slice_: Slice, name: str, port: int, ranges: str, decision: Decision) -> str:
    """Return how to allow the port from (or to) the ranges: by a firewall rule before the deciding rule."""
    rule = decision.rule
    if rule is not None and rule.priority == 0:
        return f"no rule comes before {rule.name} (priority 0): change that rule"
    if rule is not None and rule.policy:
        end = "from" if decision.direction == "INGRESS" else "to"
        return (
            f"ask the administrator of the {rule.policy} for a rule before priority {rule.priority} "
            f"that allows tcp:{port} {end} {ranges}"
        )
    return allow_command(slice_, name, port, ranges, decision.direction, rule.priority - 1 if rule else None)
