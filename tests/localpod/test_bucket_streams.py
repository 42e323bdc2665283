"""Tests of bodies on their way through the bucket's proxy: they are held back, and end, at both ends."""

from __future__ import annotations

import contextlib
import http.client
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.localpod.bucket_clients import ask, connect, raw, seen, store_of, until_closed
from tests.stores import needs_store
from tests.waiting import wait_until
from tui.localpod.bucket.bucket import Bucket

pytestmark = pytest.mark.timing


MOST_BUFFERED = 64 << 20
"""Bytes that proxy and kernel may hold of a body whose reader reads nothing."""


ROUND_TRIPS = 20
"""Requests through the proxy, one after the other: in each, its loop would use any connection that can move."""


BIG = 1 << 40


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
        assert ask(bucket, "GET", "/", Host="evil.example")[0].status == 403, "the proxy has passed the part on"
        wait_until(lambda: connections(bucket), "the upload has begun")
        begun = connections(bucket)
    wait_until(lambda: connections(bucket) < begun, "the store has left the upload")
    assert ask(bucket, "POST", f"{path}whole", b"a")[0].status == 200
    items = json.loads(ask(bucket, "GET", f"/storage/v1/b/{bucket.name}/o")[1])["items"]
    assert [one["name"] for one in items] == ["whole"]


def test_an_answer_that_the_server_breaks_off_does_not_look_whole(recording: Bucket) -> None:
    connection = connect(recording)
    connection.request("GET", "/break")
    answer = connection.getresponse()
    with pytest.raises((http.client.IncompleteRead, ConnectionError)):
        answer.read()
    connection.close()
