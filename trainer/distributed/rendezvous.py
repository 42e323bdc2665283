"""Let the processes of all workers find each other: a store at worker 0, and the right network interface for gloo."""

from __future__ import annotations

import errno
import fcntl
import os
import secrets
import socket
import struct
import time
from collections.abc import Callable
from concurrent.futures import wait
from datetime import timedelta
from functools import partial

from torch.distributed import TCPStore  # type: ignore[attr-defined]

from trainer.config import ReplicaConfig
from trainer.distributed.failures import read_reason
from trainer.errors import PartnerLostError, PartnersMissingError, ReportedElsewhereError, StoppedError, TrainerError
from trainer.progress import format_count
from trainer.storage import background_io

POLL_INTERVAL_S = 0.1
PROBE_TIMEOUT_S = 5.0  # for worker 0 to answer one attempt
VERDICT_GRACE_S = 30.0  # the others wait so much longer than rank 0, whose verdict they need
SLICE_KEY = "slice"  # the key of what rank 0 expects: which run, how many workers and cores
SEPARATOR = ": "
JOINED_KEY = "joined"  # the key of how joining ended, which is written once: ALL, or who ended it
ALL = "all ranks have come"
GET_INTERFACE_ADDRESS = 0x8915  # SIOCGIFADDR of netdevice(7)
BACKLOG = 1024


def listen(address: tuple[str, int]) -> socket.socket:
    """Return worker 0's listening socket, on this address only: another run may use the port on another address.

    Port 0 takes a free port. If the address is not this machine's (e.g. behind a NAT), the socket listens on all
    addresses. Raises TrainerError when the port is taken.
    """
    host, port = address
    try:
        family, _, _, _, resolved = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except OSError as error:
        raise _unknown_host_error(host, error) from error
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        try:
            listener.bind(resolved)
        except OSError as error:
            if error.errno != errno.EADDRNOTAVAIL:
                raise
            listener.bind(("", port))
        listener.listen(BACKLOG)
    except OSError as error:
        listener.close()
        raise TrainerError(
            f"Worker 0 cannot listen on {host}:{port}",
            why=error.strerror or str(error),
            remedy="Stop the run that holds the port, or set TPU_TUI_COORDINATOR to another one on every worker",
        ) from error
    return listener


def join_ranks(
    place: ReplicaConfig,
    core: int,
    address: tuple[str, int],
    listener: socket.socket | None,
    stopping: Callable[[], bool],
) -> TCPStore:
    """Connect to worker 0's store, or serve it on `listener`, and wait until every rank has joined.

    Rank 0 decides, and reports which workers did not come in time. Raises StoppedError on SIGTERM, PartnerLostError
    when ranks are missing.
    """
    host, port = address
    deadline = time.monotonic() + place.timeout
    if listener is None:
        _await_server(address, deadline, stopping)
    interface = interface_towards(host, port)
    if interface is not None:
        os.environ.setdefault("GLOO_SOCKET_IFNAME", interface)
    # Longer than this process waits: a store that times out itself prints C++ frames.
    patience = timedelta(seconds=place.timeout + VERDICT_GRACE_S)
    connect = partial(
        TCPStore,
        host,
        port,
        place.world,
        is_master=listener is not None,
        timeout=patience,
        wait_for_workers=False,
        master_listen_fd=None if listener is None else os.dup(listener.fileno()),
    )
    try:
        store = _connect_store(connect, address, deadline, stopping)
        if place.rank(core) == 0:
            store.compare_set(SLICE_KEY, "", _slice(place))
            _arrive(store, place, core, address)
            _await_all(store, place, deadline, stopping)
        else:
            _await(SLICE_KEY, store, deadline, stopping)
            _arrive(store, place, core, address)
            _await(JOINED_KEY, store, deadline + VERDICT_GRACE_S, stopping)
        if store.get(JOINED_KEY) != ALL.encode():
            raise PartnersMissingError("Some ranks did not come")
    except RuntimeError as error:
        raise PartnerLostError("Worker 0's rank 0 ended", why=str(error).splitlines()[0]) from error
    return store


def _connect_store(
    connect: Callable[[], TCPStore], address: tuple[str, int], deadline: float, stopping: Callable[[], bool]
) -> TCPStore:
    """Connect in a thread: another program may hold the port, accept the connection and never answer."""
    store_future = background_io.start_thread(connect, "connect")
    while not wait([store_future], POLL_INTERVAL_S).done:
        _poll_pause(stopping)
        if time.monotonic() > deadline:
            raise PartnerLostError(
                f"What listens at {address[0]}:{address[1]} does not answer like worker 0",
                remedy="See worker 0's log; perhaps another program holds the port",
            )
    return store_future.result()


