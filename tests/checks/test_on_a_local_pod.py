from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.pods import pod_home, running_pod
from tui.checks.before_launch import before_launch
from tui.checks.buckets import bucket_rows
from tui.checks.check_row import CheckRow
from tui.checks.port_checks import DEFAULT_PORTS
from tui.checks.run_checks import run_checks
from tui.cloud.compute.firewall_rules import FirewallRules
from tui.cloud.storage.buckets import Buckets
from tui.cloud.tpu.tpu_api import TpuApi
from tui.operator import Operator
from tui.settings import load
from tui.ssh.config.access import access_from
from tui.ssh.fleet import Fleet

__all__ = ["pod_home"]

LENIENT = {"load_per_cpu": 1000.0, "disk_free_gib": 0.0, "disk_full_gib": 0.0, "memory_free_share": 0.0}
"""Limits that no machine the tests run on exceeds."""


async def test_a_policy_of_the_organisation_that_blocks_the_workers_is_named_with_the_probes(pod_home: Path) -> None:
    match = {"srcIpRanges": ["0.0.0.0/0"], "layer4Configs": [{"ipProtocol": "tcp", "ports": ["8476"]}]}
    rule = {"priority": 10, "action": "deny", "direction": "INGRESS", "ruleName": "no-mesh", "match": match}
    async with running_pod(pod_home, workers=2, cores=8) as pod:
        pod.compute.networks.policies = [{"name": "77", "displayName": "base", "type": "HIERARCHY", "rules": [rule]}]
        operator = Operator(load({"profile": "local"}))
        try:
            rows = [row async for row in operator.slices.check(await operator.slices.get("local"))]
        finally:
            await operator.close()

    (blocked,) = (row for row in rows if row.check == "firewall" and "8476" in row.detail)
    assert blocked.status == "warn"
    assert "denied by no-mesh (priority 10 of the organisation firewall policy base)" in blocked.detail
    assert blocked.detail.endswith("probes: 2 of 2 get through: rules and probes disagree")


@pytest.mark.py310
async def test_a_fresh_pod_passes_every_check_and_its_rules_agree_with_the_probes(pod_home: Path) -> None:
    async with running_pod(pod_home, workers=2, cores=8) as pod:
        settings = load({"profile": "local"})
        api, buckets = TpuApi(settings), Buckets(settings)
        slice_ = await api.host_keys(await api.get("local", "local-a"))
        tags, account = await api.identity(slice_)
        rules = FirewallRules(settings)
        async with Fleet(slice_.workers, access_from(settings)) as fleet:
            checks = run_checks(slice_, fleet, thresholds=LENIENT, firewall=rules, tags=tags, account=account)
            rows = [row async for row in checks]
            before = [row async for row in before_launch(slice_, fleet, thresholds=LENIENT)]
            argv = ["python", f"--data={pod.announcement()['bucket']}/x"]
            region = await bucket_rows(argv, {}, slice_, buckets)
        await api.close()
        await buckets.close()

    bad: list[CheckRow] = [row for row in (*rows, *before, *region) if row.status != "pass"]
    assert bad == []
    assert len(region) == 1
    seen = {row.check for row in rows}
    assert {"tcp", "reachability", "disk", "memory", "load", "chips", "device", "clock", "ports", "firewall"} <= seen
    blocked = [row.detail for row in rows if row.check == "firewall" and "between workers" in row.detail]
    assert len(blocked) == len(DEFAULT_PORTS)
    assert all("probes: 2 of 2" in detail for detail in blocked)
    (from_here,) = [row.detail for row in rows if row.check == "firewall" and "tcp:22 from" in row.detail]
    assert re.match(r"tcp:22 from this machine \(127\.\S+\): allowed by .+; a login works", from_here)
