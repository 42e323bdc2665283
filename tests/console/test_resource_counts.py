"""The count of resources above their table."""

from __future__ import annotations

from tui.console.render.resource_rows import count_resources
from tui.pod.resources import SLICE, CloudResource

POD = CloudResource(SLICE, "pod", "z-a", "READY", cost_relevant=True, used_by=("night",))


def test_one_resource_costs_money_and_two_cost_money() -> None:
    assert count_resources((POD,)) == "1 resource · 1 costs money · 0 unused"
    assert count_resources((POD, POD)) == "2 resources · 2 cost money · 0 unused"
    assert count_resources(()) == ""
