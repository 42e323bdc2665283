"""Tests of HTTP through the bucket's proxy, at a server that records what reaches it and at the real one."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import signal
import socket
import threading
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from tests.localpod.recording_store import BUCKETS, PLAIN, ZIPPED, make_program
from tests.pods import is_running, until, wait_until
from tests.stores import needs_store
from tui.localpod.bucket import bucket as module
from tui.localpod.bucket.bucket import Bucket

pytestmark = pytest.mark.timing

TIMEOUT = 30.0
MOST_BUFFERED = 64 << 20
"""Bytes that proxy and kernel may hold of a body whose reader reads nothing."""
ROUND_TRIPS = 20
"""Requests through the proxy, one after the other: in each, its loop would use any connection that can move."""
BIG = 1 << 40


@contextlib.asynccontextmanager
async def started(directory: Path, program: Path | None) -> AsyncIterator[Bucket]:
    """Run a bucket, with a program in place of fake-gcs-server if there is one."""
    made = Bucket(directory)
    try:
        with pytest.MonkeyPatch.context() as patch:
            if program is not None:
                patch.setattr(module, "find_binary", lambda: program)
            await made.start(os.environ)
        yield made
    finally:
        await made.close()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def recording(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Bucket]:
    """Return a bucket whose object store is the recording one."""
    directory = tmp_path_factory.mktemp("recording")
    async with started(directory, make_program(directory / "store")) as made:
        yield made


@pytest_asyncio.fixture
async def mortal(tmp_path: Path) -> AsyncIterator[Bucket]:
    """Return a bucket whose recording store a test may end."""
    async with started(tmp_path, make_program(tmp_path / "store")) as made:
        yield made


@pytest_asyncio.fixture
async def bucket(tmp_path: Path) -> AsyncIterator[Bucket]:
    """Return a bucket with the real object store."""
    async with started(tmp_path, None) as made:
        yield made


def connect(bucket: Bucket) -> http.client.HTTPConnection:
    return http.client.HTTPConnection("127.0.0.1", bucket.port, timeout=TIMEOUT)


def ask(
    bucket: Bucket, method: str, path: str, body: Any = None, **headers: str
) -> tuple[http.client.HTTPResponse, bytes]:
    """Send one request; return the answer and its body."""
    connection = connect(bucket)
    try:
        connection.request(method, path, body, {name.replace("_", "-"): value for name, value in headers.items()})
        answer = connection.getresponse()
        return answer, answer.read()
    finally:
        connection.close()


def raw(bucket: Bucket, sent: bytes) -> socket.socket:
    """Send bytes on a new connection, with HOST replaced by the bucket's."""
    made = socket.create_connection(("127.0.0.1", bucket.port), timeout=TIMEOUT)
    made.sendall(sent.replace(b"HOST", f"127.0.0.1:{bucket.port}".encode()))
    return made


def until_closed(made: socket.socket) -> bytes:
    parts = []
    while part := made.recv(1 << 16):
        parts.append(part)
    return b"".join(parts)


def seen(bucket: Bucket, line: str) -> list[dict[str, Any]]:
    """Return the store's records of the requests whose first line begins so."""
    records = json.loads(ask(bucket, "GET", "/seen")[1])
    return [record for record in records if record["line"].startswith(line)]


def store_of(bucket: Bucket) -> int:
    """Return the process of the object store."""
    assert bucket._process is not None
    proxy = bucket._process.pid
    [store] = map(int, Path(f"/proc/{proxy}/task/{proxy}/children").read_text().split())
    return store


def connections(bucket: Bucket) -> int:
    """Return the number of connections that the object store holds."""
    store = store_of(bucket)
    words = Path(f"/proc/{store}/cmdline").read_text().split("\0")
    port = f":{int(words[words.index('-port') + 1]):04X}"
    rows = [line.split() for line in Path(f"/proc/{store}/net/tcp").read_text().splitlines()[1:]]
    established, left_by_the_client = "01", "08"
    return sum(row[1].endswith(port) and row[3] in (established, left_by_the_client) for row in rows)


def until_held_back(bucket: Bucket, amount: Callable[[], int]) -> int:
    """Return an amount once it stays the same, although the proxy goes on with other requests; at most all."""
    last, same = -1, 0
    while same < ROUND_TRIPS and last < MOST_BUFFERED:
        ask(bucket, "GET", "/turn")
        before, last = last, amount()
        same = same + 1 if last == before else 0
    return last


