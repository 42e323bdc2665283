from __future__ import annotations

import ipaddress
import itertools
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tui.checks.check_row import CheckRow
from tui.checks.firewall import firewall_rows as firewall
from tui.checks.firewall.evaluation import Decision, FirewallEndpoint, decide
from tui.cloud.compute.firewall_types import ALLOW, DENY, NEXT, FirewallRule, Ruleset
from tui.pod.slice import Slice
from tui.pod.worker import Worker

ADDRESSES = ("10.0.0.1", "10.0.0.2", "10.0.0.129", "10.0.1.1", "35.235.240.7", "8.8.8.8")
RANGES = ("0.0.0.0/0", "10.0.0.0/24", "10.0.0.0/25", "10.0.0.1", "35.235.240.0/20", "fe80::/10")
TAGS = ("tpu", "web")
ACCOUNTS = ("a@x", "b@x")
POLICY = "organisation firewall policy base"
PORTS = (((0, 65535),), ((22, 22),), ((8470, 8477),), ((80, 80), (8476, 8476)))
MESH = ((8476, 8476),)


def some(choices: tuple[str, ...]) -> st.SearchStrategy[tuple[str, ...]]:
    return st.lists(st.sampled_from(choices), max_size=2).map(tuple)


def as_the_api_allows(rule: FirewallRule) -> FirewallRule:
    """Return the rule without source tags and accounts if it is about egress: the API refuses those."""
    return rule if rule.direction == "INGRESS" else replace(rule, source_tags=(), source_accounts=())


rules = st.builds(
    FirewallRule,
    name=st.uuids().map(str),
    action=st.sampled_from([ALLOW, DENY]),
    ports=st.sampled_from(PORTS),
    direction=st.sampled_from(["INGRESS", "INGRESS", "EGRESS"]),
    priority=st.sampled_from([0, 100, 1000, 65534]),
    source_ranges=some(RANGES),
    destination_ranges=some(RANGES),
    source_tags=some(TAGS),
    target_tags=some(TAGS),
    source_accounts=some(ACCOUNTS),
    target_accounts=some(ACCOUNTS),
).map(as_the_api_allows)
levels = st.sampled_from([(0, POLICY), (1, POLICY), (2, ""), (3, POLICY)])


def at_level(rule: FirewallRule, place: tuple[int, str], delegates: bool) -> FirewallRule:
    """Return the rule in a level; only rules of policies may leave the decision to the next one."""
    return replace(rule, level=place[0], policy=place[1], action=NEXT if delegates and place[1] else rule.action)


leveled = st.builds(at_level, rules, levels, st.booleans())
doubtful = st.builds(
    lambda rule, also, only: replace(rule, also=also, only=only),
    leveled,
    st.sampled_from([(), (), ("secure tags",)]),
    st.sampled_from([(), (), ("secure tags",)]),
)
machines = st.builds(
    FirewallEndpoint,
    network=st.sampled_from(ADDRESSES),
    tags=st.frozensets(st.sampled_from(TAGS)),
    account=st.sampled_from([None, *ACCOUNTS]),
    inside=st.booleans(),
)


def applies(rule: FirewallRule, source: FirewallEndpoint, target: FirewallEndpoint, port: int) -> bool:
    """Return whether a rule applies to a packet, by the conditions of the documentation one by one."""

    def within(address: str, ranges: tuple[str, ...]) -> bool:
        return any(ipaddress.ip_address(address) in ipaddress.ip_network(text) for text in ranges)

    ports = {number for first, last in rule.ports for number in range(first, last + 1)}
    owner = target if rule.direction == "INGRESS" else source
    assert owner.tags is not None
    assert source.tags is not None
    conditions = [port in ports]
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


def passes(all_rules: list[FirewallRule], source: FirewallEndpoint, target: FirewallEndpoint, port: int) -> bool:
    """Return whether a packet passes, by an independent method: the strictest of the rules that apply decides."""

    def one_way(direction: str, implied: bool) -> bool:
        matching = [rule for rule in all_rules if rule.direction == direction and applies(rule, source, target, port)]
        first = min((rule.priority for rule in matching), default=None)
        return implied if first is None else all(rule.action == ALLOW for rule in matching if rule.priority == first)

    return (not source.inside or one_way("EGRESS", True)) and one_way("INGRESS", False)


