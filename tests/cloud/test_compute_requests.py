"""Tests of requests to Compute Engine that several threads make with the same sessions, and of strange answers."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tui.cloud.compute.compute_client import ComputeClient
from tui.cloud.compute.compute_requests import ComputeRequests
from tui.errors import CloudError
from tui.settings import Settings


class Contended(list[ComputeClient]):
    """Sessions of which another thread always takes the last."""

    def __bool__(self) -> bool:
        return True


def requests_to(home: Path, endpoint: str = "http://127.0.0.1:1") -> ComputeRequests:
    return ComputeRequests(Settings(home=home, project="local", endpoints={"compute": endpoint}))


@contextmanager
def answering(body: bytes, *, status: int = 200, after_s: float = 0.0) -> Iterator[str]:
    """Serve one answer to every request, `after_s` seconds later, and yield the address."""

    class Answers(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            time.sleep(after_s)
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Answers) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


async def test_a_session_that_another_thread_has_just_taken_is_replaced(tmp_path: Path) -> None:
    requests = requests_to(tmp_path)
    requests._idle = Contended()
    assert await requests.ask("nothing is done", "", lambda client: client.project) == "local"
    await requests.close()


@pytest.mark.parametrize(
    ("path", "sent"),
    [
        ("global/instanceTemplates/t", "local/global/instanceTemplates/t"),
        ("projects/shared/global/instanceTemplates/t", "shared/global/instanceTemplates/t"),
        ("https://compute.googleapis.com/compute/v1/projects/shared/zones/z/disks/d", "shared/zones/z/disks/d"),
    ],
)
async def test_a_resource_of_another_project_is_read_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str, sent: str
) -> None:
    monkeypatch.setattr(ComputeClient, "get", lambda _, requested: {"requested": requested})

    async with requests_to(tmp_path) as requests:
        assert await requests.get("nothing is read", "", path) == {"requested": sent}


async def test_the_session_of_a_cancelled_request_is_closed_when_its_thread_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_asked, may_end, is_closed = threading.Event(), threading.Event(), threading.Event()
    monkeypatch.setattr(ComputeClient, "close", lambda _: is_closed.set())

    def wait(_: ComputeClient) -> None:
        is_asked.set()
        may_end.wait()

    requests = requests_to(tmp_path)
    asking = asyncio.create_task(requests.ask("nothing is done", "", wait))
    await asyncio.to_thread(is_asked.wait)
    asking.cancel()
    await requests.close()
    assert not is_closed.is_set()
    may_end.set()
    assert await asyncio.to_thread(is_closed.wait, 10)


@pytest.mark.parametrize(
    ("body", "status"), [(b"[]", 200), (b"<html>Sign in</html>", 200), (b'{"error": "access_denied"}', 403)]
)
async def test_a_server_that_is_not_compute_engine_is_not_reported_as_down(
    tmp_path: Path, body: bytes, status: int
) -> None:
    with answering(body, status=status) as address:
        requests = requests_to(tmp_path, address)
        with pytest.raises(CloudError) as caught:
            await requests.get("disk data cannot be read", "compute.disks.get", "zones/z/disks/data")
        await requests.close()
    assert f"{address} does not answer as the Compute Engine API does: answer" in caught.value.why


async def test_a_list_that_names_the_same_next_page_again_is_refused(tmp_path: Path) -> None:
    with answering(b'{"items": [], "nextPageToken": "more"}') as address:
        requests = requests_to(tmp_path, address)
        with pytest.raises(CloudError, match="does not answer as the Compute Engine API does"):
            await requests.ask("disks cannot be listed", "", lambda client: client.items("local/zones/z/disks"))
        await requests.close()


async def test_a_local_pod_that_answers_late_is_not_reported_as_down(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tui.cloud.retries.LOCAL_RETRY_S", 0.1)
    with answering(b'{"name": "late"}', after_s=1.5) as endpoint:
        requests = requests_to(tmp_path, endpoint)
        answer = await requests.ask("it cannot be read", "", lambda client: client.get("local"))
        assert answer == {"name": "late"}
        await requests.close()


FIREWALL = "P/global/networks/default/getEffectiveFirewalls"


@pytest.mark.parametrize(
    ("path", "document", "wrong"),
    [
        ("P/zones/z/disks/d", '{"name": 5}', "answer.name should be of type string"),
        ("P/zones/z/disks/d", '{"name": "\\ud800"}', "answer.name should be of type string"),
        ("P/zones/z/disks/d", "{}", "answer.name should be of type name"),
        ("P/zones/z/disks/d", '{"name": ' + "9" * 5000 + "}", "answer has a number of 5000 digits"),
        ("P/zones/z/disks/d", "[" * 100_000, "answer has lists and objects more than 32 deep"),
        ("P/zones/z/disks", '{"items": [{"name": "d", "users": null}]}', "answer.items[0].users"),
        ("P/aggregated/disks", '{"items": {"zones/z": {"disks": {}}}}', "answer.items.zones/z.disks"),
        ("P/zones/z/instanceGroupManagers/g", '{"name": "g", "status": "x"}', "answer.status"),
        (FIREWALL, '{"firewalls": [{"name": "f", "sourceRanges": ["1.2.3.4/33"]}]}', "sourceRanges[0]"),
        (FIREWALL, '{"firewalls": [{"name": "f", "allowed": [{"ports": ["x"]}]}]}', "allowed[0].ports[0]"),
        ("P", '{"commonInstanceMetadata": {"items": [{"value": "v"}]}}', "items[0].key should be of type name"),
    ],
)
async def test_a_field_of_another_type_is_named(tmp_path: Path, path: str, document: str, wrong: str) -> None:
    with answering(document.encode()) as address:
        requests = requests_to(tmp_path, address)
        with pytest.raises(CloudError) as caught:
            await requests.ask("it cannot be read", "", lambda client: client.get(path))
        await requests.close()
    assert "does not answer as the Compute Engine API does: answer" in caught.value.why
    assert wrong in caught.value.why


async def test_an_answer_without_end_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tui.cloud.answers.MOST_BYTES", 1000)
    with answering(b'{"name": "%s"}' % (b"x" * 2000)) as address:
        requests = requests_to(tmp_path, address)
        with pytest.raises(CloudError, match="answer has more than 1000 bytes"):
            await requests.get("disk data cannot be read", "compute.disks.get", "zones/z/disks/data")
        await requests.close()