@pytest.mark.parametrize(
    "target",
    [
        "/storage/v1/b/x/o/runs%2Fa%20b%2F%C3%A9.bin?alt=media&fields=a(b,c)%2Cd",
        "/download/storage/v1/b/x/o/a+b%2Bc%25%2e?x=%2B+&y=a%2Fb&z",
        "/x/../y//z/./%2E%2E/%",
        "//127.0.0.1:1/x",
        '/~!$&\'()*,;=:@[]{}|^`\\"<>#x?[]{}|^`\\"<>#&?',
        "/x?a=http://elsewhere.example/?b",
    ],
)
def test_a_target_reaches_the_server_byte_for_byte(recording: Bucket, target: str) -> None:
    with raw(recording, f"GET {target} HTTP/1.1\r\nHost: HOST\r\nConnection: close\r\n\r\n".encode()) as made:
        answer = until_closed(made)
    record = json.loads(answer.partition(b"\r\n\r\n")[2])
    assert record["line"].encode("latin-1").decode() == f"GET {target} HTTP/1.1"


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "PROPFIND"])
def test_headers_reach_the_server_unchanged_and_none_is_added(recording: Bucket, method: str) -> None:
    sent = [
        ("Host", f"127.0.0.1:{recording.port}"),
        ("Range", "bytes=10-19"),
        ("content-range", "bytes 0-0/*"),
        ("X-Goog-Meta-B", "1"),
        ("X-Goog-Meta-B", "2"),
        ("X-Goog-Meta-C", "é"),
        ("Authorization", "Bearer x"),
        ("Cookie", "a=b"),
        ("If-None-Match", '"e,t"'),
    ]
    head = "".join(f"{name}: {value}\r\n" for name, value in sent)
    with raw(recording, f"{method} /headers HTTP/1.1\r\n{head}Content-Length: 1\r\n\r\nx".encode()) as made:
        answer = http.client.HTTPResponse(made)
        answer.begin()
        arrived = json.loads(answer.read())["headers"]
    lower = sorted((name.lower(), value.encode("latin-1").decode()) for name, value in arrived)
    assert lower == sorted((name.lower(), value) for name, value in [*sent, ("content-length", "1")])


def test_an_answers_status_and_headers_are_the_servers(recording: Bucket) -> None:
    answer, body = ask(recording, "GET", "/answers/hashes")
    assert (answer.status, body, answer.headers["Content-Type"]) == (404, b"no", "x/y")
    assert answer.headers.get_all("X-Goog-Hash") == ["crc32c=AAAAAA==", "md5=1B2M2Y8AsgTpgAmY7PhCfg=="]
    answer, body = ask(recording, "GET", "/answers/hashes")
    assert "Cookie" not in dict(seen(recording, "GET /answers/hashes")[-1]["headers"])


def test_a_resumable_uploads_308_keeps_its_phrase_and_range(recording: Bucket) -> None:
    answer, _ = ask(recording, "PUT", "/answers/resume", b"x" * 42)
    assert (answer.status, answer.reason, answer.headers["Range"]) == (308, "Resume Incomplete", "bytes=0-41")


def test_a_redirect_is_the_clients_to_follow(recording: Bucket) -> None:
    answer, _ = ask(recording, "GET", "/answers/moved")
    assert (answer.status, answer.headers["Location"]) == (302, "http://elsewhere.example/x")


@pytest.mark.parametrize("accepted", [{}, {"Accept_Encoding": "gzip"}])
def test_compressed_content_is_left_as_it_is(recording: Bucket, accepted: dict[str, str]) -> None:
    answer, body = ask(recording, "GET", "/answers/gzip", **accepted)
    assert (body, answer.headers["Content-Encoding"]) == (ZIPPED, "gzip")
    _, body = ask(recording, "PUT", "/keep", ZIPPED, Content_Encoding="gzip", Content_Type="x/y", **accepted)
    record = json.loads(body)
    assert record["body"].encode("latin-1") == ZIPPED
    assert {"content-encoding": "gzip", "content-length": str(len(ZIPPED))}.items() <= {
        name.lower(): value for name, value in record["headers"]
    }.items()


def test_a_head_request_gets_the_length_and_no_body(recording: Bucket) -> None:
    with raw(recording, b"HEAD /answers/gzip HTTP/1.1\r\nHost: HOST\r\nConnection: close\r\n\r\n") as made:
        head, _, body = until_closed(made).partition(b"\r\n\r\n")
    assert f"Content-Length: {len(ZIPPED)}".encode() in head
    assert body == b""


