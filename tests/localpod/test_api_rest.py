"""Tests of the HTTP and JSON of the API, as gcloud and Google's discovery clients send them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from tests.localpod.api_clients import PLACE, named, serving, until
from tests.localpod.api_hosts import SocketHosts
from tui.localpod.api.server import TpuService

pytestmark = pytest.mark.timing


class Http:
    """A JSON client without any library of Google's."""

    def __init__(self, session: aiohttp.ClientSession, service: TpuService, hosts: SocketHosts) -> None:
        self._session = session
        self.service = service
        self.hosts = hosts

    async def __call__(self, verb: str, path: str, **options: Any) -> tuple[int, Any]:
        url = f"http://127.0.0.1:{self.service.rest_port}/{path}"
        async with self._session.request(verb, url, **options) as answer:
            assert answer.content_type == "application/json"
            return answer.status, await answer.json()

    async def ok(self, verb: str, path: str, **options: Any) -> Any:
        status, document = await self(verb, path, **options)
        assert status == 200, document
        return document

    async def finished(self, operation: dict[str, Any], version: str = "v2") -> Any:
        async def done() -> Any:
            found = await self.ok("GET", f"{version}/{operation['name']}?alt=json")
            return found if found.get("done") else None

        return await until(done)


@asynccontextmanager
async def http(**options: Any) -> AsyncIterator[Http]:
    async with serving(**options) as (service, hosts):
        owner = {"Authorization": f"Bearer {service.token}"}
        async with aiohttp.ClientSession(headers=owner) as session:
            yield Http(session, service, hosts)


BODY = {
    "acceleratorType": "v2-8",
    "runtimeVersion": "tpu-ubuntu2204-base",
    "networkConfig": {"enableExternalIps": True},
    "labels": {"made-by": "hand"},
}


async def test_a_node_is_created_changed_and_deleted_over_plain_http() -> None:
    async with http() as call:
        operation = await call.ok("POST", f"v2/{PLACE}/nodes?alt=json&nodeId=plain", json=BODY)
        assert operation["metadata"]["@type"] == "type.googleapis.com/google.cloud.tpu.v2.OperationMetadata"
        assert operation["metadata"]["target"] == named("plain")
        assert "done" not in operation
        finished = await call.finished(operation)
        assert finished["response"]["@type"] == "type.googleapis.com/google.cloud.tpu.v2.Node"

        node = await call.ok("GET", f"v2/{named('plain')}?alt=json")
        assert (node["state"], node["health"], node["apiVersion"]) == ("READY", "HEALTHY", "V2")
        assert node["acceleratorConfig"] == {"type": "V2", "topology": "2x2"}
        assert node["networkEndpoints"][0]["accessConfig"]["externalIp"] == "127.0.0.1"
        assert node["id"].isdecimal()
        assert node["createTime"].endswith("Z")
        assert node["labels"] == {"made-by": "hand"}

        listed = await call.ok("GET", f"v2/{PLACE}/nodes?alt=json&pageSize=100&prettyPrint=false")
        assert listed == {"nodes": [node]}

        mask = "updateMask=labels%2Cnetwork_config.enable_external_ips"
        update = await call.ok("PATCH", f"v2/{named('plain')}?alt=json&{mask}", json={"labels": {"new": "1"}})
        changed = (await call.finished(update))["response"]
        assert changed["labels"] == {"new": "1"}
        assert "accessConfig" not in changed["networkEndpoints"][0]

        for verb, state in (("stop", "STOPPED"), ("start", "READY")):
            operation = await call.ok("POST", f"v2/{named('plain')}:{verb}?alt=json", json={})
            assert (await call.finished(operation))["response"]["state"] == state

        deleted = await call.finished(await call.ok("DELETE", f"v2/{named('plain')}?alt=json"))
        assert deleted["response"] == {"@type": "type.googleapis.com/google.protobuf.Empty"}
        assert await call.ok("GET", f"v2/{PLACE}/nodes") == {}


