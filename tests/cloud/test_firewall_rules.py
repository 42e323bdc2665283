from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from tests.cloud.conftest import Cloud
from tests.localpod.api_hosts import SocketHosts
from tests.localpod.faults import FaultyComputeService
from tests.sshd import free_port
from tui.checks.check_row import CheckRow
from tui.checks.firewall.firewall_rows import firewall_rows, read_rules
from tui.cloud.compute.firewall_rules import FirewallRules
from tui.cloud.compute.firewall_types import ALLOW, DENY, NEXT, FirewallRule
from tui.errors import CloudError
from tui.pod.slice import Slice
from tui.pod.worker import Worker
from tui.settings import Settings


@dataclass
class Served:
    """A pod's Compute Engine API, and tpu-tui's reader of its firewall rules."""

    compute: FaultyComputeService
    reader: FirewallRules


@pytest.fixture
async def served(tmp_path: Path) -> AsyncIterator[Served]:
    compute = FaultyComputeService(SocketHosts(), zone="local-a")
    app = web.Application()
    app.add_routes(compute.routes())
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    endpoint = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield Served(
            compute, FirewallRules(Settings(home=tmp_path, project="local", endpoints={"compute": endpoint}))
        )
    finally:
        await runner.cleanup()


async def test_enabled_rules_about_tcp_are_read(served: Served) -> None:
    served.compute.networks.firewalls.clear()
    served.compute.networks.add(
        {
            "name": "mesh",
            "priority": 0,
            "sourceTags": ["tpu"],
            "targetServiceAccounts": ["a@x"],
            "denied": [{"IPProtocol": "TCP", "ports": ["22", "8470-8477"]}, {"IPProtocol": "udp"}],
        }
    )
    served.compute.networks.add({"name": "off", "allowed": [{"IPProtocol": "all"}], "disabled": True})
    served.compute.networks.add({"name": "ping", "allowed": [{"IPProtocol": "icmp"}]})
    served.compute.networks.add(
        {"name": "other", "network": "global/networks/other", "allowed": [{"IPProtocol": "all"}]}
    )
    served.compute.networks.add(
        {
            "name": "out",
            "direction": "EGRESS",
            "destinationRanges": ["10.0.0.0/8"],
            "allowed": [{"IPProtocol": "all"}],
        }
    )

    read = await served.reader.read("projects/local/global/networks/default")

    assert read.gaps == ()
    assert read.rules == (
        FirewallRule(
            "mesh",
            DENY,
            ((22, 22), (8470, 8477)),
            priority=0,
            source_tags=("tpu",),
            target_accounts=("a@x",),
        ),
        FirewallRule("out", ALLOW, direction="EGRESS", destination_ranges=("10.0.0.0/8",)),
    )


async def test_every_page_is_read(served: Served) -> None:
    served.compute.faults.denied.add("compute.networks.getEffectiveFirewalls")
    for number in range(1100):
        served.compute.networks.add({"name": f"rule-{number:04}", "allowed": [{"IPProtocol": "tcp"}]})

    assert len((await served.reader.read(None)).rules) == 1102