@given(st.lists(rules, max_size=6), machines, machines, st.sampled_from([22, 80, 8476, 9000]))
def test_decisions_are_those_of_an_independent_evaluation(
    all_rules: list[FirewallRule], source: FirewallEndpoint, target: FirewallEndpoint, port: int
) -> None:
    decision = decide(all_rules, source, target, port)

    assert decision.allowed == passes(all_rules, source, target, port)
    if decision.rule is not None:
        assert applies(decision.rule, source, target, port)
        assert (decision.rule.action == ALLOW) == decision.allowed


def passes_levels(all_rules: list[FirewallRule], matching: set[int], source: FirewallEndpoint) -> bool:
    """Return whether a packet passes one level after the other; `matching` are the places of rules that apply."""

    def one_way(direction: str, implied: bool) -> bool:
        for level in range(4):
            here = [
                rule
                for place, rule in enumerate(all_rules)
                if place in matching and (rule.level, rule.direction) == (level, direction)
            ]
            first = min((rule.priority for rule in here), default=None)
            deciding = [rule for rule in here if rule.priority == first]
            if deciding and not any(rule.action == NEXT for rule in deciding):
                return all(rule.action == ALLOW for rule in deciding)
        return implied

    return (not source.inside or one_way("EGRESS", True)) and one_way("INGRESS", False)


def certain(rule: FirewallRule, source: FirewallEndpoint, target: FirewallEndpoint, port: int) -> bool | None:
    """Return whether a rule applies to the packet; None where that depends on unknown conditions."""
    far = "source_ranges" if rule.direction == "INGRESS" else "destination_ranges"
    plain = applies(replace(rule, also=(), only=()), source, target, port)
    if rule.also and not getattr(rule, far) and not (rule.source_tags or rule.source_accounts):
        plain = False
    widened = replace(rule, source_tags=(), source_accounts=(), **{far: ("0.0.0.0/0",)})
    if plain:
        return None if rule.only else True
    return None if rule.also and applies(widened, source, target, port) else False


def unique_priorities(all_rules: list[FirewallRule]) -> list[FirewallRule]:
    """Return the rules without those of a policy that repeat a priority, which the API refuses."""
    seen: set[tuple[int, int]] = set()
    distinct = []
    for rule in all_rules:
        if not rule.policy or (rule.level, rule.priority) not in seen:
            seen.add((rule.level, rule.priority))
            distinct.append(rule)
    return distinct


@given(st.lists(doubtful, max_size=8).map(unique_priorities), machines, machines, st.sampled_from([22, 8476]))
def test_policies_are_evaluated_in_order_and_unknown_conditions_leave_the_decision_open(
    all_rules: list[FirewallRule], source: FirewallEndpoint, target: FirewallEndpoint, port: int
) -> None:
    decision = decide(all_rules, source, target, port)

    known = [certain(rule, source, target, port) for rule in all_rules]
    sure = {place for place, is_match in enumerate(known) if is_match}
    undecided = [place for place, is_match in enumerate(known) if is_match is None]
    outcomes = {
        passes_levels(all_rules, sure | set(more), source)
        for size in range(len(undecided) + 1)
        for more in itertools.combinations(undecided, size)
    }
    assert decision.allowed == (outcomes.pop() if len(outcomes) == 1 else None)


@given(
    st.lists(rules, max_size=6), machines, machines, st.sampled_from(["10.0.0.0/24", "0.0.0.0/0", "10.0.0.128/25"])
)
def test_a_decision_about_a_range_holds_for_each_address_in_it(
    all_rules: list[FirewallRule], source: FirewallEndpoint, target: FirewallEndpoint, network: str
) -> None:
    every = FirewallEndpoint(network, source.tags, source.account, source.inside)
    decision = decide(all_rules, every, target, 22)

    members = [text for text in ADDRESSES if ipaddress.ip_address(text) in ipaddress.ip_network(network)]
    for address in members if decision.allowed is not None else ():
        one = FirewallEndpoint(address, source.tags, source.account, source.inside)
        assert passes(all_rules, one, target, 22) == decision.allowed


def test_among_rules_of_equal_priority_deny_decides() -> None:
    allow, deny = FirewallRule("a", ALLOW), FirewallRule("d", DENY)
    source, target = FirewallEndpoint("10.0.0.1"), FirewallEndpoint("10.0.0.2")

    assert decide([allow, deny], source, target, 22).rule == deny
    assert (decide([], source, target, 22).allowed, str(decide([], source, target, 22))) == (
        False,
        "no rule allows it",
    )


