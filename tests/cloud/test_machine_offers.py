"""The machine types with TPUs that zones offer."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from tests.cloud.compute_pod import ZONE, group_pod
from tui.cloud.compute.machine_offers import list_tpu_machines
from tui.localpod.api import rpc_errors
from tui.operator import Operator
from tui.pod.creation.zone_offer import ZoneOffer


async def test_machines_with_tpus_are_listed_and_no_others(tmp_path: Path) -> None:
    async with group_pod(tmp_path) as pod:
        found, _ = await list_tpu_machines(pod.settings)
        assert {"ct6e-standard-4t", "tpu7x-standard-4t"} <= set(found[ZONE])
        assert all(name.startswith(("ct", "tpu")) for name in found[ZONE])
        assert await list_tpu_machines(replace(pod.settings, zones=("elsewhere",))) == ({}, [])
        assert await list_tpu_machines(replace(pod.settings, endpoints={"tpu": "127.0.0.1:1"})) == ({}, [])

        operator = Operator(pod.settings)
        (offer,) = (await operator.slices.offers_with_machines()).offers
        await operator.close()
        assert ("v2-8" in offer.types, offer.machine_types) == (True, tuple(found[ZONE]))


async def test_a_login_that_may_not_list_machines_sees_the_other_types(tmp_path: Path) -> None:
    async with group_pod(tmp_path) as pod:
        permission = "compute.machineTypes.list"
        pod.compute.faults.refusals[permission] = [rpc_errors.permission_denied(permission, "projects/local")]
        operator = Operator(pod.settings)
        listing = await operator.slices.offers_with_machines()
        await operator.close()
        assert (listing.problems, listing.offers[0].machine_types) == ((), ())
        assert "v2-8" in listing.offers[0].types


def test_a_machine_type_is_a_row_without_topologies_and_versions() -> None:
    offer = ZoneOffer("z", {"v2-8": ("2x2",)}, ("base",), ("tpu7x-standard-4t",))
    assert offer.to_json() == [
        {"zone": "z", "type": "v2-8", "topologies": ["2x2"], "versions": ["base"]},
        {"zone": "z", "type": "tpu7x-standard-4t", "topologies": [], "versions": []},
    ]
