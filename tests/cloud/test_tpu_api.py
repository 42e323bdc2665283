from __future__ import annotations

import asyncio
import socket
from dataclasses import replace
from pathlib import Path

import grpc
import grpc.aio
import pytest
from google.auth.credentials import Credentials
from google.auth.exceptions import RefreshError
from google.auth.transport.grpc import AuthMetadataPlugin
from google.auth.transport.requests import Request
from google.cloud import tpu_v2
from google.cloud.tpu_v2 import TpuAsyncClient
from google.cloud.tpu_v2.services.tpu.transports.grpc_asyncio import TpuGrpcAsyncIOTransport

from tests.cloud.conftest import Cloud, a_request
from tests.localpod.api_clients import until
from tests.localpod.faults import FOREVER
from tui.cloud.open_inventory import open_inventory
from tui.cloud.tpu.tpu_api import TpuApi
from tui.cloud.tpu.tpu_client import TpuConnection
from tui.errors import CloudError, UsageError
from tui.pod.creation.slice_request import QueueRequest
from tui.pod.slice import Slice
from tui.settings import Settings

pytestmark = [pytest.mark.timing, pytest.mark.py310]


async def names(api: TpuApi) -> list[str]:
    return [slice_.path for slice_ in (await api.slices()).slices]


async def test_a_created_slice_is_listed_with_its_workers(cloud: Cloud) -> None:
    await cloud.make("pod", "v3-32")

    (slice_,) = (await cloud.api.slices()).slices

    assert (slice_.name, slice_.zone, slice_.project, slice_.state) == ("pod", "local-a", "local", "READY")
    assert (slice_.accelerator_type, len(slice_.workers), slice_.cores) == ("v3-32", 4, 32)
    assert slice_ == await cloud.api.get("pod", "local-a")
    ports = [worker.port for worker in slice_.workers]
    assert len(set(ports)) == 4
    for port in ports:
        with socket.create_connection(("127.0.0.1", port), timeout=5):
            pass


async def test_a_slice_of_a_local_type_has_the_cores_of_its_label(cloud: Cloud) -> None:
    await cloud.make("pod", "local-3", labels={"cores-per-worker": "5"})

    slice_ = await cloud.api.get("pod", None)

    assert slice_.cores == 5 * len(slice_.workers)


async def test_host_keys_and_hostnames_come_from_guest_attributes(cloud: Cloud) -> None:
    await cloud.make("pod", "v2-32")
    bare = await cloud.api.get("pod", None)
    assert not any(worker.host_keys for worker in bare.workers)

    known = await cloud.api.host_keys(bare)

    assert len({worker.host_keys for worker in known.workers}) == 4
    assert all(worker.host_keys[0].startswith("ssh-ed25519 AAAA") for worker in known.workers)
    assert [worker.hostname.rpartition("-")[2] for worker in known.workers if worker.hostname] == ["0", "1", "2", "3"]


async def test_reading_the_host_keys_of_a_deleted_slice_leaves_it_unchanged(cloud: Cloud) -> None:
    await cloud.make("pod")
    slice_ = await cloud.api.get("pod", None)
    _ = [progress async for progress in cloud.api.lifecycle.delete("local-a", "pod")]

    assert await cloud.api.host_keys(slice_) == slice_


async def test_every_page_of_a_long_list_is_read(cloud: Cloud, monkeypatch: pytest.MonkeyPatch) -> None:
    await asyncio.gather(*(cloud.make(f"pod-{number}") for number in range(5)))
    monkeypatch.setattr("tui.localpod.api.resources.paging.MAX_PAGE_SIZE", 2)

    assert await names(cloud.api) == [f"local-a/pod-{number}" for number in range(5)]


async def test_a_list_whose_page_token_expires_is_read_again(cloud: Cloud, monkeypatch: pytest.MonkeyPatch) -> None:
    await asyncio.gather(*(cloud.make(f"pod-{number}") for number in range(5)))
    monkeypatch.setattr("tui.localpod.api.resources.paging.MAX_PAGE_SIZE", 2)

    cloud.service.faults.expired_page_tokens = 1
    assert await names(cloud.api) == [f"local-a/pod-{number}" for number in range(5)]

    cloud.service.faults.expired_page_tokens = FOREVER
    (problem,) = (await cloud.api.slices()).problems
    assert (problem.what, "page_token has expired" in problem.why) == ("slices in local-a cannot be listed", True)


async def test_slices_that_are_only_requested_are_no_nodes(cloud: Cloud) -> None:
    cloud.service.faults.worker_capacity = 0
    _ = [step async for step in cloud.api.create(a_request(queue=QueueRequest()), waits=False)]

    assert [slice_.name for slice_ in (await cloud.api.slices()).slices] == ["pod"]
    assert (await cloud.api.nodes()).slices == ()