def policy(name: str, kind: str, *rules: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {"name": name, "type": kind, "rules": list(rules), **fields}


def policy_rule(priority: int, action: str, port: str = "8476", **match: Any) -> dict[str, Any]:
    """Return a rule of a firewall policy in the API's JSON."""
    ranges = {} if match else {"srcIpRanges": ["0.0.0.0/0"]}
    layer4 = [{"ipProtocol": "tcp", "ports": [port]}]
    match = {"layer4Configs": layer4, **ranges, **match}
    return {"priority": priority, "action": action, "direction": "INGRESS", "match": match}


async def test_policies_are_in_the_order_of_their_evaluation(served: Served) -> None:
    served.compute.networks.policies = [
        policy("of-region", "NETWORK_REGIONAL", policy_rule(1, "allow")),
        policy("of-network", "NETWORK", policy_rule(2, "deny")),
        policy("1234", "HIERARCHY", policy_rule(3, "goto_next"), displayName="org"),
        policy("5678", "HIERARCHY", policy_rule(4, "apply_security_profile_group"), displayName="folder"),
    ]

    read = await served.reader.read("default", region="local")
    policies = [(rule.level, rule.policy, rule.action) for rule in read.rules]

    assert sorted(policies) == [
        (0, "organisation firewall policy org", NEXT),
        (1, "organisation firewall policy folder", ALLOW),
        (2, "", ALLOW),
        (2, "", ALLOW),
        (3, "network firewall policy of-network", DENY),
        (4, "regional firewall policy of-region", ALLOW),
    ]

    served.compute.networks.policies_first = True
    first = await served.reader.read("default", region="local")

    assert {rule.level: rule.policy.rpartition(" ")[2] for rule in first.rules} == {
        0: "org",
        1: "folder",
        2: "of-network",
        3: "of-region",
        4: "",
    }


async def test_the_unknown_conditions_of_a_policys_rule_are_kept(served: Served) -> None:
    ineffective = {"targetSecureTags": [{"name": "tagValues/2", "state": "INEFFECTIVE"}]}
    elsewhere = {"targetResources": ["https://www.googleapis.com/compute/v1/projects/local/global/networks/other"]}
    here = {"targetResources": ["https://www.googleapis.com/compute/v1/projects/local/global/networks/default"]}
    tag = [{"name": "tagValues/1", "state": "EFFECTIVE"}]
    served.compute.networks.policies = [
        policy(
            "org",
            "HIERARCHY",
            policy_rule(1, "deny") | ineffective,
            policy_rule(2, "deny") | elsewhere,
            policy_rule(3, "deny") | {"targetType": "INTERNAL_MANAGED_LB"},
            policy_rule(4, "allow", srcSecureTags=tag, srcFqdns=["example.com"]) | here,
            policy_rule(5, "allow", srcIpRanges=["10.0.0.0/8"], srcNetworkType="INTRA_VPC")
            | {"targetSecureTags": tag},
            policy_rule(6, "allow") | {"targetServiceAccounts": ["a@x"], "ruleName": "six"},
            policy_rule(7, "allow") | {"disabled": True},
        )
    ]

    rules = [rule for rule in (await served.reader.read("default")).rules if rule.policy]

    assert [(rule.name, rule.also, rule.only) for rule in rules] == [
        ("rule 4", ("domain names", "secure tags"), ()),
        ("rule 5", (), ("intra-vpc addresses", "secure tags")),
        ("six", (), ()),
    ]
    assert rules[2].target_accounts == ("a@x",)


async def test_without_a_permission_the_next_best_rules_are_read_and_the_gap_is_reported(served: Served) -> None:
    served.compute.networks.policies = [policy("of-network", "NETWORK", policy_rule(1, "deny"))]
    pod = Slice("pod", zone="local-a", project="local", workers=WORKERS)

    async def read(*denied: str) -> list[CheckRow]:
        served.compute.faults.denied = {f"compute.{permission}" for permission in denied}
        return firewall_rows(pod, await read_rules(pod, served.reader))

    whole = await read()
    no_order, *ordered = await read("networks.get")
    no_policies, *vpc = await read("networks.getRegionEffectiveFirewalls")

    assert {row.status for row in whole} == {"pass"}
    assert whole == ordered == vpc
    for row, permission in (
        (no_order, "compute.networks.get"),
        (no_policies, "compute.networks.getRegionEffectiveFirewalls"),
    ):
        assert row.status == "unknown"
        assert permission in row.detail
        assert "roles/compute.networkViewer" in (row.remedy or "")


WORKERS = tuple(Worker(index, internal_ip=f"127.1.0.{index + 1}") for index in range(2))


async def test_without_any_permission_the_row_names_them_and_nothing_fails(served: Served) -> None:
    served.compute.faults.denied = {
        "compute.firewalls.list",
        "compute.networks.getEffectiveFirewalls",
        "compute.networks.getRegionEffectiveFirewalls",
    }
    pod = Slice("pod", zone="local-a", project="local", workers=WORKERS)

    (row,) = firewall_rows(pod, await read_rules(pod, served.reader))

    assert (row.check, row.status) == ("firewall", "unknown")
    assert "compute.firewalls.list" in row.detail
    assert "compute.networks.getRegionEffectiveFirewalls" in row.detail
    assert "roles/compute.networkViewer" in (row.remedy or "")


async def test_the_rules_of_a_service_without_policies_are_read(tmp_path: Path) -> None:
    compute = FaultyComputeService(SocketHosts(), zone="local-a")
    app = web.Application()
    app.add_routes([route for route in compute.routes() if "Effective" not in route.path])
    runner = web.AppRunner(app)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        endpoints = {"compute": f"http://127.0.0.1:{runner.addresses[0][1]}"}
        read = await FirewallRules(Settings(home=tmp_path, project="local", endpoints=endpoints)).read("default")
    finally:
        await runner.cleanup()

    assert [rule.name for rule in read.rules] == ["default-allow-internal", "default-allow-ssh"]
    assert len(read.gaps) == 1


async def test_the_default_rules_of_a_pod_allow_traffic_between_its_workers(served: Served) -> None:
    pod = Slice("pod", project="local", workers=WORKERS)

    rows = firewall_rows(pod, await read_rules(pod, served.reader))

    assert {row.status for row in rows} == {"pass"}
    between = [row.detail.split()[0] for row in rows if "between workers" in row.detail]
    assert between == ["tcp:22", "tcp:8470", "tcp:8471", "tcp:8474", "tcp:8476", "tcp:8477", "tcp:8482"]


async def test_rules_are_made_listed_and_removed(served: Served) -> None:
    compute_v1: Any = pytest.importorskip("google.cloud.compute_v1", reason="google-cloud-compute is not installed")
    from google.auth.credentials import AnonymousCredentials

    options: dict[str, Any] = {
        "credentials": AnonymousCredentials(),  # type: ignore[no-untyped-call]
        "client_options": {"api_endpoint": served.reader._settings.endpoints["compute"]},
    }

    def work() -> list[str]:
        with compute_v1.FirewallsClient(**options) as client:
            rule = compute_v1.Firewall(name="new", allowed=[compute_v1.Allowed(I_p_protocol="tcp")])
            client.insert(project="local", firewall_resource=rule)
            client.delete(project="local", firewall="default-allow-ssh")
            return [one.name for one in client.list(project="local")]

    assert await asyncio.to_thread(work) == ["default-allow-internal", "new"]


async def test_a_service_that_is_down_is_reported(tmp_path: Path) -> None:
    endpoints = {"compute": f"http://127.0.0.1:{free_port()}"}
    reader = FirewallRules(Settings(home=tmp_path, project="local", endpoints=endpoints), patience=0.5)

    with pytest.raises(CloudError) as caught:
        await reader.read("default")

    assert "down or cannot be reached" in caught.value.why


async def test_the_tags_and_the_service_account_of_a_slice_are_read(cloud: Cloud) -> None:
    from google.cloud import tpu_v2
    from google.protobuf.field_mask_pb2 import FieldMask

    await cloud.make("pod")
    slice_ = await cloud.api.get("pod", "local-a")

    assert (await cloud.api.identity(slice_))[0] == ()
    client = await cloud.api._api.open()
    tagged = tpu_v2.Node(name="projects/local/locations/local-a/nodes/pod", tags=["mesh"])
    operation = await client.update_node(node=tagged, update_mask=FieldMask(paths=["tags"]))
    await operation.result()

    tags, account = await cloud.api.identity(slice_)

    assert tags == ("mesh",)
    assert account is None or "@" in account
    assert await cloud.api.identity(Slice("missing", zone="local-a")) == ((), None)
