"""Servers that accept few logins at once: the login to every worker succeeds nevertheless."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.sshd import OpensshWorker
from tui.ssh.fleet import Fleet
from tui.ssh.results import CommandResult

pytestmark = pytest.mark.timing

Start = Callable[..., OpensshWorker]
FEW = ("MaxStartups 2:50:4",)
"""From two pending logins on, sshd drops each further one with a probability of at least 50 %; from four on, all."""
MANY = 32


async def test_thirty_two_logins_at_a_server_that_drops_most_of_them_all_succeed(sshd: Start) -> None:
    server = sshd(extra=FEW)
    workers = [replace(server.worker, index=index) for index in range(MANY)]
    async with Fleet(workers, server.access()) as fleet:
        rows = [row async for row in fleet.run_all(range(MANY), "true")]
    assert not [row for row in rows if not isinstance(row, CommandResult)]
    assert len(rows) == MANY


async def test_a_jump_host_that_drops_logins_is_logged_in_to_once_for_all(sshd: Start) -> None:
    jump, server = sshd(extra=FEW), sshd(extra=FEW)
    (jump.root / "known").write_text(f"[127.0.0.1]:{jump.port} {jump.host_key}\n")
    access = jump.access(jump=f"root@127.0.0.1:{jump.port}", known_hosts=(str(jump.root / "known"),))
    workers = [replace(server.worker, index=index) for index in range(MANY)]
    async with Fleet(workers, access) as fleet:
        rows = [row async for row in fleet.run_all(range(MANY), "true")]
        assert not [row for row in rows if not isinstance(row, CommandResult)]
        assert len(jump.connections()) == 1
    assert len(rows) == MANY
