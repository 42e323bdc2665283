from __future__ import annotations

from pathlib import Path

import pytest

from tests.pods import pod_home, running_pod
from tui.checks import CheckRow, before_launch, check_launch, run_checks
from tui.cloud.buckets import Buckets
from tui.cloud.firewall_rules import FirewallRules
from tui.cloud.tpu_api import TpuApi
from tui.settings import load
from tui.ssh.access import access_from
from tui.ssh.fleet import Fleet

__all__ = ["pod_home"]

SLOW = {"load_per_cpu": 1000.0, "disk_free_gib": 0.0, "disk_full_gib": 0.0, "memory_free_share": 0.0}
"""Limits that no machine the tests run on exceeds."""


async def test_a_fresh_pod_passes_every_check_and_its_rules_agree_with_the_probes(pod_home: Path) -> None:
    pytest.importorskip("google.cloud.compute_v1", reason="google-cloud-compute is not installed")
    async with running_pod(pod_home, workers=2, cores=8) as pod:
        settings = load({"profile": "local"})
        api, buckets = TpuApi(settings), Buckets(settings)
        slice_ = await api.host_keys(await api.get("local", "local-a"))
        tags, account = await api.identity(slice_)
        rules = FirewallRules(settings)
        async with Fleet(slice_.workers, access_from(settings)) as fleet:
            checks = run_checks(slice_, fleet, thresholds=SLOW, firewall=rules, tags=tags, account=account)
            rows = [row async for row in checks]
            before = [row async for row in before_launch(slice_, fleet, thresholds=SLOW)]
            argv = ["python", f"--data={pod.announcement()['bucket']}/x"]
            region = await check_launch(argv, {}, slice_, buckets)
        await api.close()
        await buckets.close()

    bad: list[CheckRow] = [row for row in (*rows, *before, *region) if row.status != "pass"]
    assert bad == []
    assert len(region) == 1
    seen = {row.check for row in rows}
    assert {"tcp", "reachability", "disk", "memory", "load", "chips", "device", "clock", "ports", "firewall"} <= seen
    told = [row.detail for row in rows if row.check == "firewall" and "between workers" in row.detail]
    assert len(told) == 5
    assert all("probes: 2 of 2" in detail for detail in told)
