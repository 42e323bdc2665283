"""Tests of the owner of a connection: the user of the process that holds it, also from another network namespace."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.localpod.other_user import AS_NOBODY, NOBODY, NOBODYS_PYTHON, needs_other_user
from tui.localpod.bucket.network_namespace import refusal_reason
from tui.localpod.bucket.socket_owner import SocketOwners

pytestmark = pytest.mark.timing

_CONNECT = """
import socket, sys
made = socket.socket(getattr(socket, sys.argv[1]))
made.connect((sys.argv[2], int(sys.argv[3])))
print("connected", flush=True)
sys.stdin.readline()
made.close()
print("closed", flush=True)
sys.stdin.readline()
"""
_FROM_INSIDE = """
import os, socket
from tui.localpod.bucket.network_namespace import enter_namespace
from tui.localpod.bucket.socket_owner import SocketOwners
owners = SocketOwners()
listener = socket.create_server(("127.0.0.1", 0))
port = listener.getsockname()[1]
client = socket.create_connection(("127.0.0.1", port))
server, _ = listener.accept()
enter_namespace()
print(owners.uid_of(client.getsockname(), server.getsockname()) == os.geteuid())
print(SocketOwners().uid_of(client.getsockname(), server.getsockname()))
try:
    socket.create_connection(("127.0.0.1", port), timeout=5)
except ConnectionRefusedError:
    print("refused")
inner = socket.create_server(("127.0.0.1", 0))
socket.create_connection(inner.getsockname(), timeout=5)
print("loopback works")
"""


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as made:
        yield made


def owner_of(server: socket.socket) -> int | None:
    return SocketOwners().uid_of(server.getpeername(), server.getsockname())


@needs_other_user
@pytest.mark.parametrize(("family", "address"), [("AF_INET", "127.0.0.1"), ("AF_INET6", "::ffff:127.0.0.1")])
def test_the_owner_is_the_user_of_the_connected_process_until_it_closes(
    listener: socket.socket, family: str, address: str
) -> None:
    """The kernel shows a closed socket as root's, which must not pass as a connection of root."""
    port = str(listener.getsockname()[1])
    words = [*AS_NOBODY, str(NOBODYS_PYTHON), "-I", "-c", _CONNECT, family, address, port]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd="/") as other:
        assert other.stdin is not None
        assert other.stdout is not None
        with listener.accept()[0] as server:
            assert other.stdout.readline() == "connected\n"
            assert owner_of(server) == NOBODY
            other.stdin.write("\n")
            other.stdin.flush()
            assert other.stdout.readline() == "closed\n"
            assert owner_of(server) is None
        other.stdin.close()


def test_the_owner_of_this_processs_connection_is_its_user(listener: socket.socket) -> None:
    with socket.create_connection(listener.getsockname()), listener.accept()[0] as server:
        assert owner_of(server) == os.geteuid()


def test_a_connection_that_does_not_exist_has_no_user(listener: socket.socket) -> None:
    assert SocketOwners().uid_of(("127.0.0.1", 1), listener.getsockname()) is None


@pytest.mark.skipif(refusal_reason() is not None, reason="no network namespace can be made here")
def test_a_process_in_its_own_namespace_still_finds_owners_of_outer_sockets() -> None:
    done = subprocess.run([sys.executable, "-c", _FROM_INSIDE], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["True", "None", "refused", "loopback works"]
