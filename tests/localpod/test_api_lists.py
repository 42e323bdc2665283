"""Tests of lists: their pages, zones that do not answer, and the types, versions and zones to choose from."""

from __future__ import annotations

import pytest
from google.api_core import exceptions

from tests.localpod.api_clients import PLACE, TRANSPORTS, Caller, connected, node, pod, serving
from tests.localpod.faults import Faults
from tui.localpod.api.resources import accelerator_types
from tui.localpod.api.server import TpuService

over_each_transport = pytest.mark.parametrize("transport", TRANSPORTS)

EVERYWHERE = "projects/local/locations/-"
PLACE_B = "projects/local/locations/local-b"


async def add_slices(service: TpuService, *names: str) -> None:
    for name in names:
        await service.add_slice(name, 1, 1)


async def create(call: Caller, parent: str, node_id: str) -> None:
    await call.succeeded(await call("create_node", parent=parent, node_id=node_id, node=node()))


def ids(items: list) -> list[str]:
    return [item.name.rpartition("/")[2] for item in items]


@over_each_transport
async def test_the_pager_of_the_client_walks_all_pages_once(transport: str) -> None:
    names = [f"slice-{number}" for number in range(7)]
    async with pod(transport) as one:
        await add_slices(one.service, *names)
        pages = await one.call("list_nodes", parent=PLACE, page_size=3)
        assert len(pages.nodes) == 3
        assert pages.next_page_token
        assert ids(await one.call.all("list_nodes", parent=PLACE, page_size=3)) == names


async def test_a_node_deleted_between_two_pages_hides_no_other() -> None:
    async with pod("grpc_asyncio") as one:
        await add_slices(one.service, "a", "b", "c", "d")
        first = await one.call("list_nodes", parent=PLACE, page_size=2)
        await one.call.succeeded(await one.call("delete_node", name=first.nodes[0].name))
        rest = await one.call.all("list_nodes", parent=PLACE, page_size=2, page_token=first.next_page_token)
        assert ids(rest) == ["c", "d"]


@pytest.mark.parametrize("fields", [{"page_size": -1}, {"page_token": "nonsense"}, {"page_token": "bm9wZTo="}])
async def test_an_invalid_page_is_refused(fields: dict) -> None:
    async with pod("grpc_asyncio") as one:
        with pytest.raises(exceptions.InvalidArgument):
            await one.call("list_nodes", parent=PLACE, **fields)


@over_each_transport
async def test_every_zone_can_be_listed_at_once_and_nodes_of_one_name_are_distinguished(transport: str) -> None:
    async with pod(transport, more_zones=("local-b",)) as one:
        await create(one.call, PLACE, "same")
        await create(one.call, PLACE_B, "same")
        found = await one.call.all("list_nodes", parent=EVERYWHERE)
        assert [item.name for item in found] == [f"{PLACE}/nodes/same", f"{PLACE_B}/nodes/same"]
        assert ids(await one.call.all("list_nodes", parent=PLACE_B)) == ["same"]
        assert one.hosts.running() == ["same", "same@local-b"]


@over_each_transport
async def test_a_zone_that_does_not_answer_is_unreachable_and_the_others_are_listed(transport: str) -> None:
    faults = Faults(operation_seconds=0.02, unavailable={"local-b": 1})
    async with pod(transport, more_zones=("local-b",), faults=faults) as one:
        await add_slices(one.service, "here")
        partly = await one.call("list_nodes", parent=EVERYWHERE)
        assert list(partly.unreachable) == [PLACE_B]
        assert ids(list(partly.nodes)) == ["here"]
        assert not (await one.call("list_nodes", parent=EVERYWHERE)).unreachable


@over_each_transport
async def test_accelerator_types_have_their_topology(transport: str) -> None:
    async with pod(transport) as one:
        types = {
            item.type_: item for item in await one.call.all("list_accelerator_types", parent=PLACE, page_size=50)
        }
        assert set(types) == set(accelerator_types.shapes())
        assert [config.topology for config in types["v3-32"].accelerator_configs] == ["4x4"]
        assert types["local-3"].name == f"{PLACE}/acceleratorTypes/local-3"


@over_each_transport
async def test_runtime_versions_can_be_listed(transport: str) -> None:
    async with pod(transport) as one:
        versions = {item.version: item.name for item in await one.call.all("list_runtime_versions", parent=PLACE)}
        assert {"tpu-ubuntu2204-base", "v2-alpha-tpuv5-lite", "v2-alpha-tpuv6e"} <= set(versions)
        assert versions["v2-alpha"] == f"{PLACE}/runtimeVersions/v2-alpha"


@over_each_transport
async def test_locations_are_the_zones_of_the_pod(transport: str) -> None:
    async with serving(more_zones=("local-b",)) as (service, _), connected(service, transport) as call:
        found = await call("list_locations", name="projects/local")
        assert [location.location_id for location in found.locations] == ["local-a", "local-b"]
        assert found.locations[0].name == PLACE


async def test_a_filter_is_refused_rather_than_ignored() -> None:
    async with pod("grpc_asyncio") as one:
        with pytest.raises(exceptions.MethodNotImplemented):
            await one.call("list_accelerator_types", parent=PLACE, filter="type=v2-8")


@pytest.mark.parametrize(
    ("workers", "cores", "name"),
    [(4, 8, "v3-32"), (1, 8, "v3-8"), (1, 4, "v4-8"), (1, 1, "v6e-1"), (4, 1, "local-4"), (3, 8, "local-3")],
)
def test_a_shape_gets_a_real_type_where_one_fits(workers: int, cores: int, name: str) -> None:
    assert accelerator_types.accelerator_type_for(workers, cores) == name


def test_a_topology_holds_as_many_chips_as_its_type() -> None:
    from math import prod

    from tui.pod.accelerator import parse

    for shape in accelerator_types.shapes().values():
        if shape.topology is not None:
            real = parse(shape.name)
            assert real is not None
            assert prod(int(side) for side in shape.topology.split("x")) == real.chips
