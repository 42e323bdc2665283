"""`python -m tui.ssh.transport.iap_pipe`: standard input and output of an IAP tunnel, as a ProxyCommand of ssh."""

from __future__ import annotations

import argparse
import asyncio
import os
import socket
import sys

from tui.errors import TpuTuiError
from tui.ssh.config.access import Access
from tui.ssh.transport.iap_tunnel import IapTarget, IapTunnels

_BLOCK_BYTES = 1 << 16


async def carry(target: IapTarget, worker: int, access: Access) -> None:
    """Copy both ways until the tunnel ends or standard input does. Raises SshError when it cannot be opened."""
    tunnels = IapTunnels(access)
    try:
        with await tunnels.open(target, worker) as tunnel:
            sending = asyncio.ensure_future(_send(tunnel))
            try:
                await _receive(tunnel)
            finally:
                sending.cancel()
    finally:
        await tunnels.close()


async def _send(tunnel: socket.socket) -> None:
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    while data := await reader.read(_BLOCK_BYTES):
        await loop.sock_sendall(tunnel, data)
    tunnel.shutdown(socket.SHUT_WR)


async def _receive(tunnel: socket.socket) -> None:
    loop = asyncio.get_running_loop()
    while data := await loop.sock_recv(tunnel, _BLOCK_BYTES):
        while data:
            data = data[await asyncio.to_thread(os.write, 1, data) :]


def main() -> int:
    """Carry one connection; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tui.ssh.transport.iap_pipe")
    parser.add_argument("instance", help="projects/P/zones/Z/instances/NAME")
    parser.add_argument("port", type=int)
    parser.add_argument("worker", type=int)
    parser.add_argument("url", help="the tunnel service; empty: Google's")
    parser.add_argument("token_command", nargs="*", help="a command that prints an access token")
    args = parser.parse_args()
    access = Access(iap_url=args.url or None, token_command=tuple(args.token_command))
    try:
        asyncio.run(carry(IapTarget.of(args.instance, args.port), args.worker, access))
    except (TpuTuiError, ValueError) as error:
        print(f"tpu-tui: {error}", file=sys.stderr)
        return 1
    except (BrokenPipeError, KeyboardInterrupt):
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
