"""Tests that a worker of the local pod behaves like a machine with OpenSSH."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import asyncssh
import pytest
import pytest_asyncio

from tests.pods import log_in, running_pod
from tests.waiting import is_running, until
from tui.localpod.host.worker_host import MAX_SESSIONS
from tui.localpod.pod import LocalPod

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timing]

MIB = 1 << 20


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def pod(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[LocalPod]:
    """Start one pod of four workers for all tests that leave them unchanged; the environment has a secret."""
    home = tmp_path_factory.mktemp("home")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TPU_TUI_HOME", str(home))
        patch.setenv("AWS_SECRET_ACCESS_KEY", "hush")
        async with running_pod(home, workers=4) as pod:
            yield pod


def memory_of(pid: int) -> int:
    """Return the resident bytes of a process."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmRSS"))


async def test_64_mebibytes_pass_through_a_command_unchanged(pod: LocalPod) -> None:
    data = os.urandom(MIB) * 64
    async with log_in(pod) as connection, connection.create_process("cat", encoding=None) as process:
        process.stdin.write(data)
        process.stdin.write_eof()
        assert await process.stdout.read() == data
        await process.wait()
        assert process.exit_status == 0


async def test_output_and_errors_are_separate_streams(pod: LocalPod) -> None:
    command = "head -c 3000000 /dev/zero; head -c 2000000 /dev/zero | tr '\\0' 'e' >&2; printf end"
    async with log_in(pod) as connection:
        done = await connection.run(command, encoding=None)
    assert done.stdout == bytes(3_000_000) + b"end"
    assert done.stderr == b"e" * 2_000_000


async def test_every_byte_value_passes_unchanged(pod: LocalPod) -> None:
    every = bytes(range(256)) * 3
    async with log_in(pod) as connection:
        assert (await connection.run("cat", input=every, encoding=None)).stdout == every


@pytest.mark.parametrize("code", [0, 1, 3, 127, 255])
async def test_the_exit_code_is_that_of_the_command(pod: LocalPod, code: int) -> None:
    async with log_in(pod) as connection:
        done = await connection.run(f"exit {code}")
    assert (done.exit_status, done.exit_signal) == (code, None)


@pytest.mark.parametrize(("name", "reported"), [("KILL", "KILL"), ("SEGV", "SEGV"), ("XCPU", "XCPU@openssh.com")])
async def test_a_signal_that_ended_the_command_is_named(pod: LocalPod, name: str, reported: str) -> None:
    async with log_in(pod) as connection:
        done = await connection.run(f"kill -s {name} $$")
    assert done.exit_signal[0] == reported


async def test_a_signal_sent_over_the_channel_reaches_the_process_group(pod: LocalPod) -> None:
    async with log_in(pod) as connection:
        waiting = "trap 'echo caught; exit 5' TERM; echo up; while :; do sleep 0.05; done"
        process = await connection.create_process(waiting)
        assert await process.stdout.readline() == "up\n"
        process.send_signal("TERM")
        done = await process.wait()
    assert (done.stdout, done.exit_status) == ("caught\n", 5)


async def test_a_command_that_reads_nothing_stops_the_client_from_sending(tmp_path: Path) -> None:
    async with running_pod(tmp_path / "home") as pod:
        [pid] = pod.machines.pids("local")
        async with log_in(pod) as connection:
            await connection.run("true")
            before = memory_of(pid)
            process = await connection.create_process("exec sleep 1000", encoding=None)
            process.stdin.write(bytes(64 * MIB))
            assert (await connection.run("echo here")).stdout == "here\n"
            assert memory_of(pid) - before < 16 * MIB
            assert process.channel.get_write_buffer_size() > 32 * MIB
            process.kill()


async def test_a_client_that_reads_nothing_stops_the_command_from_writing(tmp_path: Path) -> None:
    async with running_pod(tmp_path / "home") as pod:
        [pid] = pod.machines.pids("local")
        async with log_in(pod) as connection:
            await connection.run("true")
            before = memory_of(pid)
            process = await connection.create_process("head -c 100000000 /dev/zero", encoding=None)
            process.channel.pause_reading()
            for _ in range(20):
                await connection.run("true")
            assert memory_of(pid) - before < 16 * MIB
            process.channel.resume_reading()
            assert len(await process.stdout.read()) == 100_000_000


async def test_a_background_job_that_holds_output_open_keeps_the_channel_open(pod: LocalPod) -> None:
    async with log_in(pod) as connection:
        command = "mkfifo pipe && touch made; { read line <pipe; echo late $line; } & exit 4"
        process = await connection.create_process(command)
        await until((pod.machines.homes("local")[0] / "made").exists, "the pipe is made")
        await connection.run("echo word >pipe")
        done = await process.wait()
    assert (done.stdout, done.exit_status) == ("late word\n", 4)