def test_a_rule_that_may_apply_leaves_the_decision_open_only_if_it_matters() -> None:
    source, target = FirewallEndpoint("10.0.0.1"), FirewallEndpoint("10.0.0.2")
    maybe = FirewallRule("maybe", ALLOW, also=("domain names",), source_ranges=("10.9.0.0/16",), policy=POLICY)
    leaving = FirewallRule(
        "out", DENY, direction="EGRESS", destination_ranges=("10.9.0.0/16",), also=("countries",), policy=POLICY
    )

    assert decide([maybe], source, target, 22).allowed is None
    assert decide([leaving], source, target, 22).allowed is False
    assert decide([leaving, replace(INTERNAL, level=1)], source, target, 22) == Decision(None, leaving, "EGRESS")


def firewall_rows(slice_: Slice, known: list[FirewallRule], **options: Any) -> list[CheckRow]:
    return firewall.firewall_rows(slice_, Ruleset(tuple(known)), **options)


POD = Slice(
    "pod",
    project="p",
    network="projects/p/global/networks/lab",
    workers=tuple(Worker(index, internal_ip=f"10.164.0.{index + 1}") for index in range(4)),
)
INTERNAL = FirewallRule("allow-internal", ALLOW, source_ranges=("10.0.0.0/8",), priority=65534)
SSH = FirewallRule("allow-ssh", ALLOW, ((22, 22),), source_ranges=("0.0.0.0/0",))


def row_of(rows: list[CheckRow], port: int, text: str = "between workers") -> CheckRow:
    (row,) = [row for row in rows if row.detail.startswith(f"tcp:{port} {text}")]
    return row


def probe(state: str, port: int = 8476) -> CheckRow:
    return CheckRow("ports", 0, 1, port, "fail" if state == "filtered" else "pass", state, "")


def test_the_deciding_rule_is_named_with_the_probes() -> None:
    rows = firewall_rows(POD, [INTERNAL, SSH], probed=[probe("closed")])

    assert {row.status for row in rows} == {"pass"}
    assert (
        row_of(rows, 22, "from this machine").detail
        == "tcp:22 from this machine: allowed by allow-ssh (priority 1000)"
    )
    expected = "tcp:8476 between workers: allowed by allow-internal (priority 65534); probes: 1 of 1 get through"
    assert row_of(rows, 8476).detail == expected


def test_if_no_rule_allows_a_port_the_narrowest_one_is_suggested() -> None:
    rows = firewall_rows(POD, [SSH])
    row = row_of(rows, 8476)

    assert (row.status, "no rule allows it" in row.detail) == ("fail", True)
    assert row.remedy == (
        "gcloud compute firewall-rules create allow-lab-tcp-8476 --network=lab --direction=INGRESS "
        "--allow=tcp:8476 --source-ranges=10.164.0.0/29 --project=p"
    )


def test_a_suggested_rule_comes_before_the_one_that_denies() -> None:
    deny = FirewallRule("deny-mesh", DENY, ((8470, 8480),), source_ranges=("10.0.0.0/8",), priority=500)
    row = row_of(firewall_rows(POD, [INTERNAL, SSH, deny], probed=[probe("filtered")]), 8476)

    assert (row.status, "denied by deny-mesh" in row.detail, "--priority=499" in (row.remedy or "")) == (
        "fail",
        True,
        True,
    )


@pytest.mark.parametrize(("known", "state"), [([INTERNAL, SSH], "filtered"), ([SSH], "closed")])
def test_rules_and_probes_that_disagree_are_reported(known: list[FirewallRule], state: str) -> None:
    row = row_of(firewall_rows(POD, known, probed=[probe(state)]), 8476)

    assert (row.status, "disagree" in row.detail) == ("warn", True)


def test_a_policy_that_denies_is_named_with_its_administrator() -> None:
    organisation = FirewallRule("no-mesh", DENY, MESH, priority=100, policy=POLICY)
    vpc = [replace(rule, level=1) for rule in (INTERNAL, SSH)]
    row = row_of(firewall_rows(POD, [organisation, *vpc]), 8476)

    assert row.status == "fail"
    assert "denied by no-mesh (priority 100 of the organisation firewall policy base)" in row.detail
    assert row.remedy == (
        "ask the administrator of the organisation firewall policy base for a rule before priority 100 "
        "that allows tcp:8476 from 10.164.0.0/29"
    )
    going_on = replace(organisation, action=NEXT)
    assert row_of(firewall_rows(POD, [going_on, *vpc]), 8476).status == "pass"