async def test_only_configured_zones_are_listed_and_none_means_all(cloud: Cloud) -> None:
    await asyncio.gather(cloud.make("near"), cloud.make("far", zone="faraway-c"), cloud.make("next", zone="local-b"))

    assert await names(cloud.api) == ["local-a/near"]
    assert await names(cloud.connect(zones=("local-a", "faraway-c"))) == ["faraway-c/far", "local-a/near"]
    assert await names(cloud.connect(zones=())) == ["faraway-c/far", "local-a/near", "local-b/next"]


async def test_a_zone_that_fails_is_a_problem_and_the_others_are_listed(cloud: Cloud) -> None:
    await asyncio.gather(cloud.make("near"), cloud.make("next", zone="local-b"))
    cloud.service.faults.unavailable["local-b"] = FOREVER

    listing = await cloud.connect(zones=("local-a", "local-b")).slices()

    assert [slice_.path for slice_ in listing.slices] == ["local-a/near"]
    (problem,) = listing.problems
    assert isinstance(problem, CloudError)
    assert problem.what == "slices in local-b cannot be listed"
    assert "tried for" in problem.why


async def test_a_list_of_every_zone_names_those_that_did_not_answer(cloud: Cloud) -> None:
    await asyncio.gather(cloud.make("near"), cloud.make("next", zone="local-b"))
    cloud.service.faults.unavailable["local-b"] = FOREVER

    listing = await cloud.connect(zones=()).slices()

    assert [slice_.path for slice_ in listing.slices] == ["local-a/near"]
    assert [problem.what for problem in listing.problems] == ["slices in local-b cannot be listed"]


async def test_a_short_outage_is_waited_out(cloud: Cloud) -> None:
    await cloud.make("pod")
    cloud.service.faults.unavailable["local-a"] = 3

    listing = await cloud.api.slices()

    assert [slice_.name for slice_ in listing.slices] == ["pod"]
    assert listing.problems == ()
    assert cloud.service.faults.unavailable["local-a"] == 0


async def test_an_api_that_is_down_is_reported_with_the_time_of_the_attempts(cloud: Cloud) -> None:
    await cloud.service.close()

    listing = await cloud.connect(patience=0.4).slices()

    (problem,) = listing.problems
    assert isinstance(problem, CloudError)
    assert f"127.0.0.1:{cloud.service.grpc_port} is down or cannot be reached (tried for" in problem.why
    assert problem.why.endswith(" s): Connection refused")
    assert "tpu-tui local up" in problem.remedy
    with pytest.raises(CloudError, match="slice pod cannot be read"):
        await cloud.connect(patience=0.4).get("pod", "local-a")


async def test_an_expired_token_is_reported_with_the_command_to_log_in_again(cloud: Cloud) -> None:
    cloud.service.faults.expired_token = FOREVER

    (problem,) = (await cloud.api.slices()).problems

    assert "expired" in problem.why
    assert problem.remedy == "gcloud auth application-default login"


async def test_a_revoked_login_is_reported_at_once_without_a_retry(tmp_path: Path) -> None:
    requested = []

    class Revoked(Credentials):
        def refresh(self, request: object) -> None:
            requested.append(request)
            raise RefreshError("invalid_grant: Token has been expired or revoked.")

    server = grpc.aio.server()
    port = server.add_secure_port("127.0.0.1:0", grpc.local_server_credentials())
    await server.start()
    token = grpc.metadata_call_credentials(AuthMetadataPlugin(Revoked(), Request()))
    login = grpc.composite_channel_credentials(grpc.local_channel_credentials(), token)
    api = TpuApi(Settings(home=tmp_path, project="p", zones=("z",)), patience=20)
    channel = grpc.aio.secure_channel(f"127.0.0.1:{port}", login)
    api._api._client = TpuAsyncClient(transport=TpuGrpcAsyncIOTransport(channel=channel))

    (problem,) = (await api.slices()).problems

    assert problem.why == "the login has expired or was revoked"
    assert problem.remedy == "gcloud auth application-default login"
    assert len(requested) <= 2
    await api.close()
    await server.stop(None)


async def test_a_project_of_another_user_is_named(cloud: Cloud) -> None:
    (problem,) = (await cloud.connect(project="someone-elses").slices()).problems

    assert "someone-elses" in problem.why
    assert "--project" in problem.remedy


async def test_an_unknown_zone_is_reported_with_the_closest_one(cloud: Cloud) -> None:
    (problem,) = (await cloud.connect(zones=("lcal-b",)).slices()).problems

    assert isinstance(problem, UsageError)
    assert problem.what == "no such zone: lcal-b"
    assert "local-b" in problem.remedy
    with pytest.raises(UsageError, match="no such zone: lcal-b"):
        await cloud.api.get("pod", "lcal-b")


async def test_an_unknown_slice_is_reported_with_the_closest_one(cloud: Cloud) -> None:
    await cloud.make("vision")

    for zone in (None, "local-a"):
        with pytest.raises(UsageError) as caught:
            await cloud.api.get("visoin", zone)
        assert caught.value.remedy == "did you mean vision?"


async def test_a_slice_requested_in_the_wrong_zone_is_reported_with_its_zone(cloud: Cloud) -> None:
    await cloud.make("vision", zone="faraway-c")

    for zone in (None, "local-a"):
        with pytest.raises(UsageError) as caught:
            await cloud.api.get("vision", zone)
        assert caught.value.remedy == "it is in another zone: faraway-c/vision"