def test_bodies_without_a_known_length_pass_both_ways(recording: Bucket) -> None:
    _, body = ask(recording, "GET", "/answers/chunked")
    assert body == PLAIN + ZIPPED
    connection = connect(recording)
    connection.request("PUT", "/x", iter([b"a" * 100_000, b"b" * 7]), encode_chunked=True)
    record = json.loads(connection.getresponse().read())
    connection.close()
    assert (record["received"], record["is_whole"]) == (100_007, True)


@pytest.mark.parametrize("path", ["/x", "/answers/chunked", BUCKETS])
def test_an_http_1_0_client_gets_the_answer_and_then_the_end(recording: Bucket, path: str) -> None:
    with raw(recording, f"GET {path} HTTP/1.0\r\nHost: HOST\r\n\r\n".encode()) as made:
        head, _, body = until_closed(made).partition(b"\r\n\r\n")
    assert b" 200 " in head.partition(b"\r\n")[0]
    assert b"transfer-encoding" not in head.lower()
    if path == "/answers/chunked":
        assert body == PLAIN + ZIPPED
    else:
        assert json.loads(body)


def test_a_connection_stays_open_for_further_requests(recording: Bucket) -> None:
    connection = connect(recording)
    connection.connect()
    local = connection.sock.getsockname()
    for path in ("/1", BUCKETS, "/2", "/answers/chunked", "/3"):
        connection.request("POST" if path != BUCKETS else "GET", path, b"body" if path != BUCKETS else None)
        assert connection.getresponse().read()
        assert connection.sock is not None
        assert connection.sock.getsockname() == local
    connection.close()


def test_requests_sent_before_the_first_answer_are_answered_in_order(recording: Bucket) -> None:
    first = b"GET /late HTTP/1.1\r\nHost: HOST\r\n\r\n"
    second = f"GET {BUCKETS} HTTP/1.1\r\nHost: HOST\r\n\r\n".encode()
    third = b"PUT /third HTTP/1.1\r\nHost: HOST\r\nContent-Length: 3\r\n\r\nabc"
    last = b"GET /last HTTP/1.1\r\nHost: HOST\r\nConnection: close\r\n\r\n"
    with raw(recording, second + first + third + last) as made:
        answers = until_closed(made)
    places = [answers.index(text) for text in (b'"items"', b"late", b"PUT /third", b"GET /last")]
    assert places == sorted(places)


