"""Causes for which a login fails, each reported as such; and ports probed from a worker."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import asyncssh
import pytest

from tests.sshd import OpensshWorker, free_port, make_key, silent_port
from tui.pod.worker import Worker
from tui.ssh.config.access import Access, ClientKey
from tui.ssh.errors import Reason, SshError, connect_error, jump_host_error
from tui.ssh.exec.port_probe import classify_port
from tui.ssh.fleet import Fleet
from tui.ssh.host_login import Login
from tui.ssh.results import LoginResult

pytestmark = pytest.mark.timing

Start = Callable[..., OpensshWorker]


@asynccontextmanager
async def _speaker(say: bytes, *, first: bool = True, hang: bool = False) -> AsyncIterator[int]:
    """Run a TCP server that sends these bytes (before or after its client does), then hangs up or stays silent."""

    serving: list[asyncio.Task[None]] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            if not first:
                await reader.readline()
            writer.write(say)
            if hang:
                await reader.read()
            writer.close()
            await writer.wait_closed()

    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        serving.append(asyncio.ensure_future(serve(reader, writer)))

    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        await asyncio.gather(*serving)


async def _reach(
    host: str, port: int, timeout: float | None = None, **access: object
) -> tuple[LoginResult, SshError]:
    async with Fleet([Worker(0, external_ip=host, port=port)], Access(user="me", **access)) as fleet:  # type: ignore[arg-type]
        reach = await fleet.try_login(0, timeout)
    assert isinstance(reach.error, SshError)
    assert reach.error.remedy
    assert reach.error.worker == 0
    assert "Traceback" not in str(reach.error)
    return reach, reach.error


async def test_a_worker_that_accepts_the_login_is_ready(sshd: Start) -> None:
    server = sshd()
    async with Fleet([server.worker], server.access()) as fleet:
        reach = await fleet.try_login(0, 20)
        assert reach.ok
        assert reach.connected is not None
        assert reach.logged_in is not None
        assert reach.connected <= reach.logged_in
        assert (await fleet.run(0, "true")).ok
        assert len(server.connections()) == 1


async def test_a_port_where_nothing_listens_refuses() -> None:
    reach, error = await _reach("127.0.0.1", free_port())
    assert (reach.stage, error.reason) == ("connect", Reason.REFUSED)


async def test_a_name_that_does_not_resolve_is_reported() -> None:
    reach, error = await _reach("no-such-host.invalid", 22)
    assert (reach.stage, error.reason) == ("name", Reason.NAME)


async def test_silence_to_the_first_packet_is_reported_as_a_firewall() -> None:
    with silent_port() as port:
        reach, error = await _reach("127.0.0.1", port, connect_timeout=0.5)
    assert (reach.stage, error.reason) == ("connect", Reason.TIMED_OUT)
    assert "firewall" in str(error)


@pytest.mark.parametrize("number", [errno.EHOSTUNREACH, errno.ENETUNREACH])
def test_no_route_is_reported(number: int) -> None:
    error = connect_error(OSError(number, "x"), 2, Login("10.1.1.1", 22, "me"), 15)
    assert (error.reason, error.worker) == (Reason.NO_ROUTE, 2)


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ("[Errno 111] Connect call failed ('10.1.1.1', 22)", Reason.REFUSED),
        ("[Errno 113] Connect call failed ('10.1.1.1', 22)", Reason.NO_ROUTE),
        ("Host is down", Reason.NO_ROUTE),
        ("Connection timed out", Reason.TIMED_OUT),
        ("Name or service not known", Reason.NAME),
        ("something else", Reason.OTHER),
    ],
)
def test_the_message_of_a_jump_host_is_classified(words: str, reason: Reason) -> None:
    error = jump_host_error(classify_port(2, words).cause, words, 2, Login("10.1.1.1", 22, "me"), "gate")
    assert (error.reason, error.worker) == (reason, 2)


async def test_a_web_server_is_not_an_ssh_server() -> None:
    says = b"HTTP/1.1 400 Bad \x1b[31mRequest\r\nServer: x\r\nContent-Type: text/html\r\n\r\n<html>"
    async with _speaker(says, first=False) as port:
        reach, error = await _reach("127.0.0.1", port)
    assert (reach.stage, error.reason) == ("greeting", Reason.NOT_SSH)
    assert error.why == f'127.0.0.1:{port} is not an SSH server (it answered "HTTP/1.1 400 Bad ␛[31mRequest")'


async def test_a_long_greeting_is_shortened_in_the_error() -> None:
    async with _speaker(b"* OK " + b"x" * 200 + b"\r\n", first=False) as port:
        _, error = await _reach("127.0.0.1", port)
    assert error.why.endswith('(it answered "* OK ' + "x" * 55 + '…")')


async def test_a_server_that_says_nothing_is_not_an_ssh_server() -> None:
    async with _speaker(b"", hang=True) as port:
        reach, error = await _reach("127.0.0.1", port, login_timeout=2.0)
    assert (reach.stage, error.reason) == ("greeting", Reason.NOT_SSH)


async def test_a_server_with_another_greeting_is_named_by_that_greeting() -> None:
    async with _speaker(b"220 mail ESMTP\r\n", hang=True) as port:
        reach, error = await _reach("127.0.0.1", port, login_timeout=1.0)
    assert (reach.stage, error.reason) == ("greeting", Reason.NOT_SSH)
    assert error.why.endswith('(it answered "220 mail ESMTP")')


async def test_a_server_of_ssh_version_1_is_too_old_and_not_busy() -> None:
    async with _speaker(b"SSH-1.5-Old\r\n", hang=True) as port:
        reach, error = await _reach("127.0.0.1", port)
    assert (reach.stage, error.reason) == ("greeting", Reason.ALGORITHMS)
    assert "SSH-1.5-Old" in error.why


@pytest.mark.parametrize("banner", ["", "Welcome\nYour account has expired\n"])
async def test_a_server_that_hangs_up_during_the_login_is_not_reported_as_a_broken_network(banner: str) -> None:
    class Refusing(asyncssh.SSHServer):
        def connection_made(self, conn: asyncssh.SSHServerConnection) -> None:
            self.connection = conn

        def begin_auth(self, username: str) -> bool:
            if banner:
                self.connection.send_auth_banner(banner)
            asyncio.get_running_loop().call_later(0.1, self.connection.abort)
            return True

        async def validate_public_key(self, username: str, key: asyncssh.SSHKey) -> bool:  # type: ignore[override]
            await asyncio.sleep(60)
            return True

        def public_key_auth_supported(self) -> bool:
            return True

    key = asyncssh.generate_private_key("ssh-ed25519")
    async with await asyncssh.listen("127.0.0.1", 0, server_factory=Refusing, server_host_keys=[key]) as server:
        worker = Worker(0, external_ip="127.0.0.1", port=server.get_port(), host_keys=(_public(key),))
        access = Access(user="me", client_keys=(ClientKey("k", key.export_private_key().decode()),))
        async with Fleet([worker], access) as fleet:
            reach = await fleet.try_login(0)
    assert isinstance(reach.error, SshError)
    assert (reach.stage, reach.error.what) == ("login", "it hung up in the middle of the login")
    assert ("Your account has expired" in reach.error.why) == bool(banner)
    assert "network" not in reach.error.remedy


def _public(key: asyncssh.SSHKey) -> str:
    return key.export_public_key().decode().strip()


async def test_a_server_that_greets_and_falls_silent_times_out() -> None:
    async with _speaker(b"SSH-2.0-Slow\r\n", hang=True) as port:
        reach, error = await _reach("127.0.0.1", port, login_timeout=2.0)
    assert (reach.stage, error.reason) == ("login", Reason.LOGIN_TIMED_OUT)


async def test_a_server_that_hangs_up_before_its_greeting_is_busy() -> None:
    async with _speaker(b"") as port:
        reach, error = await _reach("127.0.0.1", port)
    assert (reach.stage, error.reason) == ("greeting", Reason.CLOSED_EARLY)
    assert "MaxStartups" in error.why


async def test_a_given_timeout_ends_a_login() -> None:
    async with _speaker(b"", hang=True) as port:
        reach, error = await _reach("127.0.0.1", port, timeout=2.0)
    assert (reach.stage, error.reason) == ("login", Reason.TIMED_OUT)


async def test_the_error_for_a_refused_key_names_the_ways_to_log_in(sshd: Start) -> None:
    server = sshd()
    make_key(server.root / "other_key")
    access = server.access(identity=str(server.root / "other_key"))
    async with Fleet([server.worker], access) as fleet:
        reach = await fleet.try_login(0)
    assert isinstance(reach.error, SshError)
    assert (reach.stage, reach.error.reason) == ("login", Reason.DENIED)
    for remedy in ("keys add", "gcloud compute tpus tpu-vm ssh", "ssh-add", "--user"):
        assert remedy in reach.error.remedy


async def test_a_server_that_requires_more_than_a_key_is_not_reported_as_refusing_it(sshd: Start) -> None:
    server = sshd(extra=("AuthenticationMethods publickey,password", "PasswordAuthentication yes"))
    async with Fleet([server.worker], server.access()) as fleet:
        reach = await fleet.try_login(0)
    assert isinstance(reach.error, SshError)
    assert (reach.stage, reach.error.reason) == ("login", Reason.DENIED)
    assert "root@127.0.0.1 requires password" in str(reach.error)
    assert "sshd_config" in reach.error.remedy


async def test_a_server_without_a_supported_host_key_is_not_reported_as_a_broken_network(sshd: Start) -> None:
    server = sshd(host_key_type="rsa", extra=("HostKeyAlgorithms ssh-rsa",))
    async with Fleet([server.worker], server.access()) as fleet:
        reach = await fleet.try_login(0)
    assert "no algorithm in common" in str(reach.error)


async def test_a_host_key_problem_is_reported_as_such(sshd: Start) -> None:
    server = sshd()
    async with Fleet([server.untrusted_worker], server.access()) as fleet:
        assert (await fleet.try_login(0)).stage == "host_key"


async def test_a_server_with_old_algorithms_only_still_accepts_a_login(sshd: Start) -> None:
    server = sshd(extra=["KexAlgorithms diffie-hellman-group14-sha256", "Ciphers aes128-ctr", "MACs hmac-sha2-256"])
    async with Fleet([server.worker], server.access()) as fleet:
        assert (await fleet.run(0, "true")).ok


async def test_control_characters_in_a_disconnect_message_are_escaped() -> None:
    evil = b"SSH-2.0-x\r\n\0\0\0\x1c\x06\x01\0\0\0\x02\0\0\0\x09\x1b]0;evil\x07\0\0\0\0" + bytes(6)
    async with _speaker(evil) as port:
        _, error = await _reach("127.0.0.1", port)
    assert "\x1b" not in str(error)
    assert "\x07" not in str(error)


async def test_ports_are_probed_from_the_worker(sshd: Start) -> None:
    server = sshd()
    async with Fleet([server.worker], server.access()) as fleet:
        assert (await fleet.probe(0, "127.0.0.1", server.port)).state == "open"
        assert (await fleet.probe(0, "127.0.0.1", free_port())).state == "closed"
        assert (await fleet.probe(0, "no-such-host.invalid", 22, timeout=30)).state == "unknown"
        with silent_port() as port:
            silent = await fleet.probe(0, "127.0.0.1", port, timeout=0.5)
        assert (silent.state, silent.cause) == ("filtered", "timed out")
        assert (await fleet.run(0, "true")).ok


async def test_a_port_that_answers_a_probe_too_late_is_not_left_connected(sshd: Start) -> None:
    server = sshd()
    with socket.create_server(("127.0.0.1", 0), backlog=0) as busy:
        address = busy.getsockname()
        with socket.create_connection(address) as first, socket.socket() as second:
            second.setblocking(False)
            second.connect_ex(address)
            fillers = {first.getsockname(), second.getsockname()}
            async with Fleet([server.worker], server.access()) as fleet:
                assert (await fleet.probe(0, *address, timeout=0.5)).state == "filtered"
                assert await asyncio.to_thread(_first_bytes, busy, fillers) == b""


def _first_bytes(server: socket.socket, others: set[tuple[str, int]]) -> bytes:
    """Return what the first client that is none of the `others` sends: nothing if it closes the connection."""
    server.settimeout(20)
    while True:
        client, address = server.accept()
        with client:
            if address not in others:
                client.settimeout(20)
                return client.recv(1)


async def test_a_worker_that_forbids_forwarding_cannot_be_probed_from(sshd: Start) -> None:
    server = sshd(forwarding=False)
    async with Fleet([server.worker], server.access()) as fleet:
        state = await fleet.probe(0, "127.0.0.1", server.port)
    assert (state.state, state.cause) == ("unknown", "forbidden")
    assert "AllowTcpForwarding" in state.remedy
