"""Commands on real OpenSSH servers: bytes, timeouts, sessions, broken connections, routes."""

from __future__ import annotations

import asyncio
import logging
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.sshd import OpensshWorker, silent_port
from tests.waiting import until
from tui.aio.fan_out import cancel_all
from tui.errors import UsageError, WorkerError
from tui.pod.worker import Worker
from tui.ssh.config.access import Access
from tui.ssh.errors import Reason, SshError
from tui.ssh.fleet import Fleet
from tui.ssh.results import CommandResult

pytestmark = pytest.mark.timing

Start = Callable[..., OpensshWorker]


@pytest.mark.py310
async def test_a_command_runs_and_its_bytes_come_back_exactly(sshd: Start) -> None:
    server = sshd()
    data = bytes(range(256)) * 20_000
    async with Fleet([server.worker], server.access()) as fleet:
        done = await fleet.run(0, "cat; printf '\\377' >&2; exit 3", input=data)
        assert done == CommandResult(0, 3, None, data, b"\xff", False)


async def test_a_command_that_does_not_read_its_input_ends(sshd: Start) -> None:
    server = sshd()
    async with Fleet([server.worker], server.access()) as fleet:
        assert (await fleet.run(0, "exit 7", input=b"x" * 10_000_000)).exit_code == 7