async def test_jobs_outlive_their_connection_as_under_openssh(pod: LocalPod) -> None:
    home = pod.machines.homes("local")[0]
    connection = await log_in(pod)
    plain = await connection.create_process("echo $$ >plain; exec sleep 1000")
    await connection.run("setsid sh -c 'echo $$ >own; exec sleep 1000' </dev/null >/dev/null 2>&1 &")
    files = [home / "plain", home / "own"]
    await until(lambda: all(file.exists() and file.read_text() for file in files), "both jobs run")
    connection.abort()
    await connection.wait_closed()
    async with log_in(pod) as again:
        assert (await again.run("true")).exit_status == 0
    assert all(is_running(int(file.read_text())) for file in files)
    del plain


async def test_a_command_that_writes_to_a_closed_connection_gets_sigpipe(pod: LocalPod) -> None:
    home = pod.machines.homes("local")[0]
    connection = await log_in(pod)
    process = await connection.create_process("sh -c 'while :; do echo more; done'; echo $? >code; mv code ended")
    await process.stdout.readline()
    connection.abort()
    await until((home / "ended").exists, "the writer ends")
    assert int((home / "ended").read_text()) == 128 + signal.SIGPIPE


async def test_a_connection_has_ten_sessions_and_no_more(pod: LocalPod) -> None:
    async with log_in(pod) as connection:
        held = [await connection.create_process("read line") for _ in range(MAX_SESSIONS)]
        with pytest.raises(asyncssh.ChannelOpenError) as refused:
            await connection.run("true")
        assert (refused.value.code, refused.value.reason) == (asyncssh.OPEN_CONNECT_FAILED, "open failed")
        held[0].stdin.write_eof()
        await held[0].wait()
        assert (await connection.run("true")).exit_status == 0
        for process in held[1:]:
            process.close()


async def test_unknown_keys_and_users_are_refused(pod: LocalPod) -> None:
    stranger = asyncssh.generate_private_key("ssh-ed25519")
    with pytest.raises(asyncssh.PermissionDenied):
        await log_in(pod, client_keys=[stranger])
    with pytest.raises(asyncssh.PermissionDenied):
        await log_in(pod, username="unknown-user")


async def test_a_key_added_to_authorized_keys_is_accepted_at_once(pod: LocalPod) -> None:
    added = asyncssh.generate_private_key("ssh-ed25519")
    authorized = pod.machines.homes("local")[0] / ".ssh" / "authorized_keys"
    authorized.write_text(authorized.read_text() + added.export_public_key("openssh").decode())
    async with log_in(pod, client_keys=[added]) as connection:
        assert (await connection.run("echo in")).stdout == "in\n"


async def test_a_worker_has_its_own_published_host_key(pod: LocalPod) -> None:
    workers = pod.machines.workers("local")
    assert len({worker.host_key_public for worker in workers}) == 4
    wrong = asyncssh.import_known_hosts(f"[{workers[1].address}]:{workers[1].port} {workers[0].host_key_public}\n")
    with pytest.raises(asyncssh.HostKeyNotVerifiable):
        await log_in(pod, 1, known_hosts=wrong)


async def test_files_are_copied_over_sftp_into_the_home(pod: LocalPod, tmp_path: Path) -> None:
    home = pod.machines.homes("local")[0]
    (tmp_path / "sent").write_bytes(os.urandom(5 * MIB))
    async with log_in(pod) as connection, connection.start_sftp_client() as sftp:
        await sftp.put(str(tmp_path / "sent"), "kept")
        await sftp.get("kept", str(tmp_path / "back"))
    assert (home / "kept").read_bytes() == (tmp_path / "sent").read_bytes() == (tmp_path / "back").read_bytes()


@pytest.mark.skipif(shutil.which("scp") is None, reason="no OpenSSH client here")
async def test_the_openssh_client_works_with_a_worker(pod: LocalPod, tmp_path: Path) -> None:
    worker = pod.machines.workers("local")[0]
    (tmp_path / "known").write_text(f"[{worker.address}]:{worker.port} {worker.host_key_public}\n")
    options = ["-F", "none", "-i", str(pod.identity), "-o", f"UserKnownHostsFile={tmp_path}/known"]
    options += ["-o", "IdentitiesOnly=yes", "-o", "StrictHostKeyChecking=yes"]
    place = f"{pod.profile()['user']}@{worker.address}"
    assert await openssh("scp", *options, "-P", str(worker.port), __file__, f"{place}:copy") == (0, "", "")
    ssh = ["ssh", *options, "-p", str(worker.port)]
    assert await openssh(*ssh, place, "echo said; echo wrong >&2; exit 9") == (9, "said\n", "wrong\n")
    assert await openssh(*ssh, place, "cmp copy " + __file__) == (0, "", "")
    code, _, why = await openssh(*ssh, "-W", f"{worker.address}:1", place)
    assert code == 255
    assert "connect failed: Connection refused" in why