async def test_guest_attributes_come_worker_by_worker() -> None:
    async with http() as call:
        await call.service.add_slice("crew", 2, 4)
        path = f"v2/{named('crew')}:getGuestAttributes?alt=json"
        found = await call.ok("POST", path, json={"queryPath": "hostkeys/", "workerIds": ["1"]})
        (only,) = found["guestAttributes"]
        (entry,) = only["queryValue"]["items"]
        assert (entry["namespace"], entry["key"]) == ("hostkeys", "ssh-ed25519")
        assert entry["value"].startswith("AAAAC3NzaC1lZDI1NTE5")


async def test_enums_are_names() -> None:
    async with http() as call:
        await call.service.add_slice("one", 1, 8)
        assert (await call.ok("GET", f"v2/{named('one')}?alt=json"))["state"] == "READY"


async def test_a_queued_resource_is_created_and_deleted_by_force() -> None:
    async with http() as call:
        spec = {
            "parent": PLACE,
            "nodeId": "granted",
            "node": {k: BODY[k] for k in ("acceleratorType", "runtimeVersion")},
        }
        await call.ok(
            "POST", f"v2/{PLACE}/queuedResources?queuedResourceId=wish&alt=json", json={"tpu": {"nodeSpec": [spec]}}
        )

        async def active() -> Any:
            found = await call.ok("GET", f"v2/{PLACE}/queuedResources/wish?alt=json")
            return found if found["state"]["state"] == "ACTIVE" else None

        assert (await until(active))["state"] == {"state": "ACTIVE", "activeData": {}}
        status, refused = await call("DELETE", f"v2/{PLACE}/queuedResources/wish?alt=json&force=false")
        assert (status, refused["error"]["status"]) == (400, "FAILED_PRECONDITION")
        await call.finished(await call.ok("DELETE", f"v2/{PLACE}/queuedResources/wish?alt=json&force=true"))
        assert await call.ok("GET", f"v2/{PLACE}/queuedResources?alt=json") == {}


async def test_the_alpha_api_has_its_own_names_for_the_same_things() -> None:
    async with http() as call:
        spec = {
            "parent": PLACE,
            "multiNodeParams": {"nodeCount": 2},
            "node": {"acceleratorType": "v2-8", "runtimeVersion": "v2-alpha", "autocheckpointEnabled": False},
        }
        body = {"tpu": {"nodeSpec": [spec]}, "bestEffort": {}}
        operation = await call.ok("POST", f"v2alpha1/{PLACE}/queuedResources?queuedResourceId=pair", json=body)
        assert operation["metadata"]["@type"].endswith("google.cloud.tpu.v2alpha1.OperationMetadata")
        found = await call.ok("GET", f"v2alpha1/{PLACE}/queuedResources/pair")
        assert found["tpu"]["nodeSpec"][0]["multiNodeParams"] == {"nodeCount": 2}
        assert "multisliceParams" in (await call.ok("GET", f"v2/{PLACE}/queuedResources/pair"))["tpu"]["nodeSpec"][0]

        async def both() -> bool:
            nodes = (await call.ok("GET", f"v2alpha1/{PLACE}/nodes")).get("nodes", [])
            return [node["name"] for node in nodes] == [named("pair-0"), named("pair-1")]

        assert await until(both)


async def test_types_versions_and_zones_are_listed_at_their_public_paths() -> None:
    async with http(more_zones=("local-b",)) as call:
        types = await call.ok("GET", f"v2/{PLACE}/acceleratorTypes")
        assert {"v3-32", "local-4"} <= {item["type"] for item in types["acceleratorTypes"]}
        (one,) = [item for item in types["acceleratorTypes"] if item["type"] == "v3-32"]
        assert one["acceleratorConfigs"] == [{"type": "V3", "topology": "4x4"}]
        versions = await call.ok("GET", f"v2/{PLACE}/runtimeVersions?pageSize=2")
        assert len(versions["runtimeVersions"]) == 2
        assert versions["nextPageToken"]
        for version in ("v1", "v2", "v2alpha1"):
            zones = await call.ok("GET", f"{version}/projects/local/locations")
            assert [zone["locationId"] for zone in zones["locations"]] == ["local-a", "local-b"]


