"""Whether workers can talk to each other: each port of each worker, tried from the others through their own sshd.

Told as nmap tells it: open (something answers), closed (refused: the way is free and nothing listens yet, which is
good before a run), filtered (no answer or no way: a firewall, which is bad).
"""

from __future__ import annotations

import asyncio
import ipaddress
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from tui.checks.check_row import CheckRow
from tui.checks.merge_rows import Report, gather_rows
from tui.errors import TpuTuiError
from tui.pod.slice import Slice
from tui.pod.worker import Worker

if TYPE_CHECKING:
    from tui.ssh.exec.port_probe import PortState
    from tui.ssh.fleet import Fleet

COORDINATOR_PORT = 8476
"""PJRT's process and mesh controller."""
MESH_PORT = 8477
"""The mesh service of xla_dist."""
DEFAULT_PORTS = (22, 8470, 8471, COORDINATOR_PORT, MESH_PORT)
"""SSH; TPU Node's gRPC; the TPU runtime; PJRT's controller; xla_dist's mesh service."""
FULL_MATRIX_WORKERS = 32
"""Up to this many workers every pair is tried; beyond, worker 0 with all, and a ring."""
PROBE_SECONDS = 5.0
"""How long a port may take to answer before it counts as filtered."""
_PROBES_A_WORKER = 128
"""Tried at once from one worker; its sshd holds a socket for each."""
_WIDEST_PREFIX = 8
"""Workers further apart than this have no one range worth opening a port to."""
_FORBIDDEN = "forbidden"
_STATUS = {"open": "pass", "closed": "pass", "filtered": "fail"}


async def check_ports(
    slice_: Slice, fleet: Fleet, ports: Sequence[int] = (), *, usual: bool = True
) -> AsyncIterator[CheckRow]:
    """A row for each worker, peer and port (`ports`, and unless not `usual` the usual ones), as the answers come."""
    wanted = (*DEFAULT_PORTS, *ports) if usual else ports
    for row in scope_rows(slice_):
        yield row
    async for row in gather_rows([_of_worker(worker.index, slice_, fleet, wanted) for worker in slice_.workers]):
        yield row


def _of_worker(index: int, slice_: Slice, fleet: Fleet, ports: Sequence[int]) -> Callable[[Report], Awaitable[None]]:
    async def check(tell: Report) -> None:
        async for row in rows_from(index, slice_, fleet, ports):
            tell(row)

    return check


def scope_rows(slice_: Slice) -> list[CheckRow]:
    """What is said before any answer: that there is nobody to talk to, or that pairs are sampled."""
    count = len(slice_.workers)
    if count == 1:
        return [CheckRow("ports", 0, None, None, "pass", None, "one worker: no ports between workers are needed")]
    if count <= FULL_MATRIX_WORKERS:
        return []
    tried = sum(len(list(peers_of(worker.index, count))) for worker in slice_.workers)
    detail = f"sampled: worker 0 with all and each with the next, {tried} of {count * (count - 1)} pairs"
    return [CheckRow("ports", None, None, None, "pass", None, detail)]


def peers_of(index: int, count: int) -> Iterator[int]:
    """The workers that worker `index` of `count` tries to reach."""
    return (peer for peer in range(count) if is_tried(index, peer, count))


def is_tried(index: int, peer: int, count: int) -> bool:
    """Whether worker `index` of `count` tries to reach `peer`: all pairs, or worker 0 with all and each the next."""
    if peer == index:
        return False
    return count <= FULL_MATRIX_WORKERS or 0 in (index, peer) or peer == (index + 1) % count


async def rows_from(index: int, slice_: Slice, fleet: Fleet, ports: Sequence[int]) -> AsyncIterator[CheckRow]:
    """The rows of one worker; a single unknown one when nothing can be probed from it."""
    peers = [slice_.workers[peer] for peer in peers_of(index, len(slice_.workers))]
    async for row in _rows(index, peers, tuple(dict.fromkeys(ports)), slice_, fleet):
        yield row


