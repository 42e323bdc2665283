from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace

import pytest

from tests.sshd import OpensshWorker, free_port, needs_sshd, sshd
from tui.checks.check_row import CheckRow
from tui.checks.port_checks import DEFAULT_PORTS, port_rows_from, scope_rows
from tui.checks.run_checks import run_checks
from tui.checks.workers.login_check import login_rows
from tui.pod.slice import Slice
from tui.pod.worker import Worker
from tui.ssh.fleet import Fleet

pytestmark = [needs_sshd, pytest.mark.timing]
__all__ = ["sshd"]

Start = Callable[..., OpensshWorker]


@contextmanager
def silent_port() -> Iterator[int]:
    """Yield a port that does not answer, as behind a firewall that drops packets: its backlog is full."""
    with socket.socket() as server, ExitStack() as stack:
        server.bind(("127.0.0.1", 0))
        server.listen(0)
        while True:
            client = stack.enter_context(socket.socket())
            client.settimeout(0.3)
            try:
                client.connect(server.getsockname())
            except TimeoutError:
                break
        yield int(server.getsockname()[1])


@pytest.fixture
def listening() -> Iterator[Callable[[str], int]]:
    """Yield a function that opens a listening port on a local address and returns its number."""
    with ExitStack() as stack:

        def listen(address: str) -> int:
            server = stack.enter_context(socket.create_server((address, 0)))
            return int(server.getsockname()[1])

        yield listen


def slice_of(*workers: Worker) -> Slice:
    numbered = tuple(replace(worker, index=index) for index, worker in enumerate(workers))
    return Slice(name="lab", source="hosts_file", workers=numbered)


async def read(rows: AsyncIterator[CheckRow]) -> list[CheckRow]:
    order = ("tcp", "handshake", "host_key", "reachability", "ports")
    found = [row async for row in rows if row.check in order]
    return sorted(found, key=lambda row: (order.index(row.check), row.worker or 0, row.peer or 0, row.port or 0))


async def port_rows(slice_: Slice, fleet: Fleet, ports: Sequence[int]) -> list[CheckRow]:
    """Return a row for each worker, peer and port."""
    found = await asyncio.gather(
        *(read(port_rows_from(worker.index, slice_, fleet, ports)) for worker in slice_.workers)
    )
    return [row for rows in found for row in rows]


async def test_each_cause_of_a_failed_login_has_a_sentence_of_its_own(sshd: Start) -> None:
    good, denied = sshd(), sshd(extra=["AuthorizedKeysFile none"])
    refused = replace(good.worker, port=free_port())
    unknown, changed = good.untrusted_worker, replace(good.worker, host_keys=(denied.host_key,))
    slice_ = slice_of(good.worker, refused, unknown, changed, denied.worker)

    async with Fleet(slice_.workers, good.access()) as fleet:
        logins = await asyncio.gather(*(fleet.try_login(worker.index) for worker in slice_.workers))
    rows = [row for login in logins for row in login_rows(login)]

    steps = {index: [(row.check, row.status) for row in rows if row.worker == index] for index in range(5)}
    passed = [(check, "pass") for check in ("tcp", "handshake", "host_key", "reachability")]
    assert steps == {
        0: passed,
        1: [("tcp", "fail")],
        2: [*passed[:2], ("host_key", "fail")],
        3: [*passed[:2], ("host_key", "fail")],
        4: [*passed[:3], ("reachability", "fail")],
    }
    ends = {row.worker: row for row in rows if row.status == "fail"}
    assert len({row.detail for row in ends.values()}) == 4
    assert "refused" in ends[1].detail
    assert "accept-new" in (ends[2].remedy or "")
    assert "changed" in ends[3].detail
    assert "ermission denied" in ends[4].detail
    assert all(row.remedy for row in ends.values())


async def test_ports_are_open_or_closed_as_seen_from_the_other_worker(
    sshd: Start, listening: Callable[[str], int]
) -> None:
    workers = sshd(host="127.0.7.1"), sshd(host="127.0.7.2")
    slice_ = slice_of(*(worker.worker for worker in workers))
    open_port, closed_port = listening("127.0.7.2"), free_port()

    async with Fleet(slice_.workers, workers[0].access()) as fleet:
        rows = await port_rows(slice_, fleet, (closed_port, open_port))

    seen = {(row.worker, row.peer, row.port): (row.status, row.state) for row in rows}
    assert seen == {
        (0, 1, open_port): ("pass", "open"),
        (1, 0, open_port): ("pass", "closed"),
        (0, 1, closed_port): ("pass", "closed"),
        (1, 0, closed_port): ("pass", "closed"),
    }