async def openssh(*words: str) -> tuple[int | None, str, str]:
    """Run one of OpenSSH's programs; return its exit code, output and errors."""
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(*words, stdin=pipe, stdout=pipe, stderr=pipe)
    out, errors = await process.communicate(b"")
    return process.returncode, out.decode(), errors.decode()


async def test_a_closed_port_is_reported_with_the_text_of_its_errno(pod: LocalPod) -> None:
    other = pod.machines.workers("local")[1].address
    async with log_in(pod) as connection:
        with pytest.raises(asyncssh.ChannelOpenError) as refused:
            await connection.open_connection(other, 8476)
    assert (refused.value.code, refused.value.reason) == (asyncssh.OPEN_CONNECT_FAILED, os.strerror(111))


async def test_a_forwarded_connection_comes_from_the_workers_own_address(pod: LocalPod) -> None:
    workers = pod.machines.workers("local")
    callers: list[str] = []

    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        callers.append(writer.get_extra_info("peername")[0])
        writer.write(await reader.readline())
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(echo, workers[1].address, 0)
    async with server, log_in(pod) as connection:
        reader, writer = await connection.open_connection(*server.sockets[0].getsockname())
        writer.write(b"through\n")
        assert await reader.readline() == b"through\n"
        writer.close()
    assert callers == [workers[0].address]


async def test_commands_have_a_workers_environment_and_nothing_of_the_parents(pod: LocalPod) -> None:
    home = pod.machines.homes("local")[0]
    assert os.environ["AWS_SECRET_ACCESS_KEY"] == "hush"
    async with log_in(pod) as connection:
        done = await connection.run("pwd; python -c 'import trainer, sys; print(sys.executable)'; env", check=True)
    lines = done.stdout.splitlines()
    variables = dict(line.split("=", 1) for line in lines[2:])
    assert lines[0] == variables["HOME"] == str(home)
    assert variables["HOSTNAME"] == pod.machines.workers("local")[0].hostname
    assert variables["STORAGE_EMULATOR_HOST"] == pod.announcement()["storage"]
    assert Path(variables["TPU_TUI_DEVICES"]).exists()
    assert Path(variables["TPU_TUI_LOCKFILE"]).parent == home.parent
    assert "hush" not in done.stdout
    assert "TPU_TUI_HOME" not in variables


async def test_an_interactive_shell_has_a_terminal_of_the_requested_size(pod: LocalPod) -> None:
    async with log_in(pod) as connection:
        shell = await connection.create_process(term_type="xterm", term_size=(101, 33))
        shell.stdin.write("stty size; command -v python; exit 6\n")
        done = await shell.wait()
    assert "33 101" in done.stdout
    assert f"{Path(sys.executable).parent}/python" in done.stdout
    assert done.exit_status == 6


async def test_a_terminal_follows_the_size_of_the_clients_window(pod: LocalPod) -> None:
    async with log_in(pod) as connection:
        command = "trap 'stty size; exit' WINCH; echo up; while :; do sleep 0.05; done"
        process = await connection.create_process(command, term_type="xterm", term_size=(80, 24))
        assert "up" in await process.stdout.readline()
        process.change_terminal_size(120, 40)
        assert (await process.wait()).stdout.strip() == "40 120"


async def test_a_command_that_closed_its_input_still_ends_the_session(pod: LocalPod) -> None:
    async with log_in(pod) as connection:
        process = await connection.create_process("exec <&-; sleep 0.3; exit 3", encoding=None)
        process.stdin.write(bytes(8 * MIB))
        process.stdin.write_eof()
        assert (await process.wait()).exit_status == 3


async def test_jobs_of_a_terminal_get_sighup_when_it_closes(pod: LocalPod) -> None:
    home = pod.machines.homes("local")[0]
    async with log_in(pod) as connection:
        process = await connection.create_process(
            "trap 'echo >hung-up; exit' HUP; echo up; while :; do sleep 0.05; done", term_type="xterm"
        )
        assert "up" in await process.stdout.readline()
        process.close()
        await until((home / "hung-up").exists, "SIGHUP arrives")
