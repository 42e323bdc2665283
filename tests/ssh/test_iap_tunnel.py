"""The IAP route, against a server that speaks the tunnel's protocol and relays to real OpenSSH servers."""

from __future__ import annotations

import asyncio
import fcntl
import hashlib
import os
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path
from termios import FIONREAD, TIOCOUTQ
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.ssh.iap_server import IapServer, iap_server
from tests.sshd import OpensshWorker, needs_sshd
from tests.waiting import until
from tui.pod.worker import Worker
from tui.procs.liveness import pid_exists
from tui.ssh.config.access import Access
from tui.ssh.errors import Reason, SshError
from tui.ssh.fleet import Fleet
from tui.ssh.transport import iap_tunnel
from tui.ssh.transport.iap_protocol import Frame, ResendBuffer, Tag, decode
from tui.ssh.transport.iap_tunnel import IapTarget, IapTunnels

pytestmark = pytest.mark.timing

Start = Callable[..., OpensshWorker]
BIG = 3_000_000
SENT = b"said after the cut"
TURNS = 200
"""Turns of the event loop without any change after which none is expected."""


@pytest.fixture
async def iap() -> AsyncIterator[IapServer]:
    async with iap_server() as server:
        yield server


def through(iap: IapServer, server: OpensshWorker, **changes: Any) -> tuple[Worker, Access]:
    """Return a worker that can only be reached through IAP, and how to log in to it."""
    name = f"t1v-n-test-w-{server.index}"
    iap.machines[name, server.port] = (server.host, server.port)
    instance = f"projects/p/zones/us-central1-a/instances/{name}"
    worker = replace(server.worker, internal_ip="192.0.2.1", instance=instance)
    return worker, server.access(**{"route": "iap", "iap_url": iap.url, **changes})


@needs_sshd
async def test_commands_run_through_the_tunnel(sshd: Start, iap: IapServer) -> None:
    server = sshd()
    worker, access = through(iap, server)
    async with Fleet([worker], access) as fleet:
        done = await fleet.run(0, "cat; echo $((6*7)) >&2", input=b"\0\xff in and out")
    assert (done.exit_code, done.stdout, done.stderr) == (0, b"\0\xff in and out", b"42\n")
    assert iap.queries == [
        {
            "project": "p",
            "port": str(server.port),
            "newWebsocket": "True",
            "zone": "us-central1-a",
            "instance": "t1v-n-test-w-0",
            "interface": "nic0",
        }
    ]
    assert iap.origins == {"bot:iap-tunneler"}


@needs_sshd
async def test_a_tunnel_that_is_cut_repeatedly_loses_and_repeats_no_byte(sshd: Start, iap: IapServer) -> None:
    worker, access = through(iap, sshd())
    iap.cut_after = 300_000
    sent = os.urandom(BIG)
    async with Fleet([worker], access) as fleet:
        done = await fleet.run(0, "cat", input=sent)
        assert hashlib.sha256(done.stdout).digest() == hashlib.sha256(sent).digest()
    (session,) = iap.sessions.values()
    assert session.connections >= 5
    assert iap.acks >= 5


@needs_sshd
async def test_an_idle_tunnel_that_is_cut_continues(sshd: Start, iap: IapServer) -> None:
    worker, access = through(iap, sshd())
    async with Fleet([worker], access) as fleet:
        connection = await fleet.connect(0)
        iap.cut_all()
        assert (await fleet.run(0, "echo still")).stdout == b"still\n"
        assert await fleet.connect(0) is connection