def _arrive(store: TCPStore, place: ReplicaConfig, core: int, address: tuple[str, int]) -> None:
    """Register this rank; raise TrainerError if rank 0 does not expect it."""
    rank, (host, port) = place.rank(core), address
    own_slice, expected = _slice(place), store.get(SLICE_KEY).decode()
    run, _, shape = expected.partition(SEPARATOR)
    if run != place.run:
        raise TrainerError(
            f"Another run has its coordinator at {host}:{port}",
            why=f"it is {run or 'one without a name'}",
            remedy="Stop it, or set TPU_TUI_COORDINATOR to a free port on every worker",
        )
    if own_slice != expected:
        raise _refuse_rank(
            store,
            f"Worker {place.worker} expects {own_slice.partition(SEPARATOR)[2]}",
            why=f"worker 0 expects {shape}",
            remedy="Set TPU_TUI_WORKERS and TPU_TUI_CORES alike on all workers, and give all the same --num-cores",
        )
    if store.add(_arrival(rank), 1) > 1:
        raise _refuse_rank(
            store,
            f"Rank {rank} has already joined at {host}:{port}",
            why="another run holds that port, or two workers have the same TPU_TUI_WORKER",
            remedy="Set TPU_TUI_COORDINATOR to a free port on every worker, and TPU_TUI_WORKER to its own number",
        )


def _refuse_rank(store: TCPStore, what: str, *, why: str, remedy: str) -> TrainerError:
    """End the wait of all ranks for those that can never come; return an error that one of them reports."""
    token = secrets.token_hex(8)
    has_ended_it = store.compare_set(JOINED_KEY, "", token).decode() in (token, ALL)
    return TrainerError(what, why=why, remedy=remedy) if has_ended_it else ReportedElsewhereError(what)


def _await_all(store: TCPStore, place: ReplicaConfig, deadline: float, stopping: Callable[[], bool]) -> None:
    missing = list(range(place.world))
    while missing := [rank for rank in missing if not store.check([_arrival(rank)])]:
        _poll_pause(stopping)
        if store.check([JOINED_KEY]):
            return
        if time.monotonic() > deadline:
            store.compare_set(JOINED_KEY, "", "too late")
            workers = sorted({rank // place.cores for rank in missing})
            raise PartnerLostError(
                f"{len(missing)} of {place.world} ranks did not come within {place.timeout:g} s",
                why=f"missing from worker {', '.join(map(str, workers))}",
                remedy="Look at those workers' logs",
            )
    store.compare_set(JOINED_KEY, "", ALL)


def _await(key: str, store: TCPStore, deadline: float, stopping: Callable[[], bool]) -> None:
    while not store.check([key]):
        _poll_pause(stopping)
        if time.monotonic() > deadline:
            raise PartnerLostError("Worker 0's rank 0 froze", why="it does not say whether all ranks have come")


def interface_towards(host: str, port: int) -> str | None:
    """Return the network interface that leads to `host`; None where it is not found, or for IPv6.

    By default gloo takes the hostname's address, but a hostname may not resolve, or resolve to 127.0.1.1 (Debian).
    """
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect((host, port))  # sends nothing: asks the routing table
        except OSError:
            return None
        own_address = probe.getsockname()[0]
        for _, name in socket.if_nameindex():
            try:
                answer = fcntl.ioctl(probe.fileno(), GET_INTERFACE_ADDRESS, struct.pack("256s", name.encode()[:15]))
            except OSError:
                continue  # has no IPv4 address
            address = socket.inet_ntoa(answer[20:24])
            if address == own_address or (own_address.startswith("127.") and address == "127.0.0.1"):
                return name
    return None


def _await_server(address: tuple[str, int], deadline: float, stopping: Callable[[], bool]) -> None:
    while True:
        try:
            if read_reason(address, max(POLL_INTERVAL_S, min(PROBE_TIMEOUT_S, deadline - time.monotonic()))):
                raise ReportedElsewhereError("Worker 0 does not start")
            return
        except socket.gaierror as error:
            raise _unknown_host_error(address[0], error) from error
        except OSError as error:
            if time.monotonic() > deadline:
                raise PartnerLostError(
                    f"Worker 0 cannot be reached at {address[0]}:{address[1]}",
                    why=error.strerror or str(error),
                    remedy="Check whether it runs (its log), and whether a firewall blocks the port",
                ) from error
        _poll_pause(stopping)


def _poll_pause(stopping: Callable[[], bool]) -> None:
    if stopping():
        raise StoppedError("Stopping on SIGTERM before the first step")
    time.sleep(POLL_INTERVAL_S)


def _slice(place: ReplicaConfig) -> str:
    shape = f"{format_count(place.workers, 'worker')} of {format_count(place.cores, 'core')}"
    return f"{place.run}{SEPARATOR}{shape}"


def _arrival(rank: int) -> str:
    return f"arrived/{rank}"


def _unknown_host_error(host: str, error: OSError) -> TrainerError:
    return TrainerError(
        f"The coordinator's host name {host} cannot be resolved",
        why=error.strerror or str(error),
        remedy="Set TPU_TUI_COORDINATOR to worker 0's internal address and a port",
    )