async def test_an_error_is_googles_json_with_the_matching_http_status() -> None:
    async with http() as call:
        assert await call("GET", f"v2/{named('ghost')}?alt=json") == (
            404,
            {
                "error": {
                    "code": 404,
                    "message": f"Resource '{named('ghost')}' was not found",
                    "status": "NOT_FOUND",
                    "details": [
                        {"@type": "type.googleapis.com/google.rpc.ResourceInfo", "resourceName": named("ghost")}
                    ],
                }
            },
        )


@pytest.mark.parametrize(
    ("verb", "path", "options", "status", "code"),
    [
        ("POST", f"v2/{PLACE}/nodes?nodeId=x", {"data": b"{not json"}, 400, "INVALID_ARGUMENT"),
        ("POST", f"v2/{PLACE}/nodes?nodeId=x", {"json": [1]}, 400, "INVALID_ARGUMENT"),
        ("POST", f"v2/{PLACE}/nodes?nodeId=x", {"json": {"colour": "red"}}, 400, "INVALID_ARGUMENT"),
        ("POST", f"v2/{PLACE}/nodes?nodeId=x", {"json": {"labels": "none"}}, 400, "INVALID_ARGUMENT"),
        ("GET", f"v2/{PLACE}/nodes?pageSize=many", {}, 400, "INVALID_ARGUMENT"),
        ("GET", f"v2/{PLACE}/nodes?colour=red", {}, 400, "INVALID_ARGUMENT"),
        ("GET", f"v2/{PLACE}/nodes?pageToken=a&pageToken.b=c", {}, 400, "INVALID_ARGUMENT"),
        ("PATCH", f"v2/{named('x')}?node=y", {"json": {}}, 400, "INVALID_ARGUMENT"),
        (
            "POST",
            f"v2/{named('x')}:getGuestAttributes?workerIds=0",
            {"json": {"workerIds": "1"}},
            400,
            "INVALID_ARGUMENT",
        ),
        ("GET", "v2/projects/other/locations/local-a/nodes", {}, 403, "PERMISSION_DENIED"),
        ("GET", "v2/projects/local/locations/moon/nodes", {}, 403, "PERMISSION_DENIED"),
        ("GET", f"v2/{PLACE}/planets", {}, 404, "NOT_FOUND"),
        ("PUT", f"v2/{PLACE}/nodes", {}, 404, "NOT_FOUND"),
        ("GET", f"v9/{PLACE}/nodes", {}, 404, "NOT_FOUND"),
        ("GET", "", {}, 404, "NOT_FOUND"),
    ],
)
async def test_an_invalid_request_is_refused_in_json(
    verb: str, path: str, options: dict[str, Any], status: int, code: str
) -> None:
    async with http() as call:
        answered, document = await call(verb, path, **options)
        assert (answered, document["error"]["status"]) == (status, code)
        assert document["error"]["code"] == status


async def test_metadata_as_large_as_the_real_api_takes_is_accepted() -> None:
    async with http() as call:
        await call.service.add_slice("wide", 1, 1)
        body = {"metadata": {"a": "x" * 250_000, "b": "y" * 250_000}}
        update = await call.ok("PATCH", f"v2/{named('wide')}?updateMask=metadata", json=body)
        assert (await call.finished(update))["response"]["metadata"] == body["metadata"]


async def test_another_api_can_be_served_on_the_same_port() -> None:
    async def networks(request: web.Request) -> web.Response:
        return web.json_response({"kind": "compute#networkList"})

    routes = [web.get("/compute/v1/projects/{project}/global/networks", networks)]
    async with http(rest_routes=routes) as call:
        assert await call.ok("GET", "compute/v1/projects/local/global/networks") == {"kind": "compute#networkList"}
        assert await call.ok("GET", f"v2/{PLACE}/nodes") == {}
