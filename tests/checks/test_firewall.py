from __future__ import annotations

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tui.checks.firewall import Machine, decide
from tui.checks.firewall_rows import firewall_rows
from tui.checks.row import CheckRow
from tui.cloud.firewall_rules import Rule, Traffic
from tui.pod.slice import Slice
from tui.pod.worker import Worker

TCP = (Traffic("tcp"),)
ADDRESSES = ("10.0.0.1", "10.0.0.2", "10.0.0.129", "10.0.1.1", "35.235.240.7", "8.8.8.8")
RANGES = ("0.0.0.0/0", "10.0.0.0/24", "10.0.0.0/25", "10.0.0.1", "35.235.240.0/20", "fe80::/10")
TAGS = ("tpu", "web")
ACCOUNTS = ("a@x", "b@x")
PORTS = ((), ("22",), ("8470-8477",), ("80", "8476"))


def some(choices: tuple[str, ...]) -> st.SearchStrategy[tuple[str, ...]]:
    return st.lists(st.sampled_from(choices), max_size=2).map(tuple)


traffic = st.builds(Traffic, st.sampled_from(["tcp", "udp", "all", "6", "TCP"]), st.sampled_from(PORTS))
rules = st.builds(
    Rule,
    name=st.uuids().map(str),
    allows=st.booleans(),
    traffic=st.lists(traffic, min_size=1, max_size=2).map(tuple),
    direction=st.sampled_from(["INGRESS", "INGRESS", "EGRESS"]),
    priority=st.sampled_from([0, 100, 1000, 65534]),
    source_ranges=some(RANGES),
    destination_ranges=some(RANGES),
    source_tags=some(TAGS),
    target_tags=some(TAGS),
    source_accounts=some(ACCOUNTS),
    target_accounts=some(ACCOUNTS),
    disabled=st.sampled_from([False, False, False, True]),
)
machines = st.builds(
    Machine,
    network=st.sampled_from(ADDRESSES),
    tags=st.frozensets(st.sampled_from(TAGS)),
    account=st.sampled_from([None, *ACCOUNTS]),
    inside=st.booleans(),
)


def means(rule: Rule, source: Machine, target: Machine, port: int) -> bool:
    """One packet, one rule: the documentation's conditions, written down one by one."""

    def within(address: str, ranges: tuple[str, ...]) -> bool:
        return any(ipaddress.ip_address(address) in ipaddress.ip_network(text) for text in ranges)

    ports = {
        number
        for entry in rule.traffic
        if entry.protocol.lower() in {"tcp", "6", "all"}
        for span in entry.ports or ("0-65535",)
        for number in range(int(span.split("-")[0]), int(span.split("-")[-1]) + 1)
    }
    owner = target if rule.direction == "INGRESS" else source
    conditions = [not rule.disabled, port in ports]
    if rule.target_tags:
        conditions.append(bool(set(rule.target_tags) & owner.tags))
    elif rule.target_accounts:
        conditions.append(owner.account in rule.target_accounts)
    if rule.destination_ranges:
        conditions.append(within(target.network, rule.destination_ranges))
    known = rule.direction == "INGRESS" and source.inside
    ways = [
        within(source.network, rule.source_ranges),
        known and bool(set(rule.source_tags) & source.tags),
        known and source.account in rule.source_accounts,
    ]
    unrestricted = not (rule.source_ranges or rule.source_tags or rule.source_accounts)
    conditions.append(unrestricted or any(ways))
    return all(conditions)


def passes(all_rules: list[Rule], source: Machine, target: Machine, port: int) -> bool:
    """The same question answered another way: by the strictest of the rules that mean the packet."""

    def one_way(direction: str, implied: bool) -> bool:
        meant = [rule for rule in all_rules if rule.direction == direction and means(rule, source, target, port)]
        first = min((rule.priority for rule in meant), default=None)
        return implied if first is None else all(rule.allows for rule in meant if rule.priority == first)

    return (not source.inside or one_way("EGRESS", True)) and one_way("INGRESS", False)


@given(st.lists(rules, max_size=6), machines, machines, st.sampled_from([22, 80, 8476, 9000]))
def test_decisions_are_those_of_an_independent_evaluation(
    all_rules: list[Rule], source: Machine, target: Machine, port: int
) -> None:
    decision = decide(all_rules, source, target, port)

    assert decision.allowed == passes(all_rules, source, target, port)
    if decision.rule is not None:
        assert means(decision.rule, source, target, port)
        assert decision.rule.allows == decision.allowed


@given(
    st.lists(rules, max_size=6), machines, machines, st.sampled_from(["10.0.0.0/24", "0.0.0.0/0", "10.0.0.128/25"])
)
def test_what_is_said_of_a_range_holds_for_each_address_in_it(
    all_rules: list[Rule], source: Machine, target: Machine, network: str
) -> None:
    every = Machine(network, source.tags, source.account, source.inside)
    decision = decide(all_rules, every, target, 22)

    members = [text for text in ADDRESSES if ipaddress.ip_address(text) in ipaddress.ip_network(network)]
    for address in members if decision.allowed is not None else ():
        one = Machine(address, source.tags, source.account, source.inside)
        assert passes(all_rules, one, target, 22) == decision.allowed


