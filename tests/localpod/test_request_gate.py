"""Tests of the request gate before the bucket: whole, checked requests pass, with bodies streamed."""

from __future__ import annotations

import itertools
from http import HTTPStatus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tui.localpod.bucket.request_gate import MAX_HEAD_BYTES, Headers, Refusal, RequestGate, WholeRequest

GET = b"GET /a HTTP/1.1\r\nHost: h\r\nOrigin:\thttp://x \r\n\r\n"
PUT = b"PUT /b?c=d HTTP/1.1\r\nhost: h\r\nContent-Length: 5\r\n\r\nGET /"
CHUNKED = (
    b"POST /c HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"
    b"5;x=y\r\nab\r\nc\r\nA\r\n0\r\n\r\n12345\r\n0\r\nTrailer: t\r\n\r\n"
)


class RecordingCheck:
    """A check that records the headers it gets and refuses those with `bad`."""

    def __init__(self) -> None:
        self.seen: list[Headers] = []

    def __call__(self, headers: Headers) -> None:
        self.seen.append(headers)
        if "bad" in headers:
            raise Refusal(HTTPStatus.FORBIDDEN, "forbidden", "no")


def feed_gate(*pieces: bytes) -> tuple[bytes, int]:
    """Return the bytes that pass the gate, and the number of requests that were checked."""
    check = RecordingCheck()
    gate = RequestGate(check)
    parts = [part for piece in pieces for part in gate.feed(piece)]
    return b"".join(part for part in parts if isinstance(part, bytes)), len(check.seen)


@given(cuts=st.lists(st.integers(0, len(GET + PUT + CHUNKED + GET)), max_size=12))
def test_requests_pass_byte_for_byte_in_pieces_of_any_size(cuts: list[int]) -> None:
    sent = GET + PUT + CHUNKED + GET
    places = [0, *sorted(cuts), len(sent)]
    pieces = [sent[start:end] for start, end in itertools.pairwise(places)]
    assert feed_gate(*pieces) == (sent, 4)


def test_headers_are_read_without_case_and_blanks() -> None:
    check = RecordingCheck()
    list(RequestGate(check).feed(GET))
    assert check.seen == [{"host": ["h"], "origin": ["http://x"]}]


def test_a_body_passes_before_it_has_arrived_whole() -> None:
    gate = RequestGate(RecordingCheck())
    head = b"PUT /b HTTP/1.1\r\nContent-Length: 1000000000000\r\n\r\n"
    assert b"".join(gate.feed(head + b"a" * 10)) == head + b"a" * 10
    assert b"".join(gate.feed(b"b" * 10)) == b"b" * 10


@pytest.mark.parametrize("before", [b"", GET, PUT, CHUNKED])
def test_a_refused_request_does_not_pass_and_the_ones_before_it_do(before: bytes) -> None:
    gate = RequestGate(RecordingCheck())
    passed = b""
    parts = gate.feed(before + b"GET /a HTTP/1.1\r\nBad: 1\r\n\r\n")
    while len(passed) < len(before):
        passed += next(parts)
    with pytest.raises(Refusal):
        next(parts)
    assert passed == before


@pytest.mark.parametrize(
    "sent",
    [
        b"GET http://evil/ HTTP/1.1\r\n\r\n",
        b"CONNECT evil:80 HTTP/1.1\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\n",
        b"GET /a\r\n\r\n",
        b"GET  /a HTTP/1.1\r\n\r\n",
        b"GET /a HTTP/1.1\r\nHost : h\r\n\r\n",
        b"GET /a HTTP/1.1\r\nA: b\r\n folded\r\n\r\n",
        b"GET /a HTTP/1.1\r\nA: b\nOrigin: c\r\n\r\n",
        b"GET /a HTTP/1.1\r\nA: b\0c\r\n\r\n",
        b"PUT /a HTTP/1.1\r\nContent-Length: -5\r\n\r\n",
        b"PUT /a HTTP/1.1\r\nContent-Length: " + b"9" * 5000 + b"\r\n\r\n",
        b"PUT /a HTTP/1.1\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n",
        b"PUT /a HTTP/1.1\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"PUT /a HTTP/1.1\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
        b"PUT /a HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"PUT /a HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nabc",
        b"PUT /a HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n" + b"0" * 5000,
        b"PUT /a HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nA: b\n\nGET /b HTTP/1.1\r\n\r\n",
        b"PUT /a HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"GET /a HTTP/1.1\r\nA: " + b"b" * MAX_HEAD_BYTES,
    ],
)
def test_an_ambiguous_request_is_refused(sent: bytes) -> None:
    with pytest.raises(Refusal) as refused:
        feed_gate(sent)
    assert refused.value.status is HTTPStatus.BAD_REQUEST
    assert refused.value.to_bytes().startswith(b"HTTP/1.1 400 Bad Request\r\n")


def test_an_intercepted_request_is_whole_and_the_next_one_passes() -> None:
    check = RecordingCheck()
    gate = RequestGate(check, lambda method, target: (method, target) == ("POST", "/b"))
    intercepted = b"POST /b HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\n\r\nbody"
    for cut in range(len(intercepted) + 1):
        parts = [part for piece in (GET + intercepted[:cut], intercepted[cut:] + PUT) for part in gate.feed(piece)]
        whole = WholeRequest("POST", "/b", b"body", is_last=False)
        place = parts.index(whole)
        assert b"".join(part for part in parts[:place] if isinstance(part, bytes)) == GET
        assert b"".join(part for part in parts[place + 1 :] if isinstance(part, bytes)) == PUT


@pytest.mark.parametrize(
    ("head", "is_last"),
    [
        (b"GET /b HTTP/1.0\r\nHost: h\r\n\r\n", True),
        (b"GET /b HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", False),
        (b"GET /b HTTP/1.1\r\nConnection: Close\r\n\r\n", True),
        (b"GET /b HTTP/1.1\r\n\r\n", False),
    ],
)
def test_an_intercepted_request_has_whether_the_connection_ends_after_it(head: bytes, is_last: bool) -> None:
    (intercepted,) = RequestGate(RecordingCheck(), lambda *_: True).feed(head)
    assert intercepted == WholeRequest("GET", "/b", b"", is_last)


def test_an_intercepted_request_without_a_usable_length_is_refused() -> None:
    gate = RequestGate(RecordingCheck(), lambda *_: True)
    with pytest.raises(Refusal):
        list(gate.feed(b"POST /b HTTP/1.1\r\nContent-Length: 9999999\r\n\r\n"))