@needs_sshd
async def test_a_server_that_is_silent_after_a_cut_is_asked_again(
    sshd: Start, iap: IapServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(iap_tunnel, "RESUME_S", 0.5)
    worker, access = through(iap, sshd())
    async with Fleet([worker], access) as fleet:
        connection = await fleet.connect(0)
        iap.silent = True
        iap.cut_all()
        await until(lambda: len(iap.queries) > 2, "the second try")
        iap.silent = False
        assert (await fleet.run(0, "echo still")).stdout == b"still\n"
        assert await fleet.connect(0) is connection


async def test_a_tunnel_that_is_cut_without_a_reader_passes_on_every_byte_it_counted(iap: IapServer) -> None:
    """The received bytes are not read yet when the next message finds that the WebSocket is gone."""
    poured, arrived = os.urandom(BIG), asyncio.get_running_loop().create_future()

    async def machine(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(poured)
        arrived.set_result(await reader.readexactly(len(SENT)))
        await reader.read()
        writer.close()

    async with await asyncio.start_server(machine, "127.0.0.1", 0) as server:
        iap.machines["machine", 22] = server.sockets[0].getsockname()[:2]
        tunnels = IapTunnels(Access(user="me", iap_url=iap.url))
        local = await tunnels.open(IapTarget("p", "z", "machine", 22), 0)
        with local:
            await _until_still(local, FIONREAD)
            iap.cut_all()
            for letter in SENT:
                local.send(bytes([letter]))
                await _until_still(local, TIOCOUTQ)
            assert len(iap.queries) == 1, "the tunnel reconnected before it had passed on all bytes"
            received = bytearray()
            while len(received) < len(poured):
                received += await asyncio.get_running_loop().sock_recv(local, BIG)
            assert await arrived == SENT
        await tunnels.close()
    assert len(iap.queries) == 2
    assert hashlib.sha256(received).digest() == hashlib.sha256(poured).digest()


async def _until_still(sock: socket.socket, count: int) -> None:
    """Wait until the number of bytes queued on a socket stays the same; all other tasks run on this loop, too."""
    queued, still = -1, 0
    while still < TURNS:
        before, queued = queued, int.from_bytes(fcntl.ioctl(sock, count, bytes(4)), sys.byteorder)
        still = still + 1 if queued == before else 0
        await asyncio.sleep(0)


@needs_sshd
async def test_a_worker_that_hangs_up_ends_the_connection(sshd: Start, iap: IapServer) -> None:
    server = sshd()
    worker, access = through(iap, server)
    async with Fleet([worker], access) as fleet:
        connection = await fleet.connect(0)
        server.stop()
        await asyncio.wait_for(connection.ended, 60)


@needs_sshd
async def test_eight_workers_share_one_token_and_their_tunnels_end_with_the_fleet(
    sshd: Start, iap: IapServer
) -> None:
    iap.token = "let me in"
    count = "import os; open(os.environ['COUNT'], 'a').write('.'); print('let me in')"
    servers = [sshd() for _ in range(4)]
    calls = servers[0].root / "calls"
    command = ("env", f"COUNT={calls}", sys.executable, "-c", count)
    made = [through(iap, server, token_command=command) for server in servers]
    async with Fleet([worker for worker, _ in made], made[0][1]) as fleet:
        answers = [answer async for answer in fleet.run_all(range(4), "true")]
        assert all(getattr(answer, "exit_code", None) == 0 for answer in answers)
    assert calls.read_text() == "."
    assert all(session.over for session in iap.sessions.values())


async def test_more_than_a_hundred_tunnels_are_open_at_once(iap: IapServer) -> None:
    ended: list[bytes] = []

    async def machine(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        ended.append(await reader.read())
        writer.close()

    async with await asyncio.start_server(machine, "127.0.0.1", 0) as server:
        iap.machines["machine", 22] = server.sockets[0].getsockname()[:2]
        tunnels = IapTunnels(Access(user="me", iap_url=iap.url))
        target = IapTarget("p", "z", "machine", 22)
        with ExitStack() as stack:
            for worker in range(101):
                stack.enter_context(await tunnels.open(target, worker))
        await until(lambda: len(ended) == 101, "every tunnel has ended")
        await tunnels.close()


def test_the_raised_file_limit_admits_a_tunnel_and_a_log_for_each_worker() -> None:
    program = (
        "import os, resource; from tui.procs.file_limit import raise_file_limit\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (64, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))\n"
        "raise_file_limit(300); [os.dup(0) for _ in range(4 * 300)]"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_a_launch_through_iap_beyond_the_file_limit_is_refused() -> None:
    program = """
import resource
from tests.run_records import make_run
from tui.errors import UsageError
from tui.pod.run import make_run_id
from tui.pod.worker import Worker
from tui.runs.launch.launch_spec import LaunchSpec, check_spec
from tui.ssh.config.access import Access

resource.setrlimit(resource.RLIMIT_NOFILE, (64, 700))
run = make_run(make_run_id("big"), "big", ("true",), tuple(map(Worker, range(300))))
check_spec(LaunchSpec(run, {}, Access()))
try:
    check_spec(LaunchSpec(run, {}, Access(route="iap")))
except UsageError as error:
    print(error.sentence)
"""
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    assert "300 workers need 1248 open files" in done.stdout


@needs_sshd
async def test_the_error_of_a_token_command_is_quoted(sshd: Start, iap: IapServer) -> None:
    iap.token = "let me in"
    worker, access = through(iap, sshd(), token_command=("sh", "-c", "echo no login here >&2; exit 3"))
    async with Fleet([worker], access) as fleet:
        with pytest.raises(SshError) as caught:
            await fleet.connect(0)
    assert "no login here" in caught.value.why
    assert "gcloud auth application-default login" in caught.value.remedy


@pytest.mark.parametrize(
    ("status", "code", "reason", "remedy"),
    [
        (403, 0, Reason.ROUTE_MISSING, "roles/iap.tunnelResourceAccessor"),
        (0, 4033, Reason.ROUTE_MISSING, "roles/iap.tunnelResourceAccessor"),
        (0, 4003, Reason.REFUSED, "--source-ranges=35.235.240.0/20"),
        (0, 4047, Reason.NO_ROUTE, "tpu-tui slices"),
        (502, 0, Reason.TIMED_OUT, "tunnel.cloudproxy.app"),
    ],
)
async def test_each_refusal_has_its_own_remedy(
    iap: IapServer, status: int, code: int, reason: Reason, remedy: str
) -> None:
    iap.status, iap.close_code = status, code
    worker = Worker(7, internal_ip="192.0.2.1", instance="projects/p/zones/z/instances/i")
    async with Fleet([worker], Access(user="me", route="iap", iap_url=iap.url)) as fleet:
        with pytest.raises(SshError) as caught:
            await fleet.connect(7)
    assert (caught.value.reason, caught.value.worker) == (reason, 7)
    assert remedy in caught.value.remedy


async def test_a_service_that_cannot_be_reached_is_reported() -> None:
    worker = Worker(0, internal_ip="192.0.2.1", instance="projects/p/zones/z/instances/i")
    async with Fleet([worker], Access(user="me", route="iap", iap_url="ws://127.0.0.1:1/v4")) as fleet:
        with pytest.raises(SshError, match="no tunnel through IAP"):
            await fleet.connect(0)


async def test_a_message_that_is_too_long_ends_the_tunnel(iap: IapServer) -> None:
    async def machine(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    async with await asyncio.start_server(machine, "127.0.0.1", 0) as server:
        iap.machines["machine", 22] = server.sockets[0].getsockname()[:2]
        tunnels = IapTunnels(Access(user="me", iap_url=iap.url))
        with await tunnels.open(IapTarget("p", "z", "machine", 22), 0) as local:
            (session,) = iap.sessions.values()
            assert session.ws is not None
            with suppress(ConnectionError):
                await session.ws.send_bytes(bytes(5 << 20))
            assert await asyncio.wait_for(asyncio.get_running_loop().sock_recv(local, 1), 60) == b""
        await tunnels.close()


async def test_a_token_command_that_cannot_be_started_is_named(iap: IapServer) -> None:
    tunnels = IapTunnels(Access(user="me", iap_url=iap.url, token_command=("/nowhere/token",)))
    with pytest.raises(SshError, match="no access token for IAP") as caught:
        await tunnels.open(IapTarget("p", "z", "machine", 22), 3)
    assert caught.value.worker == 3
    assert "/nowhere/token" in caught.value.why
    await tunnels.close()


async def test_a_token_command_that_takes_too_long_is_ended(iap: IapServer, tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    command = ("sh", "-c", f"echo $$ >{pid}; exec sleep 600")
    tunnels = IapTunnels(Access(user="me", iap_url=iap.url, token_command=command, connect_timeout=3.0))
    with pytest.raises(SshError, match="no answer within"):
        await tunnels.open(IapTarget("p", "z", "machine", 22), 0)
    await until(lambda: not pid_exists(int(pid.read_text())), "the end of the command")
    await tunnels.close()


async def test_a_worker_without_an_instance_name_is_explained() -> None:
    async with Fleet([Worker(0, internal_ip="192.0.2.1")], Access(user="me", route="iap")) as fleet:
        with pytest.raises(SshError) as caught:
            await fleet.connect(0)
    assert "guest attributes" in caught.value.why


def test_messages_are_read_as_they_are_written() -> None:
    for frame in (Frame(Tag.DATA, b"abc"), Frame(Tag.CONNECT_SUCCESS_SID, b"sid"), Frame(Tag.ACK, count=1 << 40)):
        assert decode(frame.encode()) == frame
        with pytest.raises(ValueError, match="cut short"):
            decode(frame.encode()[:-1])
    assert Frame(Tag.DATA, b"abc").encode() == b"\0\4\0\0\0\3abc"
    assert decode(b"\0\x63whatever") is None


@given(st.lists(st.binary(max_size=40_000), max_size=6), st.lists(st.floats(0, 1), max_size=8))
def test_whatever_is_confirmed_and_resent_each_byte_arrives_once(pieces: list[bytes], cuts: list[float]) -> None:
    ledger, arrived = ResendBuffer(), bytearray()
    for piece in pieces:
        ledger.add(piece)
    for cut in [*cuts, 1.0]:
        flight = bytearray()
        while (data := ledger.take()) is not None:
            flight += data
        arrived += flight[: int(len(flight) * cut)]
        ledger.confirm(len(arrived))
        ledger.rewind()
    assert bytes(arrived) == b"".join(pieces)
    assert ledger.held == 0


def test_impossible_confirmations_are_refused() -> None:
    ledger = ResendBuffer()
    ledger.add(b"abc")
    with pytest.raises(ValueError, match="more bytes than were sent"):
        ledger.confirm(1)
    ledger.take()
    ledger.confirm(2)
    with pytest.raises(ValueError, match="fewer bytes than before"):
        ledger.confirm(1)