async def test_a_name_in_two_zones_is_not_guessed(cloud: Cloud) -> None:
    await asyncio.gather(cloud.make("pod"), cloud.make("pod", zone="local-b"))
    everywhere = cloud.connect(zones=())

    with pytest.raises(UsageError) as caught:
        await everywhere.get("pod", None)

    assert "local-a/pod, local-b/pod" in caught.value.remedy
    assert (await everywhere.get("pod", "local-b")).zone == "local-b"


async def test_an_invalid_name_is_reported_as_a_missing_slice(cloud: Cloud) -> None:
    with pytest.raises(UsageError, match="no such slice"):
        await cloud.api.get("No Such/Thing", "local-a")


async def test_a_queued_resource_is_listed_until_its_node_exists(cloud: Cloud) -> None:
    from google.cloud import tpu_v2

    cloud.service.faults.worker_capacity = 0
    client = await cloud.api._api.open()
    node = {"accelerator_type": "v2-8", "runtime_version": "tpu-ubuntu2204-base"}
    parent = "projects/local/locations/local-a"
    wish = tpu_v2.QueuedResource(tpu={"node_spec": [{"parent": parent, "node_id": "pod", "node": node}]})
    await client.create_queued_resource(parent=parent, queued_resource=wish, queued_resource_id="wish")

    async def row_where(state: str) -> Slice:
        async def find_row() -> Slice | None:
            (row,) = (await cloud.api.slices()).slices
            return row if row.state == state else None

        return await until(find_row)

    waiting = await row_where("WAITING_FOR_RESOURCES")
    assert (waiting.name, waiting.queued_resource, len(waiting.workers)) == ("pod", "wish", 0)
    assert (await cloud.api.get("pod", "local-a")).state == "WAITING_FOR_RESOURCES"

    cloud.service.faults.worker_capacity = None
    ready = await row_where("READY")
    assert (ready.name, ready.queued_resource, len(ready.workers)) == ("pod", "wish", 1)

    progress = [line async for line in cloud.api.lifecycle.delete("local-a", "pod")]
    assert progress[-1] == "queued resource wish is deleted"
    assert await names(cloud.api) == []


async def test_a_slow_api_does_not_block_the_event_loop(cloud: Cloud) -> None:
    await cloud.api.slices()
    cloud.service.faults.latency_seconds = 0.3
    asking = asyncio.ensure_future(cloud.api.slices())
    turns = 0
    while not asking.done():
        await asyncio.sleep(0.01)
        turns += 1

    assert turns > 5


async def test_the_settings_choose_the_source(cloud: Cloud, tmp_path: Path) -> None:
    path = tmp_path / "lab.hosts"
    path.write_text("10.0.0.1\n")
    endpoints = {"tpu": f"127.0.0.1:{cloud.service.grpc_port}"}
    settings = Settings(home=path.parent, endpoints=endpoints, token=cloud.service.token)
    await cloud.make("pod")

    over_api = open_inventory(settings)
    over_file = open_inventory(replace(settings, hosts=path))

    assert [slice_.name for slice_ in (await over_api.slices()).slices] == ["pod"]
    assert [slice_.name for slice_ in (await over_file.slices()).slices] == ["lab"]
    await over_api.close()


class _GarbageHandler(grpc.GenericRpcHandler):
    """A handler that answers every call with bytes that are no message."""

    def service(self, _details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler:
        async def answer(_request: bytes, _context: grpc.aio.ServicerContext) -> bytes:
            return b"\xff\xfe\x01no message"

        return grpc.unary_unary_rpc_method_handler(answer)


async def test_another_service_that_answers_is_reported_as_such(tmp_path: Path) -> None:
    server = grpc.aio.server(handlers=[_GarbageHandler()])
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    endpoints = {"tpu": f"127.0.0.1:{port}"}
    api = TpuApi(Settings(home=tmp_path, project="local", zones=("local-a",), endpoints=endpoints), patience=5.0)
    try:
        [problem] = (await api.slices()).problems
        assert "is not the Cloud TPU API" in problem.why
        with pytest.raises(CloudError, match="slice pod cannot be read"):
            await api.get("pod", "local-a")
    finally:
        await api.close()
        await server.stop(None)


async def test_a_list_that_names_the_same_next_page_again_is_refused(cloud: Cloud, tmp_path: Path) -> None:
    endpoints = {"tpu": f"127.0.0.1:{cloud.service.grpc_port}"}
    connection = TpuConnection(Settings(home=tmp_path, project="local", endpoints=endpoints), 5.0)
    client = await connection.open()

    async def endless(*_: object, **__: object) -> tpu_v2.ListNodesResponse:
        return tpu_v2.ListNodesResponse(next_page_token="more")

    client.list_nodes = endless
    with pytest.raises(CloudError, match="the API names the same next page again"):
        await connection.pages("slices cannot be listed", "list_nodes", {"parent": ""})
    await connection.close()