def test_rules_with_unknown_conditions_are_unknown_until_probes_decide() -> None:
    tagged = FirewallRule("mesh", ALLOW, policy="network firewall policy net", only=("secure tags",))

    alone = row_of(firewall_rows(POD, [tagged]), 8476)
    probed = row_of(firewall_rows(POD, [tagged], probed=[probe("closed")]), 8476)

    assert (alone.status, "only secure tags" in alone.detail) == ("unknown", True)
    assert probed.status == "pass"


def test_rules_are_evaluated_for_the_address_that_a_worker_saw_of_this_machine() -> None:
    office = FirewallRule("office-ssh", ALLOW, source_ranges=("203.0.113.0/24",))

    def of(*origins: str, route: str = "external") -> CheckRow:
        return row_of(firewall_rows(POD, [INTERNAL, office], origins=origins, route=route), 22, "from this machine")

    inside = of("203.0.113.7")
    assert inside.status == "pass"
    assert "(203.0.113.7): allowed by office-ssh (priority 1000); a login works" in inside.detail
    outside = of("203.0.113.7", "198.51.100.9")
    assert outside.status == "warn"
    assert "no rule allows it; but a login works: rules and probes disagree" in outside.detail
    assert of("10.0.0.9", route="internal").status == "pass"


def test_a_jump_hosts_address_is_not_taken_for_this_machines() -> None:
    office = FirewallRule("office-ssh", ALLOW, source_ranges=("203.0.113.0/24",))
    bastion = FirewallRule("bastion-ssh", ALLOW, source_tags=("bastion",))

    def of(*rules: FirewallRule, origins: tuple[str, ...] = ("192.168.7.7",)) -> CheckRow:
        rows = firewall_rows(POD, list(rules), origins=origins, jump="first,me@bastion:2222")
        return row_of(rows, 22, "from the jump host me@bastion:2222")

    assert of(office).status == "warn"
    by_tag = of(office, bastion)
    assert by_tag.status == "pass"
    assert "(192.168.7.7): depends on bastion-ssh (priority 1000); a login works" in by_tag.detail
    assert of(office, bastion, origins=("34.90.0.1",)).status == "warn"
    unseen = of(office, origins=())
    assert unseen.status == "unknown"
    assert unseen.detail.endswith("is the jump host me@bastion:2222 among them?")
    assert "--source-ranges=JUMP-HOSTS-ADDRESS/32" in (of(origins=()).remedy or "")


def test_only_some_addresses_may_log_in_and_iap_is_a_range_of_its_own() -> None:
    office = FirewallRule("office-ssh", ALLOW, source_ranges=("203.0.113.0/24",))
    iap = FirewallRule("iap-ssh", ALLOW, source_ranges=("35.235.240.0/20",))

    assert row_of(firewall_rows(POD, [INTERNAL, office]), 22, "from this machine").status == "unknown"
    assert row_of(firewall_rows(POD, [INTERNAL, iap], route="iap"), 22, "from IAP").status == "pass"
    shut = row_of(firewall_rows(POD, [INTERNAL], route="iap"), 22, "from IAP")
    assert shut.status == "fail"
    assert "--source-ranges=35.235.240.0/20" in (shut.remedy or "")


def test_pairs_are_decided_one_by_one_if_a_rule_matches_some_workers_only() -> None:
    half = FirewallRule("half", ALLOW, source_ranges=("10.164.0.0/31",))
    row = row_of(firewall_rows(POD, [SSH, half]), 8476)

    assert (row.status, "no rule allows it" in row.detail) == ("fail", True)


def test_tags_of_the_slice_count() -> None:
    tagged = FirewallRule("tpu-mesh", ALLOW, source_tags=("tpu",), target_tags=("tpu",))

    assert row_of(firewall_rows(POD, [SSH, tagged], tags=["tpu"]), 8476).status == "pass"
    assert row_of(firewall_rows(POD, [SSH, tagged]), 8476).status == "fail"