async def rows_to_coordinator(
    index: int, slice_: Slice, fleet: Fleet, ports: Sequence[int] = (COORDINATOR_PORT,)
) -> AsyncIterator[CheckRow]:
    """Whether a worker reaches worker 0 on the ports where a training's processes find each other."""
    if index != slice_.workers[0].index:
        async for row in _rows(index, slice_.workers[:1], ports, slice_, fleet):
            yield row


async def _rows(
    index: int, peers: Sequence[Worker], wanted: Sequence[int], slice_: Slice, fleet: Fleet
) -> AsyncIterator[CheckRow]:
    if not peers:
        return
    try:
        await fleet.connect(index)
    except TpuTuiError as error:
        detail = f"nothing can be tried from it: {error.what}"
        yield CheckRow("ports", index, None, None, "unknown", None, detail, error.remedy or None)
        return
    room = asyncio.Semaphore(_PROBES_A_WORKER)

    async def probe(peer: Worker, port: int) -> tuple[Worker, int, PortState | TpuTuiError]:
        async with room:
            return peer, port, await _probe(index, peer, port, fleet)

    tasks = [asyncio.ensure_future(probe(peer, port)) for peer in peers for port in wanted]
    try:
        for task in asyncio.as_completed(tasks):
            peer, port, answer = await task
            yield _row(index, peer, port, answer, slice_)
            if not isinstance(answer, TpuTuiError) and answer.cause == _FORBIDDEN:
                return
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _probe(index: int, peer: Worker, port: int, fleet: Fleet) -> PortState | TpuTuiError:
    try:
        return await fleet.probe(index, _address(peer), port, PROBE_SECONDS)
    except TpuTuiError as error:
        return error


def _address(worker: Worker) -> str:
    """What other workers of the slice call it by."""
    return worker.internal_ip or worker.external_ip or worker.hostname or ""


def _row(index: int, peer: Worker, port: int, answer: PortState | TpuTuiError, slice_: Slice) -> CheckRow:
    if isinstance(answer, TpuTuiError):
        detail = f"could not be tried: {answer.what}"
        return CheckRow("ports", index, peer.index, port, "unknown", None, detail, answer.remedy or None)
    if answer.cause == _FORBIDDEN:
        return CheckRow("ports", index, None, None, "unknown", None, answer.detail, answer.remedy or None)
    status = _STATUS.get(answer.state, "unknown")
    remedy = answer.remedy or (firewall_remedy(slice_, port) if status == "fail" else None)
    state = answer.state if answer.state in _STATUS else None
    return CheckRow("ports", index, peer.index, port, status, state, answer.detail, remedy)


def firewall_remedy(slice_: Slice, port: int) -> str:
    """The gcloud command that lets the workers reach each other on the port; words where gcloud has no say."""
    addresses = [worker.internal_ip for worker in slice_.workers if worker.internal_ip]
    span = smallest_network(addresses)
    if slice_.source != "tpu_api" or span is None or span.is_loopback or span.prefixlen < _WIDEST_PREFIX:
        return f"allow tcp:{port} between the workers in their firewall"
    network = (slice_.network or "default").rpartition("/")[2]
    project = f" --project={slice_.project}" if slice_.project else ""
    return (
        f"gcloud compute firewall-rules create allow-{network}-tcp-{port} --network={network} --direction=INGRESS "
        f"--allow=tcp:{port} --source-ranges={span}{project}"
    )


def smallest_network(addresses: Sequence[str]) -> ipaddress.IPv4Network | None:
    """The narrowest IPv4 network that holds all addresses; None for none, or for others than IPv4."""
    try:
        numbers = [int(ipaddress.IPv4Address(address)) for address in addresses]
    except ValueError:
        return None
    if not numbers:
        return None
    differing = (min(numbers) ^ max(numbers)).bit_length()
    return ipaddress.IPv4Network((min(numbers) >> differing << differing, 32 - differing))
