"""Packets that leave together: nothing is lost, reordered or held back at the end."""

from __future__ import annotations

import asyncio
import socket

import pytest

from tui.ssh.transport.write_coalescing import SocketTunnel


class Peer(asyncio.Protocol):
    """What asyncssh is to the line: a protocol that keeps its transport and what came."""

    def __init__(self) -> None:
        self.transport: asyncio.Transport | None = None
        self.received = b""
        self.lost: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.received += data

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost.set_result(None)


async def on_stream() -> tuple[Peer, socket.socket, asyncio.Transport]:
    near, far = socket.socketpair()
    near.setblocking(False)
    far.setblocking(False)
    _, protocol = await SocketTunnel(near).create_connection(Peer, "host", 22)
    assert isinstance(protocol, Peer)
    assert protocol.transport is not None
    return protocol, far, protocol.transport


async def read_all(far: socket.socket) -> bytes:
    loop = asyncio.get_running_loop()
    found = b""
    while data := await loop.sock_recv(far, 1 << 20):
        found += data
    return found


async def test_writes_of_one_turn_arrive_together_and_in_order() -> None:
    _, far, transport = await on_stream()
    with far:
        for number in range(5):
            transport.write(b"%d" % number)
        assert await asyncio.get_running_loop().sock_recv(far, 100) == b"01234"
        transport.abort()


async def test_nothing_is_sent_before_the_turn_is_over() -> None:
    _, far, transport = await on_stream()
    with far:
        transport.write(b"soon")
        with pytest.raises(BlockingIOError):
            far.recv(1)
        transport.abort()


async def test_what_is_pending_leaves_before_the_line_closes() -> None:
    peer, far, transport = await on_stream()
    with far:
        transport.write(b"last ")
        transport.write(bytearray(b"words"))
        transport.close()
        assert transport.is_closing()
        assert await read_all(far) == b"last words"
    await peer.lost


async def test_more_than_the_kernel_takes_arrives_whole() -> None:
    _, far, transport = await on_stream()
    block = bytes(range(256)) * 4096
    with far:
        for _ in range(8):
            transport.write(block)
        transport.close()
        assert await read_all(far) == block * 8


async def test_what_the_other_end_sends_reaches_the_protocol() -> None:
    peer, far, _ = await on_stream()
    with far:
        await asyncio.get_running_loop().sock_sendall(far, b"hello")
        far.shutdown(socket.SHUT_WR)
        await peer.lost
    assert peer.received == b"hello"


async def test_the_socket_can_be_asked_for() -> None:
    _, far, transport = await on_stream()
    with far:
        assert transport.get_extra_info("socket").fileno() > 0
        assert transport.get_extra_info("nothing", "default") == "default"
        transport.abort()