async def test_no_port_state_is_assumed_for_a_worker_that_refuses_the_login(sshd: Start) -> None:
    worker = sshd()
    slice_ = slice_of(worker.worker, replace(worker.worker, port=free_port()))

    async with Fleet(slice_.workers, worker.access()) as fleet:
        rows = await read(run_checks(slice_, fleet))

    (row,) = [row for row in rows if row.check == "ports" and row.worker == 1]
    assert (row.status, row.state, row.peer, row.port) == ("unknown", None, None, None)
    assert len([row for row in rows if row.check == "ports" and row.worker == 0]) == len(DEFAULT_PORTS)


async def test_a_silent_port_is_filtered(sshd: Start) -> None:
    workers = sshd(), sshd()
    slice_ = slice_of(*(worker.worker for worker in workers))

    with silent_port() as port:
        async with Fleet(slice_.workers, workers[0].access()) as fleet:
            rows = await port_rows(slice_, fleet, (*DEFAULT_PORTS, port))

    silent = [row for row in rows if row.port == port]
    assert [(row.worker, row.peer, row.status, row.state) for row in silent] == [
        (0, 1, "fail", "filtered"),
        (1, 0, "fail", "filtered"),
    ]
    assert silent[0].remedy == f"allow tcp:{port} between the workers in their firewall"
    assert {row.state for row in rows if row.port == 8476} == {"closed"}


async def test_a_worker_that_forbids_forwarding_is_one_unknown_row(sshd: Start) -> None:
    free, shut = sshd(), sshd(forwarding=False)
    slice_ = slice_of(free.worker, shut.worker)

    async with Fleet(slice_.workers, free.access()) as fleet:
        rows = await read(run_checks(slice_, fleet))

    (row,) = [row for row in rows if row.check == "ports" and row.worker == 1]
    assert (row.status, row.state, row.peer) == ("unknown", None, None)
    assert "AllowTcpForwarding" in (row.remedy or "")
    assert len([row for row in rows if row.check == "ports" and row.worker == 0]) == len(DEFAULT_PORTS)
    assert [row.status for row in rows if row.check == "reachability"] == ["pass", "pass"]


async def test_rows_come_in_the_order_of_the_answers(sshd: Start) -> None:
    quick = sshd()
    with socket.create_server(("127.0.0.1", 0)) as silent:
        slice_ = slice_of(quick.worker, replace(quick.worker, port=silent.getsockname()[1]))
        async with Fleet(slice_.workers, quick.access(login_timeout=60)) as fleet:
            rows = run_checks(slice_, fleet)
            first = await rows.__anext__()
            await rows.aclose()  # type: ignore[attr-defined]

    assert (first.check, first.worker, first.status) == ("tcp", 0, "pass")


async def test_with_forty_workers_a_stated_sample_of_pairs_is_tried(sshd: Start) -> None:
    worker = sshd()
    slice_ = slice_of(*[worker.worker] * 40)

    async with Fleet(slice_.workers, worker.access()) as fleet:
        rows = await port_rows(slice_, fleet, [8476, 8476])
    (scope,) = scope_rows(slice_)

    tried = {(row.worker, row.peer) for row in rows}
    assert len(tried) == len(rows)
    zero = {(0, peer) for peer in range(1, 40)} | {(peer, 0) for peer in range(1, 40)}
    assert tried == zero | {(index, (index + 1) % 40) for index in range(40)}
    assert {row.state for row in rows} == {"closed"}
    assert scope.detail == f"sampled: worker 0 with all others and each with the next, {len(rows)} of 1560 pairs"


async def test_one_worker_needs_no_ports(sshd: Start) -> None:
    only = sshd()
    slice_ = slice_of(only.worker)

    async with Fleet(slice_.workers, only.access()) as fleet:
        rows = await read(run_checks(slice_, fleet))

    assert [(row.check, row.status) for row in rows if row.check in ("ports", "reachability")] == [
        ("reachability", "pass"),
        ("ports", "pass"),
    ]