async def test_endless_output_does_not_fill_the_memory(sshd: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    server = sshd()
    monkeypatch.setattr("tui.ssh.exec.command.OUTPUT_LIMIT_BYTES", 1_000_000)
    async with Fleet([server.worker], server.access()) as fleet:
        with pytest.raises(SshError, match="writes too much"):
            await fleet.run(0, "exec cat /dev/zero")
        assert (await fleet.run(0, "true")).ok


async def test_a_signal_is_not_an_exit_code(sshd: Start) -> None:
    server = sshd()
    async with Fleet([server.worker], server.access()) as fleet:
        assert (await fleet.run(0, "kill -s SEGV $$")).signal == "SEGV"
        done = await fleet.run(0, "kill -s SEGV $$", timeout=20)
    assert (done.exit_code, done.signal) == (None, "SEGV")


async def test_a_command_with_a_timeout_still_runs_in_the_login_shell(sshd: Start) -> None:
    server = sshd()
    async with Fleet([server.worker], server.access()) as fleet:
        done = await fleet.run(
            0, "a=(1 'it''s'); echo \"${a[1]}\" \"$BASH_VERSION\"; cat; exit 5", input=b"in", timeout=20
        )
    assert (done.exit_code, done.stdout.split()[0], done.stdout.split()[-1]) == (5, b"its", b"in"[-2:])


@pytest.mark.py310
async def test_a_timeout_keeps_the_output_so_far_and_ends_the_command(sshd: Start) -> None:
    server = sshd()
    pid = server.home / "pid"
    async with Fleet([server.worker], server.access()) as fleet:
        await fleet.connect(0)
        done = await fleet.run(0, f"echo $$ >{pid}; echo early; exec sleep 1000", timeout=6.0)
        assert done == CommandResult(0, None, None, b"early\n", b"", True)
        await until(lambda: not Path(f"/proc/{pid.read_text().strip()}").exists())
        assert (await fleet.run(0, "true")).ok


@pytest.mark.py310
async def test_the_timeout_of_a_command_limits_the_login_too(sshd: Start) -> None:
    server, other = sshd(), sshd()
    assert server.process is not None
    server.process.send_signal(signal.SIGSTOP)
    async with Fleet([server.worker, other.worker], server.access()) as fleet:
        await fleet.connect(1)
        rows = {row.worker: row async for row in fleet.run_all([0, 1], "echo hello", timeout=6.0)}
    silent, answer = rows[0], rows[1]
    assert isinstance(answer, CommandResult)
    assert answer.stdout == b"hello\n"
    assert isinstance(silent, SshError)
    assert silent.sentence == "worker 0: no answer: no login within 6 s"


@pytest.mark.py310
async def test_the_timeout_of_a_command_includes_its_start(sshd: Start) -> None:
    server = sshd()
    async with Fleet([server.worker], server.access()) as fleet:
        await fleet.connect(0)
        server.freeze()
        with pytest.raises(SshError) as caught:
            await fleet.run(0, "true", timeout=1.0)
        server.thaw()
        assert caught.value.sentence == "worker 0: no answer: it started no command within 1 s"
        assert (await fleet.run(0, "true", timeout=20.0)).ok


async def test_the_timeout_of_a_command_includes_a_second_login(sshd: Start) -> None:
    server = sshd(max_sessions=1)
    async with Fleet([server.worker], server.access()) as fleet:
        follower = await fleet.process(0, "sleep 1000")
        assert server.process is not None
        server.process.send_signal(signal.SIGSTOP)
        (row,) = [row async for row in fleet.run_all([0], "true", timeout=1.0)]
        follower.close()
    assert isinstance(row, SshError)
    assert row.sentence == "worker 0: no answer: it started no command within 1 s"


async def test_eight_workers_answer_independently_and_one_failure_stops_none(sshd: Start) -> None:
    servers = [sshd() for _ in range(8)]
    servers[3].stop()
    async with Fleet([server.worker for server in servers], servers[0].access()) as fleet:
        rows = [row async for row in fleet.run_all(range(8), 'printf %s "$HOME"')]
    answers = {row.worker: row.stdout for row in rows if isinstance(row, CommandResult)}
    assert answers == {i: str(server.home).encode() for i, server in enumerate(servers) if i != 3}
    (error,) = [row for row in rows if isinstance(row, WorkerError)]
    assert isinstance(error, SshError)
    assert (error.worker, error.reason) == (3, Reason.REFUSED)


async def test_a_reader_that_stops_early_cancels_the_rest(sshd: Start) -> None:
    servers = [sshd(), sshd()]
    async with Fleet([server.worker for server in servers], servers[0].access()) as fleet:
        rows = fleet.run_all([0, 1], 'case $(basename "$(dirname "$HOME")") in sshd-0-*) ;; *) sleep 1000 ;; esac')
        async for row in rows:
            assert isinstance(row, CommandResult)
            assert row.worker == 0
            break
        await rows.aclose()  # type: ignore[attr-defined]
        assert (await fleet.run(1, "true")).ok


async def test_one_connection_serves_many_commands(sshd: Start) -> None:
    server = sshd()
    async with Fleet([server.worker], server.access()) as fleet:
        results = await asyncio.gather(*(fleet.run(0, f"sleep 0.05; echo {i}") for i in range(30)))
        assert [int(done.stdout) for done in results] == list(range(30))
        assert len(server.connections()) == 1


async def test_no_more_sessions_are_opened_than_a_server_allows(sshd: Start) -> None:
    server = sshd(max_sessions=2)
    async with Fleet([server.worker], server.access()) as fleet:
        results = await asyncio.gather(*(fleet.run(0, f"sleep 0.05; echo {i}") for i in range(12)))
    assert [int(done.stdout) for done in results] == list(range(12))


async def test_a_server_that_opens_no_session_is_reported(sshd: Start) -> None:
    server = sshd(max_sessions=0)
    async with Fleet([server.worker], server.access()) as fleet:
        with pytest.raises(SshError) as caught:
            await fleet.run(0, "true")
    assert caught.value.reason is Reason.SESSIONS
    assert "MaxSessions" in caught.value.remedy


async def test_a_session_that_is_opened_too_late_is_closed_and_its_command_never_runs(sshd: Start) -> None:
    server = sshd(max_sessions=4)
    async with Fleet([server.worker], server.access(sessions=4)) as fleet:
        connection = await fleet.connect(0)
        server.freeze()
        for _ in range(4):
            with pytest.raises(SshError, match="no answer"):
                await fleet.run(0, "touch ran", timeout=0.1)
        waiting = [asyncio.ensure_future(fleet.process(0, "touch ran")) for _ in range(4)]
        await asyncio.wait(waiting, timeout=0.1)
        await cancel_all(waiting)
        server.thaw()
        for _ in range(3):
            assert (await fleet.run(0, "ls ran", timeout=20)).exit_code == 2
        assert await fleet.connect(0) is connection


async def test_a_process_streams_both_ways_and_frees_its_slot(sshd: Start) -> None:
    server = sshd()
    async with Fleet([server.worker], server.access(sessions=1)) as fleet:
        process = await fleet.process(0, "cat")
        process.stdin.write(b"\xffone\n")
        assert await process.stdout.readline() == b"\xffone\n"
        waiting = asyncio.ensure_future(fleet.run(0, "true"))
        process.stdin.write(b"two\n")
        assert await process.stdout.readline() == b"two\n"
        assert not waiting.done()
        process.stdin.write_eof()
        assert await process.stdout.read() == b""
        process.close()
        assert (await waiting).ok


async def test_a_fast_worker_waits_for_its_reader(sshd: Start) -> None:
    server = sshd()
    async with Fleet([server.worker], server.access()) as fleet:
        process = await fleet.process(0, f"exec head -c 20000000 /dev/zero | tee {server.home}/copy")
        copy = server.home / "copy"
        await until(copy.exists)
        sizes = [-1]

        def settled() -> bool:
            sizes.append(copy.stat().st_size)
            return len(sizes) > 20 and sizes[-1] == sizes[-20] > 0

        await until(settled)
        assert sizes[-1] < 4_000_000
        assert len(await process.stdout.read()) == 20_000_000


async def test_a_broken_connection_is_reported_and_opened_again(sshd: Start) -> None:
    server = sshd()
    async with Fleet([server.worker], server.access()) as fleet:
        connection = await fleet.connect(0)
        running = asyncio.ensure_future(fleet.run(0, f"touch {server.home}/started; sleep 1000"))
        await until((server.home / "started").exists)
        server.cut()
        with pytest.raises(SshError) as caught:
            await running
        assert caught.value.reason is Reason.LOST
        await asyncio.wait_for(connection.ended, 60)
        assert (await fleet.run(0, "true")).ok
        assert await fleet.connect(0) is not connection


@pytest.mark.py310
async def test_a_worker_that_falls_silent_is_noticed(sshd: Start) -> None:
    server = sshd()
    async with Fleet([server.worker], server.access(keepalive=1.0, keepalive_count=2)) as fleet:
        running = asyncio.ensure_future(fleet.run(0, f"touch {server.home}/started; sleep 1000"))
        await until((server.home / "started").exists)
        server.freeze()
        with pytest.raises(SshError) as caught:
            await running
        server.thaw()
    assert caught.value.reason is Reason.LOST


async def test_a_connection_that_died_unnoticed_is_made_again_before_a_command(sshd: Start) -> None:
    server = sshd()
    async with Fleet([server.worker], server.access(keepalive=1.0, keepalive_count=2)) as fleet:
        first = await fleet.connect(0)
        server.freeze()
        assert (await fleet.run(0, "true")).ok
        assert await fleet.connect(0) is not first
        server.thaw()


async def test_silent_workers_delay_the_others_only_briefly(sshd: Start) -> None:
    server = sshd()
    with silent_port() as port:
        silent = [replace(server.worker, index=i, port=port) for i in range(1, 3)]
        access = server.access(handshakes=1, connect_timeout=60)
        async with Fleet([*silent, server.worker], access) as fleet:
            async for row in fleet.run_all([1, 2, 0], "true"):
                assert isinstance(row, CommandResult)
                assert row.worker == 0
                break


async def test_frozen_workers_delay_the_others_only_briefly(sshd: Start) -> None:
    """The kernel of a frozen worker accepts the connection, and no process sends an SSH greeting."""
    server = sshd()
    with socket.create_server(("127.0.0.1", 0)) as frozen:
        silent = [replace(server.worker, index=i, port=frozen.getsockname()[1]) for i in range(1, 3)]
        access = server.access(handshakes=1, login_timeout=60)
        async with Fleet([*silent, server.worker], access) as fleet:
            async for row in fleet.run_all([1, 2, 0], "true"):
                assert isinstance(row, CommandResult)
                assert row.worker == 0
                break


async def test_many_logins_at_one_server_all_succeed(sshd: Start) -> None:
    server = sshd(extra=["MaxStartups 4"])
    workers = [replace(server.worker, index=index) for index in range(12)]
    async with Fleet(workers, server.access(handshakes=8)) as fleet:
        rows = [row async for row in fleet.run_all(range(12), "true")]
    assert all(isinstance(row, CommandResult) for row in rows), rows
    assert len(rows) == 12


async def test_a_jump_host_carries_all_workers_over_one_connection(sshd: Start) -> None:
    jump, *servers = [sshd() for _ in range(4)]
    workers = [replace(server.worker, index=i) for i, server in enumerate(servers)]
    access = jump.access(
        jump=f"root@127.0.0.1:{jump.port}",
        known_hosts=(str(jump.root / "known"),),
    )
    (jump.root / "known").write_text(f"[127.0.0.1]:{jump.port} {jump.host_key}\n")
    async with Fleet(workers, access) as fleet:
        rows = [row async for row in fleet.run_all(range(3), 'echo "$SSH_CONNECTION"')]
        assert all(isinstance(row, CommandResult) and row.ok for row in rows), rows
        assert len(jump.connections()) == 1
        assert await fleet.probe(0, "127.0.0.1", servers[0].port)
    gone = replace(workers[0], port=1)
    async with Fleet([gone], access) as fleet:
        with pytest.raises(SshError) as caught:
            await fleet.run(0, "true")
    assert caught.value.reason is Reason.REFUSED
    assert "jump host" in caught.value.why


async def test_a_jump_host_that_does_not_forward_is_named(sshd: Start) -> None:
    jump, server = sshd(forwarding=False), sshd()
    (jump.root / "known").write_text(f"[127.0.0.1]:{jump.port} {jump.host_key}\n")
    access = jump.access(jump=f"root@127.0.0.1:{jump.port}", known_hosts=(str(jump.root / "known"),))
    async with Fleet([server.worker], access) as fleet:
        with pytest.raises(SshError) as caught:
            await fleet.run(1, "true")
    assert caught.value.what == "the jump host does not forward"


async def test_an_unknown_jump_host_is_not_trusted(sshd: Start) -> None:
    jump, server = sshd(), sshd()
    async with Fleet([server.worker], jump.access(jump=f"root@127.0.0.1:{jump.port}")) as fleet:
        with pytest.raises(SshError) as caught:
            await fleet.run(1, "true")
    assert caught.value.reason is Reason.HOST_KEY_UNKNOWN
    assert caught.value.what.startswith("the jump host")


async def test_a_jump_host_that_is_down_is_tried_once_for_all_waiting_workers(sshd: Start) -> None:
    servers = [sshd() for _ in range(2)]
    tried = 0

    async def hang_up(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal tried
        tried += 1
        writer.write(b"HTTP/1.1 400 no\r\n")
        writer.close()

    async with await asyncio.start_server(hang_up, "127.0.0.1", 0) as listener:
        jump = f"root@127.0.0.1:{listener.sockets[0].getsockname()[1]}"
        workers = [replace(servers[i % 2].worker, index=i) for i in range(10)]
        async with Fleet(workers, servers[0].access(jump=jump)) as fleet:
            rows = [row async for row in fleet.run_all(range(10), "true")]
    assert sorted(row.worker for row in rows if isinstance(row, SshError)) == list(range(10))
    assert {row.reason for row in rows if isinstance(row, SshError)} == {Reason.NOT_SSH}
    assert tried == 2  # the login, and the connection that reads its greeting


async def test_a_jump_host_that_hangs_is_named_to_callers_with_a_shorter_timeout(sshd: Start) -> None:
    jump, server = sshd(), sshd()
    assert jump.process is not None
    jump.process.send_signal(signal.SIGSTOP)
    gate = f"root@127.0.0.1:{jump.port}"
    async with Fleet([server.worker], server.access(jump=gate)) as fleet:
        reach = await fleet.try_login(1, 1.0)
        rows = [row async for row in fleet.run_all([1], "true", timeout=1.0)]
    for error in (reach.error, *rows):
        assert isinstance(error, SshError)
        assert f"the login on the jump host {gate} did not finish within 1 s" in error.why


async def test_a_worker_that_its_jump_host_does_not_reach_is_named(sshd: Start) -> None:
    jump, server = sshd(), sshd()
    (jump.root / "known").write_text(f"[127.0.0.1]:{jump.port} {jump.host_key}\n")
    access = jump.access(jump=f"root@127.0.0.1:{jump.port}", known_hosts=(str(jump.root / "known"),))
    with silent_port() as port:
        async with Fleet([replace(server.worker, port=port)], replace(access, login_timeout=2.0)) as fleet:
            reach = await fleet.try_login(1)
    assert isinstance(reach.error, SshError)
    assert (reach.stage, reach.error.reason) == ("connect", Reason.TIMED_OUT)
    assert f"did not reach 127.0.0.1:{port} within 2 s" in reach.error.why


async def test_a_chain_whose_first_jump_host_is_down_is_tried_once_for_all(sshd: Start) -> None:
    second, server = sshd(), sshd()
    tried = 0

    async def hang_up(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal tried
        tried += 1
        writer.write(b"HTTP/1.1 400 no\r\n")
        writer.close()

    async with await asyncio.start_server(hang_up, "127.0.0.1", 0) as listener:
        chain = f"root@127.0.0.1:{listener.sockets[0].getsockname()[1]},root@127.0.0.1:{second.port}"
        workers = [replace(server.worker, index=index) for index in range(10)]
        async with Fleet(workers, server.access(jump=chain)) as fleet:
            rows = [row async for row in fleet.run_all(range(10), "true")]
    assert {row.reason for row in rows if isinstance(row, SshError)} == {Reason.NOT_SSH}
    assert tried == 2  # the login, and the connection that reads its greeting


async def test_a_worker_is_reached_through_a_chain_of_jump_hosts(sshd: Start) -> None:
    first, second, server = sshd(), sshd(), sshd()
    known = first.root / "known"
    known.write_text("".join(f"[127.0.0.1]:{jump.port} {jump.host_key}\n" for jump in (first, second)))
    chain = ",".join(f"root@127.0.0.1:{jump.port}" for jump in (first, second))
    async with Fleet([server.worker], server.access(jump=chain, known_hosts=(str(known),))) as fleet:
        assert (await fleet.run(2, "true")).ok
        assert len(first.connections()) == len(second.connections()) == 1


async def test_a_worker_that_does_not_exist_is_a_usage_error(sshd: Start) -> None:
    server = sshd()
    async with Fleet([server.worker], server.access()) as fleet:
        with pytest.raises(UsageError, match="no worker 5"):
            await fleet.run(5, "true")


async def test_an_external_address_is_not_used_on_the_internal_route(sshd: Start) -> None:
    server = sshd()
    worker = Worker(
        0, internal_ip="127.0.0.1", external_ip="192.0.2.1", port=server.port, host_keys=(server.host_key,)
    )
    async with Fleet([worker], server.access(route="internal")) as fleet:
        assert (await fleet.run(0, "true")).ok


def test_fleets_add_nothing_to_the_logger_that_they_share() -> None:
    handlers = logging.getLogger("asyncssh").handlers
    before = list(handlers)
    for _ in range(3):
        Fleet([], Access())
    assert handlers == before


def test_a_fleet_does_not_import_asyncssh_before_it_connects() -> None:
    program = (
        "import sys, tui.ssh.fleet as f, tui.ssh.config.access as a\n"
        "f.Fleet([], a.Access())\n"
        "assert 'asyncssh' not in sys.modules and 'cryptography' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