def test_among_equals_deny_decides_and_a_disabled_rule_does_not() -> None:
    allow, deny = Rule("a", True, TCP), Rule("d", False, TCP)
    source, target = Machine("10.0.0.1"), Machine("10.0.0.2")

    assert decide([allow, deny], source, target, 22).rule == deny
    off = Rule("d", False, TCP, disabled=True)
    assert decide([allow, off], source, target, 22).rule == allow
    assert (decide([], source, target, 22).allowed, str(decide([], source, target, 22))) == (
        False,
        "no rule allows it",
    )


POD = Slice(
    "pod",
    project="p",
    network="projects/p/global/networks/lab",
    workers=tuple(Worker(index, internal_ip=f"10.164.0.{index + 1}") for index in range(4)),
)
INTERNAL = Rule("allow-internal", True, TCP, source_ranges=("10.128.0.0/9",), priority=65534)
SSH = Rule("allow-ssh", True, (Traffic("tcp", ("22",)),), source_ranges=("0.0.0.0/0",))


def row_of(rows: list[CheckRow], port: int, text: str = "between workers") -> CheckRow:
    (row,) = [row for row in rows if row.detail.startswith(f"tcp:{port} {text}")]
    return row


def probe(state: str, port: int = 8476) -> CheckRow:
    return CheckRow("ports", 0, 1, port, "fail" if state == "filtered" else "pass", state, "")


def test_the_deciding_rule_is_named_beside_the_probes() -> None:
    rows = firewall_rows(POD, [INTERNAL, SSH], probed=[probe("closed")])

    assert {row.status for row in rows} == {"pass"}
    assert (
        row_of(rows, 22, "from this machine").detail
        == "tcp:22 from this machine: allowed by allow-ssh (priority 1000)"
    )
    told = "tcp:8476 between workers: allowed by allow-internal (priority 65534); probes: 1 of 1 get through"
    assert row_of(rows, 8476).detail == told


def test_where_no_rule_allows_it_the_narrowest_one_is_offered() -> None:
    rows = firewall_rows(POD, [SSH])
    row = row_of(rows, 8476)

    assert (row.status, "no rule allows it" in row.detail) == ("fail", True)
    assert row.remedy == (
        "gcloud compute firewall-rules create allow-lab-tcp-8476 --network=lab --direction=INGRESS "
        "--allow=tcp:8476 --source-ranges=10.164.0.0/29 --project=p"
    )


def test_a_rule_that_denies_is_overtaken() -> None:
    deny = Rule("deny-mesh", False, (Traffic("tcp", ("8470-8480",)),), source_ranges=("10.0.0.0/8",), priority=500)
    row = row_of(firewall_rows(POD, [INTERNAL, SSH, deny], probed=[probe("filtered")]), 8476)

    assert (row.status, "denied by deny-mesh" in row.detail, "--priority=499" in (row.remedy or "")) == (
        "fail",
        True,
        True,
    )


@pytest.mark.parametrize(("known", "state"), [([INTERNAL, SSH], "filtered"), ([SSH], "closed")])
def test_rules_and_probes_that_disagree_are_told(known: list[Rule], state: str) -> None:
    row = row_of(firewall_rows(POD, known, probed=[probe(state)]), 8476)

    assert (row.status, "disagree" in row.detail) == ("warn", True)


def test_only_some_addresses_may_log_in_and_iap_is_a_range_of_its_own() -> None:
    office = Rule("office-ssh", True, TCP, source_ranges=("203.0.113.0/24",))
    iap = Rule("iap-ssh", True, TCP, source_ranges=("35.235.240.0/20",))

    assert row_of(firewall_rows(POD, [INTERNAL, office]), 22, "from this machine").status == "unknown"
    assert row_of(firewall_rows(POD, [INTERNAL, iap], route="iap"), 22, "from IAP").status == "pass"
    shut = row_of(firewall_rows(POD, [INTERNAL], route="iap"), 22, "from IAP")
    assert shut.status == "fail"
    assert "--source-ranges=35.235.240.0/20" in (shut.remedy or "")


def test_pairs_are_told_apart_where_a_rule_means_some_workers_only() -> None:
    half = Rule("half", True, TCP, source_ranges=("10.164.0.0/31",))
    row = row_of(firewall_rows(POD, [SSH, half]), 8476)

    assert (row.status, "no rule allows it" in row.detail) == ("fail", True)


def test_tags_of_the_slice_count() -> None:
    tagged = Rule("tpu-mesh", True, TCP, source_tags=("tpu",), target_tags=("tpu",))

    assert row_of(firewall_rows(POD, [SSH, tagged], tags=["tpu"]), 8476).status == "pass"
    assert row_of(firewall_rows(POD, [SSH, tagged]), 8476).status == "fail"
