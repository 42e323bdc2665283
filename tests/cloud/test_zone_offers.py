"""Tests of the accelerator types and runtime versions that zones offer."""

from __future__ import annotations

import pytest

from tests.cloud.conftest import Cloud

pytestmark = pytest.mark.timing


async def test_offers_have_types_topologies_and_versions_of_each_zone(cloud: Cloud) -> None:
    cloud.service.faults.offered_types["local-b"] = frozenset({"v4-16"})

    listing = await cloud.connect(zones=()).offers()

    assert [offer.zone for offer in listing.offers] == ["faraway-c", "local-a", "local-b"]
    (row,) = listing.offers[2].to_json()
    assert (row["zone"], row["type"], row["topologies"]) == ("local-b", "v4-16", ["2x2x2"])
    assert "tpu-ubuntu2204-base" in row["versions"]


async def test_a_zone_that_does_not_exist_is_a_problem_of_the_offers(cloud: Cloud) -> None:
    listing = await cloud.connect(zones=("moon-a",)).offers()

    assert listing.offers == ()
    assert "there is no such zone" in listing.problems[0].why
