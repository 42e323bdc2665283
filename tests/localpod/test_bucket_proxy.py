"""Tests of HTTP through the bucket's proxy, at a server that records what reaches it and at the real one."""

from __future__ import annotations

import http.client
import json
import os
import signal
import threading

import pytest

from tests.localpod.bucket_clients import ask, connect, raw, seen, store_of, until_closed
from tests.localpod.recording_store import BUCKETS, PLAIN, ZIPPED
from tests.waiting import is_running, until
from tui.localpod.bucket.bucket import Bucket

pytestmark = pytest.mark.timing


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