def test_clients_at_the_same_time_get_their_own_answers(recording: Bucket) -> None:
    wrong: list[str] = []

    def work(index: int) -> None:
        connection = connect(recording)
        for turn in range(20):
            body = f"{index}-{turn} ".encode() * (index + 1) * 1000
            connection.request("PUT", f"/at-once/{index}/{turn}", body)
            record = json.loads(connection.getresponse().read())
            if record["received"] != len(body) or not record["line"].startswith(f"PUT /at-once/{index}/{turn} "):
                wrong.append(record["line"])
        connection.close()

    threads = [threading.Thread(target=work, args=[index]) for index in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_a_slow_answer_does_not_delay_other_clients(recording: Bucket) -> None:
    with raw(recording, b"GET /endless HTTP/1.1\r\nHost: HOST\r\n\r\n") as made:
        assert made.recv(10)
        assert ask(recording, "GET", "/other")[0].status == 200


def test_a_client_that_waits_for_100_is_asked_for_its_body(recording: Bucket) -> None:
    head = b"PUT /x HTTP/1.1\r\nHost: HOST\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n"
    with raw(recording, head) as made:
        assert made.recv(1 << 16) == b"HTTP/1.1 100 Continue\r\n\r\n"
        made.sendall(b"abc")
        answer = http.client.HTTPResponse(made)
        answer.begin()
        record = json.loads(answer.read())
    assert (answer.status, record["received"]) == (200, 3)


def test_a_refused_client_that_waits_for_100_is_not_asked_for_its_body(recording: Bucket) -> None:
    head = b"PUT /refused HTTP/1.1\r\nHost: evil.example\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n"
    with raw(recording, head) as made:
        answer = until_closed(made)
    assert answer.startswith(b"HTTP/1.1 403 Forbidden\r\n")
    assert seen(recording, "PUT /refused") == []


def test_an_upload_reaches_the_server_before_it_has_arrived_whole(recording: Bucket) -> None:
    with raw(recording, b"PUT /partly HTTP/1.1\r\nHost: HOST\r\nContent-Length: 2000000\r\n\r\n" + b"a" * 100_000):
        wait_until(lambda: [one["received"] for one in seen(recording, "PUT /partly")] == [100_000], "no part came")


def test_an_upload_that_the_server_does_not_take_is_held_back(recording: Bucket) -> None:
    sent = 0
    with raw(recording, f"PUT /stall HTTP/1.1\r\nHost: HOST\r\nContent-Length: {BIG}\r\n\r\n".encode()) as made:
        made.setblocking(False)

        def send() -> int:
            nonlocal sent
            with contextlib.suppress(BlockingIOError):
                while sent < MOST_BUFFERED:
                    sent += made.send(bytes(1 << 20))
            return sent

        assert 0 < until_held_back(recording, send) < MOST_BUFFERED
    ask(recording, "GET", "/go%20on")


def endless(bucket: Bucket, name: str) -> dict[str, Any]:
    """Return the store's record of the request for an endless answer that has this name."""
    return next(one for one in seen(bucket, "GET /endless") if ["X-Name", name] in one["headers"])


def test_a_download_that_the_client_does_not_take_is_held_back(recording: Bucket) -> None:
    with raw(recording, b"GET /endless HTTP/1.1\r\nHost: HOST\r\nX-Name: held\r\n\r\n") as made:
        assert made.recv(10)
        assert 0 < until_held_back(recording, lambda: endless(recording, "held")["sent"]) < MOST_BUFFERED


def test_a_client_that_leaves_ends_the_download_at_the_server(recording: Bucket) -> None:
    with raw(recording, b"GET /endless HTTP/1.1\r\nHost: HOST\r\nX-Name: left\r\n\r\n") as made:
        assert made.recv(10)
    wait_until(lambda: endless(recording, "left").get("sending") == "broken off", "the server ceases to send")


def test_a_client_that_leaves_ends_the_upload_at_the_server(recording: Bucket) -> None:
    with raw(recording, b"PUT /left HTTP/1.1\r\nHost: HOST\r\nContent-Length: 9\r\n\r\nabc"):
        wait_until(lambda: [one["received"] for one in seen(recording, "PUT /left")] == [3], "a part arrives")
    wait_until(lambda: seen(recording, "PUT /left")[0].get("receiving") == "broken off", "the body ends early")


def test_a_client_that_leaves_before_its_answer_ends_the_request_at_the_server(recording: Bucket) -> None:
    with raw(recording, b"GET /wait HTTP/1.1\r\nHost: HOST\r\n\r\n"):
        wait_until(lambda: seen(recording, "GET /wait"), "the request arrives")
    wait_until(lambda: seen(recording, "GET /wait")[0].get("after") == "", "the connection ends")


@needs_store
@pytest.mark.parametrize("is_chunked", [False, True])
def test_an_upload_whose_client_leaves_makes_no_object(bucket: Bucket, is_chunked: bool) -> None:
    path = f"/upload/storage/v1/b/{bucket.name}/o?uploadType=media&name="
    length = "Transfer-Encoding: chunked\r\n\r\n186A0\r\n" if is_chunked else "Content-Length: 200000\r\n\r\n"
    with raw(bucket, f"POST {path}half HTTP/1.1\r\nHost: HOST\r\n{length}".encode() + b"a" * 100_000):
        wait_until(lambda: ask(bucket, "GET", "/x") and connections(bucket) > 1, "the upload has begun")
        begun = connections(bucket)
    wait_until(lambda: connections(bucket) < begun, "the store has left the upload")
    assert ask(bucket, "POST", f"{path}whole", b"a")[0].status == 200
    items = json.loads(ask(bucket, "GET", f"/storage/v1/b/{bucket.name}/o")[1])["items"]
    assert [one["name"] for one in items] == ["whole"]


@pytest.mark.parametrize("path", ["/x", BUCKETS])
def test_requests_to_a_server_that_has_ended_get_503(mortal: Bucket, path: str) -> None:
    assert ask(mortal, "GET", path)[0].status == 200
    os.kill(store_of(mortal), signal.SIGKILL)
    answer, body = ask(mortal, "POST", path, b"{}")
    message = "The object store is not running."
    errors = [{"message": message, "domain": "global", "reason": "backendError"}]
    assert answer.status == 503
    assert json.loads(body) == {"error": {"code": 503, "message": message, "errors": errors}}


async def test_the_proxy_ends_with_the_pod_although_clients_are_connected(mortal: Bucket) -> None:
    store = store_of(mortal)
    assert mortal._process is not None
    assert mortal._process.stdin is not None
    proxy = mortal._process.pid
    with (
        raw(mortal, b"GET /x HTTP/1.1\r\nHost: HOST\r\n\r\n") as idle,
        raw(mortal, b"GET /endless HTTP/1.1\r\nHost: HOST\r\n\r\n") as busy,
    ):
        assert idle.recv(10)
        assert busy.recv(10)
        mortal._process.stdin.close()
        await until(lambda: not is_running(proxy) and not is_running(store), "proxy and store end")


def test_an_answer_that_the_server_breaks_off_does_not_look_whole(recording: Bucket) -> None:
    connection = connect(recording)
    connection.request("GET", "/break")
    answer = connection.getresponse()
    with pytest.raises((http.client.IncompleteRead, ConnectionError)):
        answer.read()
    connection.close()


@pytest.mark.parametrize(
    "changed",
    [
        {"Host": "evil.example"},
        {"Host": "evil.example", "Origin": "http://evil.example"},
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Sec_Fetch_Site": "cross-site"},
    ],
)
def test_a_web_pages_request_is_refused_in_the_form_of_googles_apis(
    recording: Bucket, changed: dict[str, str]
) -> None:
    answer, body = ask(recording, "POST", "/page", b"a" * (5 << 20), **changed)
    error = json.loads(body)["error"]
    assert (answer.status, error["code"], error["errors"][0]["reason"]) == (403, 403, "forbidden")
    assert answer.headers["Content-Type"].startswith("application/json")
    assert seen(recording, "POST /page") == []


def test_a_forwarded_ports_host_is_accepted(recording: Bucket) -> None:
    assert ask(recording, "GET", "/x", Host="127.0.0.1:1")[0].status == 200


def test_a_request_about_buckets_that_is_too_large_is_refused(recording: Bucket) -> None:
    assert ask(recording, "POST", BUCKETS, bytes(2 << 20))[0].status in (400, 413)


@pytest.mark.parametrize(
    "sent",
    [
        b"GET http://evil/ HTTP/1.1\r\nHost: HOST\r\n\r\n",
        b"GET @evil.example/x HTTP/1.1\r\nHost: HOST\r\n\r\n",
        b"CONNECT evil:80 HTTP/1.1\r\nHost: HOST\r\n\r\n",
        b"GET /bad\r\n\r\n",
        b"GET /bad HTTP/1.1\r\nHost: HOST\r\nHost: HOST\r\n\r\n",
        b"GET /bad HTTP/1.1\r\nHost : HOST\r\n\r\n",
        b"GET /bad HTTP/1.1\r\nHost: HOST\r\nA: b\r\n folded\r\n\r\n",
        b"GET /bad HTTP/1.1\r\nHost: HOST\r\nA: b\nOrigin: c\r\n\r\n",
        b"GET /bad HTTP/1.1\r\nHost: HOST\r\nA: b\0c\r\n\r\n",
        b"PUT /bad HTTP/1.1\r\nHost: HOST\r\nContent-Length: -5\r\n\r\n",
        b"PUT /bad HTTP/1.1\r\nHost: HOST\r\nContent-Length: " + b"9" * 5000 + b"\r\n\r\n",
        b"PUT /bad HTTP/1.1\r\nHost: HOST\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nabcdef",
        b"PUT /bad HTTP/1.1\r\nHost: HOST\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"PUT /bad HTTP/1.1\r\nHost: HOST\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"PUT /bad HTTP/1.1\r\nHost: HOST\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nabc\r\n",
        b"PUT /bad HTTP/1.1\r\nHost: HOST\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nA: b\n\nGET /b HTTP/1.1\r\n\r\n",
        b"GET /bad HTTP/1.1\r\nHost: HOST\r\nA: " + b"b" * (1 << 17) + b"\r\n\r\n",
    ],
)
def test_an_ambiguous_request_is_refused(recording: Bucket, sent: bytes) -> None:
    before = len(seen(recording, ""))
    with raw(recording, sent) as made:
        answer = until_closed(made)
    assert answer.partition(b"\r\n")[0].split(b" ")[1] in (b"400", b"403"), answer[:200]
    assert not [record for record in seen(recording, "")[before:] if record["is_whole"]]
