"""TPU Nodes: the Cloud TPU API v1 of the pod through the real v1 client, through v2's, and over HTTP."""

from __future__ import annotations

from typing import Any

import aiohttp
import google.cloud.tpu_v1 as v1
import google.cloud.tpu_v2 as tpu
import pytest
from google.api_core import exceptions

from tests.localpod import refusals
from tests.localpod.api_clients import PLACE, Caller, connected, named, node, serving
from tui.localpod.api.server import TpuService

pytestmark = pytest.mark.timing

WANTED = v1.Node(accelerator_type="v3-32", tensorflow_version="pytorch-1.13", network="net", cidr_block="10.9.0.0/28")


async def created(call: Caller, node_id: str = "pod", wanted: v1.Node = WANTED) -> Any:
    """The operation of a creation, once it has ended."""
    return await call.succeeded(await call("create_node", parent=PLACE, node_id=node_id, node=wanted))


@pytest.mark.parametrize("transport", ["grpc", "grpc_asyncio"])
async def test_a_tpu_node_is_created_listed_and_deleted_by_the_real_client(transport: str) -> None:
    async with serving() as (service, hosts), connected(service, transport, version="v1") as call:
        done = await created(call)
        metadata, answer = v1.OperationMetadata(), v1.Node()
        assert done.metadata.Unpack(v1.OperationMetadata.pb(metadata))
        assert done.response.Unpack(v1.Node.pb(answer))
        assert (metadata.verb, metadata.target, metadata.api_version) == ("create", named("pod"), "v1")

        (listed,) = await call.all("list_nodes", parent=PLACE)
        assert listed == answer == await call("get_node", name=named("pod"))
        assert (listed.state, listed.health, listed.api_version) == (
            v1.Node.State.READY,
            v1.Node.Health.HEALTHY,
            v1.Node.ApiVersion.V1,
        )
        assert (listed.accelerator_type, listed.tensorflow_version) == ("v3-32", "pytorch-1.13")
        assert (listed.network, listed.cidr_block) == ("projects/local/global/networks/net", "10.9.0.0/28")
        endpoints = [(one.ip_address, one.port) for one in listed.network_endpoints]
        assert endpoints == [(f"10.9.0.{2 + index}", 8470) for index in range(4)]
        assert (listed.ip_address, listed.port) == ("10.9.0.2", "8470")
        assert hosts.running() == [], "nothing of it can be logged in to"

        await call.succeeded(await call("delete_node", name=named("pod")))
        assert await call.all("list_nodes", parent=PLACE) == []


async def test_both_versions_show_all_nodes() -> None:
    async with (
        serving() as (service, _),
        connected(service, "grpc_asyncio") as v2_call,
        connected(service, "grpc_asyncio", version="v1") as call,
    ):
        await created(call)
        await v2_call.succeeded(await v2_call("create_node", parent=PLACE, node_id="vm", node=node("v2-8")))

        pod, vm = await v2_call.all("list_nodes", parent=PLACE)
        assert (pod.name, pod.api_version, pod.runtime_version) == (
            named("pod"),
            tpu.Node.ApiVersion.V1,
            "pytorch-1.13",
        )
        assert [one.port for one in pod.network_endpoints] == [8470] * 4
        assert [(one.name, one.api_version) for one in await call.all("list_nodes", parent=PLACE)] == [
            (named("pod"), v1.Node.ApiVersion.V1),
            (named("vm"), v1.Node.ApiVersion.V2_ALPHA1),
        ]
        assert (vm.name, vm.api_version) == (named("vm"), tpu.Node.ApiVersion.V2)
        assert not (await v2_call("get_guest_attributes", name=named("pod"))).guest_attributes


async def test_versions_and_types_are_those_of_tpu_nodes() -> None:
    async with serving() as (service, _), connected(service, "grpc_asyncio", version="v1") as call:
        versions = await call.all("list_tensor_flow_versions", parent=PLACE)
        assert {"pytorch-1.13", "2.12.0"} <= {one.version for one in versions}
        types = {one.type_: one for one in await call.all("list_accelerator_types", parent=PLACE)}
        assert types["v3-32"].name == f"{PLACE}/acceleratorTypes/v3-32"


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"tensorflow_version": "tpu-ubuntu2204-base"}, "TensorFlow version 'tpu-ubuntu2204-base' was not found"),
        ({"accelerator_type": "v4-8"}, "v4-8 is not available as a TPU Node"),
        ({"cidr_block": "10.9.0.0/30"}, "is too small"),
        ({"cidr_block": "10.9.0.1/28"}, "is not a CIDR block"),
        ({"cidr_block": "10.9.0.8/29"}, "is in use"),
    ],
)
async def test_what_a_tpu_node_cannot_have_is_refused(change: dict[str, str], why: str) -> None:
    async with serving() as (service, _), connected(service, "grpc_asyncio", version="v1") as call:
        await created(call, "first", v1.Node(WANTED, accelerator_type="v3-8"))
        wanted = v1.Node(WANTED, **{"accelerator_type": "v3-8", **change})
        with pytest.raises(exceptions.InvalidArgument, match=why):
            await call("create_node", parent=PLACE, node_id="other", node=wanted)


async def test_faults_are_those_of_the_service() -> None:
    async with serving() as (service, _), connected(service, "grpc_asyncio", version="v1") as call:
        service.faults.refusals["CreateNode"] = [refusals.tpu_node_denied()]
        with pytest.raises(exceptions.FailedPrecondition, match="Please migrate to TPU VM Architecture"):
            await created(call)
        service.faults.worker_capacity = 1
        operation = await call.done(await call("create_node", parent=PLACE, node_id="pod", node=WANTED))
        assert "no more capacity" in operation.error.message
        async with connected(service, "grpc_asyncio", "another", version="v1") as stranger:
            with pytest.raises(exceptions.Unauthenticated):
                await stranger("list_nodes", parent=PLACE)


async def rest(service: TpuService, verb: str, path: str, **options: Any) -> tuple[int, Any]:
    headers = {"Authorization": f"Bearer {service.token}"}
    async with (
        aiohttp.ClientSession(f"http://127.0.0.1:{service.rest_port}", headers=headers) as session,
        session.request(verb, path, **options) as answer,
    ):
        return answer.status, await answer.json()


async def test_http_has_the_documents_of_v1() -> None:
    async with serving() as (service, _):
        body = {"acceleratorType": "v2-8", "tensorflowVersion": "2.12.0", "schedulingConfig": {"preemptible": True}}
        status, operation = await rest(service, "POST", f"/v1/{PLACE}/nodes?nodeId=pod", json=body)
        assert (status, operation["metadata"]["@type"]) == (
            200,
            "type.googleapis.com/google.cloud.tpu.v1.OperationMetadata",
        )
        while not operation.get("done"):
            status, operation = await rest(service, "GET", f"/v1/{operation['name']}")
        assert operation["response"]["@type"] == "type.googleapis.com/google.cloud.tpu.v1.Node"
        status, found = await rest(service, "GET", f"/v1/{named('pod')}")
        assert (found["state"], found["apiVersion"], found["tensorflowVersion"]) == ("READY", "V1", "2.12.0")
        assert found["schedulingConfig"] == {"preemptible": True}
        status, found = await rest(service, "GET", f"/v2/{PLACE}/tensorflowVersions")
        assert status == 404, "v2 has runtime versions"
