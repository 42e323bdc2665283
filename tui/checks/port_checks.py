"""Checks that workers can reach each other: the sshd of each worker probes the ports of the other workers.

States are nmap's: open (something answers), closed (refused: the port is reachable and nothing listens yet, which is
good before a run), filtered (no answer or no route: a firewall blocks the port).
"""

from __future__ import annotations

import asyncio
import ipaddress
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING

from tui.aio.fan_out import as_completed
from tui.checks.check_row import CheckRow, make_row
from tui.errors import TpuTuiError
from tui.pod.api_paths import last_part
from tui.pod.ports import COORDINATOR_PORT, MESH_PORT
from tui.pod.slice import Slice
from tui.pod.worker import SSH_PORT, Worker
from tui.ssh.config.access import address_of

if TYPE_CHECKING:
    from tui.ssh.exec.port_probe import PortState
    from tui.ssh.fleet import Fleet

JAX_COORDINATOR_PORT = 8482
"""JAX's coordinator since 0.8.1, which Google's automatic firewall rule does not open (jax#35905)."""
DEFAULT_PORTS = (SSH_PORT, 8470, 8471, 8474, COORDINATOR_PORT, MESH_PORT, JAX_COORDINATOR_PORT)
"""SSH; TPU Node's gRPC; the TPU runtime (8471, 8474); PJRT's controller; xla_dist's mesh service; JAX."""
FULL_MATRIX_WORKERS = 32
"""Most workers of which every pair is probed; of larger slices, worker 0 with all others, and a ring."""
PROBE_TIMEOUT_S = 5.0
"""How long a port may take to answer before it counts as filtered."""
_PROBES_PER_WORKER = 128
"""Simultaneous probes from one worker; its sshd holds a socket for each."""
_WIDEST_PREFIX = 8
"""Workers in different /8 networks have no common range that a port should be opened to."""
_FORBIDDEN = "forbidden"
_STATUS = {"open": "pass", "closed": "pass", "filtered": "fail"}


def scope_rows(slice_: Slice) -> list[CheckRow]:
    """Return the rows about the scope: a single worker needs no ports, or only some pairs are probed."""
    count = len(slice_.workers)
    if count == 1:
        return [make_row("ports", "pass", "one worker: no ports between workers are needed", worker=0)]
    if count <= FULL_MATRIX_WORKERS:
        return []
    probed = sum(1 for worker in slice_.workers for _ in peers_of(worker.index, count))
    detail = f"sampled: worker 0 with all others and each with the next, {probed} of {count * (count - 1)} pairs"
    return [make_row("ports", "pass", detail)]


def peers_of(index: int, count: int) -> Iterator[int]:
    """Yield the workers that worker `index` of `count` probes."""
    return (peer for peer in range(count) if is_pair_probed(index, peer, count))


def is_pair_probed(index: int, peer: int, count: int) -> bool:
    """Return whether worker `index` of `count` probes `peer`: all pairs, or worker 0 with all and a ring."""
    if peer == index:
        return False
    return count <= FULL_MATRIX_WORKERS or 0 in (index, peer) or peer == (index + 1) % count


def port_rows_from(index: int, slice_: Slice, fleet: Fleet, ports: Sequence[int]) -> AsyncIterator[CheckRow]:
    """Yield the rows of one worker; a single unknown row if nothing can be probed from it."""
    peers = [slice_.workers[peer] for peer in peers_of(index, len(slice_.workers))]
    return _rows(index, peers, tuple(dict.fromkeys(ports)), slice_, fleet)


def coordinator_port_rows(index: int, slice_: Slice, fleet: Fleet, ports: Sequence[int]) -> AsyncIterator[CheckRow]:
    """Yield whether a worker reaches worker 0 on these ports, where a run's processes find each other."""
    first = slice_.workers[0]
    return _rows(index, [first] if index != first.index else [], ports, slice_, fleet)


async def _rows(
    index: int, peers: Sequence[Worker], ports: Sequence[int], slice_: Slice, fleet: Fleet
) -> AsyncIterator[CheckRow]:
    if not peers:
        return
    try:
        await fleet.connect(index)
    except TpuTuiError as error:
        detail = f"no port can be probed from it: {error.what}"
        yield make_row("ports", "unknown", detail, error.remedy or None, worker=index)
        return
    slots = asyncio.Semaphore(_PROBES_PER_WORKER)

    async def probe(peer: Worker, port: int) -> tuple[Worker, int, PortState | TpuTuiError]:
        async with slots:
            try:
                return peer, port, await fleet.probe(index, address_of(peer, "internal") or "", port, PROBE_TIMEOUT_S)
            except TpuTuiError as error:
                return peer, port, error

    async with aclosing(as_completed(probe(peer, port) for peer in peers for port in ports)) as answers:
        async for peer, port, answer in answers:
            yield _row(index, peer, port, answer, slice_)
            if not isinstance(answer, TpuTuiError) and answer.cause == _FORBIDDEN:
                return


def _row(index: int, peer: Worker, port: int, answer: PortState | TpuTuiError, slice_: Slice) -> CheckRow:
    if isinstance(answer, TpuTuiError):
        detail = f"could not be probed: {answer.what}"
        return CheckRow("ports", index, peer.index, port, "unknown", None, detail, answer.remedy or None)
    if answer.cause == _FORBIDDEN:
        return make_row("ports", "unknown", answer.detail, answer.remedy or None, worker=index)
    status = _STATUS.get(answer.state, "unknown")
    remedy = answer.remedy or (firewall_remedy(slice_, port) if status == "fail" else None)
    state = answer.state if answer.state in _STATUS else None
    return CheckRow("ports", index, peer.index, port, status, state, answer.detail, remedy)


def firewall_remedy(slice_: Slice, port: int) -> str:
    """Return the gcloud command that opens the port between the workers; a sentence outside Google Cloud."""
    addresses = [worker.internal_ip for worker in slice_.workers if worker.internal_ip]
    span = smallest_network(addresses)
    if not slice_.is_in_cloud or span is None or span.is_loopback or span.prefixlen < _WIDEST_PREFIX:
        return f"allow tcp:{port} between the workers in their firewall"
    return allow_command(slice_, "allow", port, str(span))


def allow_command(
    slice_: Slice, name: str, port: int, ranges: str, direction: str = "INGRESS", priority: int | None = None
) -> str:
    """Return the gcloud command for a VPC firewall rule that allows tcp:`port` from (EGRESS: to) the ranges."""
    network = last_part(slice_.network or "default")
    end = "--source-ranges" if direction == "INGRESS" else "--destination-ranges"
    return (
        f"gcloud compute firewall-rules create {name}-{network}-tcp-{port} --network={network} "
        f"--direction={direction} --allow=tcp:{port} {end}={ranges}"
        + (f" --priority={priority}" if priority is not None else "")
        + (f" --project={slice_.project}" if slice_.project else "")
    )


def smallest_network(addresses: Sequence[str]) -> ipaddress.IPv4Network | None:
    """Return the smallest IPv4 network with all addresses; None without addresses, or if one is not IPv4."""
    try:
        numbers = [int(ipaddress.IPv4Address(address)) for address in addresses]
    except ValueError:
        return None
    if not numbers:
        return None
    differing = (min(numbers) ^ max(numbers)).bit_length()
    return ipaddress.IPv4Network((min(numbers) >> differing << differing, 32 - differing))
