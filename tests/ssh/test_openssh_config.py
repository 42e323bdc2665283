"""OpenSSH's client configuration in all its notations, and the routes to a worker that it can describe."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.ssh.test_client_keys import _add, agent
from tests.sshd import OpensshWorker, make_key
from tests.waiting import until, wait_until
from tui.errors import UsageError
from tui.ssh.config.access import Access, login_for
from tui.ssh.config.openssh_config import local_user, read_config
from tui.ssh.errors import Reason, SshError
from tui.ssh.fleet import Fleet
from tui.ssh.host_login import Login
from tui.ssh.keys.client_keys import unlock
from tui.ssh.results import CommandResult

__all__ = ["agent"]

Start = Callable[..., OpensshWorker]
PIPE = """
import os, socket, sys, threading
sock = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
def send():
    while data := os.read(0, 65536):
        sock.sendall(data)
    sock.shutdown(socket.SHUT_WR)
threading.Thread(target=send, daemon=True).start()
while data := sock.recv(65536):
    os.write(1, data)
"""


async def _login(tmp_path: Path, text: str | bytes, host: str = "tpu") -> Login:
    path = tmp_path / "config"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return await login_for(host, None, None, Access(config=str(path)))


@pytest.mark.parametrize(
    "text",
    [
        "Host tpu\n User eve\n",
        "Host tpu\n ServerAliveInterval 1m\n ConnectTimeout 5s\n User eve\n",
        "Host *\n ConnectTimeout none\n User eve\n",
        "Host *\n User eve # it's hers\n",
        "Host *\n PubkeyAuthentication host-bound\n User eve\n",
        "Host tpu\n # \u00e9\n User eve\n".encode("latin-1"),
        'Match host tpu exec "test %h = tpu"\n User eve\n',
        "Match final host tpu\n User eve\n",
        "Match exec false\n User bob\nMatch all\n User eve\n",
        "CanonicalizeHostname yes\nCanonicalDomains invalid\nHost tpu\n User eve\n",
    ],
)
async def test_configurations_that_ssh_understands_are_understood(tmp_path: Path, text: str | bytes) -> None:
    assert await _login(tmp_path, text) == Login("tpu", 22, "eve")


async def test_tokens_and_variables_are_expanded_whether_ssh_is_asked_or_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KEYS", "/keys")
    monkeypatch.setenv("AGENT", "/run/agent")
    text = (
        "Host tpu\n Hostname %h.example\n Port 2200\n User eve\n IdentityFile ${KEYS}/%r-%n\n"
        " ProxyCommand lead --to %h %p\n UserKnownHostsFile /known/%h\n IdentityAgent $AGENT\n"
    )
    login = Login(
        host="tpu.example",
        port=2200,
        user="eve",
        proxy="lead --to tpu.example 2200",
        agent="/run/agent",
        aliases=("tpu",),
        identities=("/keys/eve-tpu",),
        known_hosts=("/known/tpu.example",),
    )
    assert await _login(tmp_path, text) == login
    assert await _login(tmp_path, "ServerAliveInterval 1m\n" + text) == login


async def test_defaults_that_ssh_reports_do_not_replace_those_of_tpu_tui(tmp_path: Path) -> None:
    assert await _login(tmp_path, "Match all\n Compression yes\n") == Login("tpu", 22, local_user())


async def test_default_keys_do_not_count_as_configured(tmp_path: Path) -> None:
    login = await _login(tmp_path, "Match all\n IdentityFile ~/.ssh/id_work\n IdentityFile ~/.ssh/id_rsa\n")
    assert login.identities == (str(Path("~/.ssh/id_work").expanduser()),)


async def test_the_first_of_jump_host_and_command_counts(tmp_path: Path) -> None:
    either = "Host tpu\n {}\n {}\n"
    login = await _login(tmp_path, either.format("ProxyCommand lead %h", "ProxyJump gate"))
    assert (login.jump, login.proxy) == (None, "lead tpu")
    login = await _login(tmp_path, either.format("ProxyJump gate", "ProxyCommand lead %h"))
    assert (login.jump, login.proxy) == ("gate", None)


async def test_an_error_of_ssh_is_quoted(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="Bad configuration option: nosuchoption") as caught:
        await _login(tmp_path, "Match all\n NoSuchOption yes\n")
    assert str(tmp_path / "config") in caught.value.remedy


async def test_ssh_is_not_asked_about_an_endless_file(tmp_path: Path) -> None:
    (tmp_path / "config").symlink_to("/dev/zero")
    with pytest.raises(UsageError, match="it is not a regular file"):
        await read_config(str(tmp_path / "config"), "worker")


async def test_a_condition_that_never_ends_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tui.ssh.config.openssh_config.SSH_TIMEOUT_S", 0.5)
    with pytest.raises(UsageError, match="ssh -G tpu took longer than"):
        await _login(tmp_path, 'Match exec "exec sleep 5"\n User eve\n')


async def test_a_slow_condition_does_not_block_the_event_loop(sshd: Start, tmp_path: Path) -> None:
    server = sshd()
    started, released = tmp_path / "started", tmp_path / "released"
    script = f"touch {started}; until [ -e {released} ]; do sleep 0.02; done"
    (tmp_path / "config").write_text(f'Match exec "{script}"\n User {server.user}\n')
    access = server.access(user=None, config=str(tmp_path / "config"))
    async with Fleet([replace(server.worker, user=None)], access) as fleet:
        running = asyncio.ensure_future(fleet.run(0, "true"))
        await until(started.exists)
        released.touch()
        assert (await running).ok


async def test_the_result_of_a_condition_is_cached_for_a_while(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = f'Match exec "test -e {tmp_path}/office"\n ProxyJump none\nMatch all\n ProxyJump gate\n'
    assert (await _login(tmp_path, text)).jump == "gate"
    (tmp_path / "office").touch()
    os.utime(tmp_path / "config", ns=(0, 0))
    access = Access(config=str(tmp_path / "config"))
    assert (await login_for("tpu", None, None, access)).jump is None
    (tmp_path / "office").unlink()
    assert (await login_for("tpu", None, None, access)).jump is None
    monkeypatch.setattr("tui.ssh.config.openssh_config.CACHE_S", 0.0)
    assert (await login_for("tpu", None, None, access)).jump == "gate"


def _through(server: OpensshWorker, tmp_path: Path, command: str, **changes: object) -> Access:
    (tmp_path / "config").write_text(f"Host 127.0.0.1\n ProxyCommand {command}\n")
    return server.access(config=str(tmp_path / "config"), **changes)


def _running(script: Path) -> list[str]:
    done = subprocess.run(["pgrep", "-f", str(script)], capture_output=True, text=True)
    return done.stdout.split()


async def test_workers_are_reached_through_a_proxy_command_that_ends_with_them(sshd: Start, tmp_path: Path) -> None:
    server = sshd()
    script = tmp_path / "pipe.py"
    script.write_text(PIPE)
    access = _through(server, tmp_path, f"{sys.executable} {script} %p")
    workers = [replace(server.worker, index=index) for index in range(3)]
    async with Fleet(workers, access) as fleet:
        rows = [row async for row in fleet.run_all(range(3), "head -c 300000 /dev/zero")]
        assert [len(row.stdout) for row in rows if isinstance(row, CommandResult)] == [300000] * 3
        assert len(_running(script)) == 3
        server.cut()
        wait_until(lambda: not server.connections())
        assert (await fleet.run(0, "true")).ok
    assert _running(script) == []


async def test_processes_that_a_proxy_command_leaves_behind_keep_no_file_open_here(
    sshd: Start, tmp_path: Path
) -> None:
    server = sshd()
    script = tmp_path / "pipe.py"
    script.write_text(PIPE)
    left = f"sleep 1000 <&- >&- & echo $! >>{tmp_path}/left; exec {sys.executable} {script} %p"
    access = _through(server, tmp_path, f"sh -c '{left}'")
    before = len(list(Path("/proc/self/fd").iterdir()))
    async with Fleet([server.worker], access) as fleet:
        for _ in range(3):
            connection = await fleet.connect(0)
            server.cut()
            await asyncio.wait_for(connection.ended, 20)
            wait_until(lambda: not _running(script))
    assert len(list(Path("/proc/self/fd").iterdir())) <= before
    for pid in (tmp_path / "left").read_text().split():
        with contextlib.suppress(ProcessLookupError):
            os.kill(int(pid), signal.SIGKILL)


async def test_the_error_of_a_proxy_command_is_quoted(sshd: Start, tmp_path: Path) -> None:
    server = sshd()
    access = _through(server, tmp_path, "sh -c 'echo one >&2; echo no login >&2; exit 1'")
    async with Fleet([server.worker], access) as fleet:
        reach = await fleet.try_login(0)
    assert isinstance(reach.error, SshError)
    assert reach.error.what == "its ProxyCommand does not reach it"
    assert reach.error.why.endswith(": no login")


async def test_a_proxy_command_that_sends_nothing_is_named_and_ended(sshd: Start, tmp_path: Path) -> None:
    server = sshd()
    script = tmp_path / "nothing.sh"
    script.write_text("trap '' TERM\nwhile :; do sleep 1; done\n")
    async with Fleet([server.worker], _through(server, tmp_path, f"sh {script}", login_timeout=1.5)) as fleet:
        reach = await fleet.try_login(0)
    assert "ProxyCommand" in str(reach.error)
    assert "sends nothing" in str(reach.error)
    assert _running(script) == []


async def test_the_jump_host_of_a_profile_overrides_a_configured_command(sshd: Start, tmp_path: Path) -> None:
    jump, server = sshd(), sshd()
    (tmp_path / "known").write_text(f"[127.0.0.1]:{jump.port} {jump.host_key}\n")
    (tmp_path / "config").write_text("Host worker\n Hostname 127.0.0.1\n ProxyCommand false\n")
    access = server.access(
        config=str(tmp_path / "config"),
        jump=f"root@127.0.0.1:{jump.port}",
        known_hosts=(str(tmp_path / "known"),),
    )
    worker = replace(server.worker, index=0, internal_ip="worker")
    async with Fleet([worker], access) as fleet:
        assert (await fleet.run(0, "true")).ok


@pytest.mark.parametrize("way", ["ProxyJump outer", "ProxyCommand {python} {script} {port}"])
async def test_a_jump_host_is_reached_as_it_is_configured(sshd: Start, tmp_path: Path, way: str) -> None:
    outer, jump, server = sshd(), sshd(), sshd()
    script = tmp_path / "pipe.py"
    script.write_text(PIPE)
    known = "".join(f"[127.0.0.1]:{one.port} {one.host_key}\n" for one in (outer, jump))
    (tmp_path / "known").write_text(known)
    hosts = "".join(
        f"Host {name}\n Hostname 127.0.0.1\n Port {one.port}\n User root\n {more}\n"
        for name, one, more in (
            ("outer", outer, "ProxyJump none"),
            ("gate", jump, way.format(python=sys.executable, script=script, port=jump.port)),
        )
    )
    (tmp_path / "config").write_text(f"{hosts}Host *\n ProxyJump gate\n")
    access = server.access(config=str(tmp_path / "config"), known_hosts=(str(tmp_path / "known"),))
    async with Fleet([replace(server.worker, index=0)], access) as fleet:
        assert (await fleet.run(0, "true")).ok
    assert "Accepted publickey" in jump.log
    assert ("Accepted publickey" in outer.log) == ("Jump" in way)


async def test_a_jump_host_is_not_jumped_to_through_itself(sshd: Start, tmp_path: Path) -> None:
    jump, server = sshd(), sshd()
    (tmp_path / "known").write_text(f"[127.0.0.1]:{jump.port} {jump.host_key}\n")
    gate = f"Host gate\n Hostname 127.0.0.1\n Port {jump.port}\n User root\n"
    (tmp_path / "config").write_text(f"{gate}Host *\n ProxyJump gate\n")
    access = server.access(config=str(tmp_path / "config"), known_hosts=(str(tmp_path / "known"),))
    async with Fleet([replace(server.worker, index=0)], access) as fleet:
        assert (await fleet.run(0, "true")).ok


async def test_the_configured_agent_is_used_and_its_named_key_comes_first(
    sshd: Start, tmp_path: Path, agent: str
) -> None:
    server = sshd()
    for number in range(8):
        make_key(tmp_path / f"k{number}")
    for path in (*(tmp_path / f"k{number}" for number in range(8)), server.identity):
        _add(agent, path)
    public = f"{server.identity}.pub"
    (tmp_path / "config").write_text(f"Host *\n IdentityAgent {agent}\n IdentityFile {public}\n IdentitiesOnly yes\n")
    access = server.access(identity=None, config=str(tmp_path / "config"))
    async with Fleet([server.worker], await unlock(access)) as fleet:
        assert (await fleet.run(0, "true")).ok
    assert "Failed publickey" not in server.log


async def test_an_agent_that_the_configuration_disables_is_not_used(sshd: Start, tmp_path: Path, agent: str) -> None:
    server = sshd()
    _add(agent, server.identity)
    (tmp_path / "config").write_text("Host *\n IdentityAgent none\n")
    access = server.access(identity=None, agent=agent, config=str(tmp_path / "config"))
    async with Fleet([server.worker], access) as fleet:
        with pytest.raises(SshError) as caught:
            await fleet.run(0, "true")
    assert caught.value.reason is Reason.DENIED
