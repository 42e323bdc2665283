"""Commands on real OpenSSH servers, one worker and eight."""

from __future__ import annotations

from collections.abc import Callable

from tests.sshd import OpensshWorker
from tui.ssh.fleet import Completed, Fleet

Start = Callable[..., OpensshWorker]


async def test_a_command_runs_and_its_bytes_come_back_exactly(sshd: Start) -> None:
    server = sshd()
    data = bytes(range(256)) * 5000
    async with Fleet([server.worker], server.access()) as fleet:
        assert await fleet.run(0, "cat; printf '\\377' >&2; exit 3", input=data) == Completed(
            0, 3, None, data, b"\xff", False
        )


async def test_eight_workers_answer_each_for_itself(sshd: Start) -> None:
    servers = [sshd() for _ in range(8)]
    async with Fleet([server.worker for server in servers], servers[0].access()) as fleet:
        rows = [row async for row in fleet.run_all(range(8), 'cat; printf %s "$HOME"', input=lambda i: b"%d " % i)]
    assert {row.worker: row.stdout for row in rows if isinstance(row, Completed)} == {
        i: f"{i} {server.home}".encode() for i, server in enumerate(servers)
    }
