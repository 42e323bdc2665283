"""The `ssh` command line for one worker, as ssh(1) itself interprets it."""

from __future__ import annotations

import asyncio
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO

import pytest

from tests.ssh.iap_server import iap_server
from tests.sshd import OpensshWorker, make_key, needs_sshd
from tui.pod.worker import Worker
from tui.settings.home import replace_file
from tui.ssh.config.access import Access
from tui.ssh.config.ssh_command import shell_command
from tui.ssh.errors import SshError

Start = Callable[..., OpensshWorker]


def _settings_of(command: list[str], config: str) -> list[str]:
    """Return the settings that ssh would use, one per line, with this file as the user's configuration."""
    words = [command[0], "-G", "-F", config, *command[1:]]
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout.splitlines()


async def test_the_configuration_applies_to_the_host_name_of_a_worker(tmp_path: Path) -> None:
    config = tmp_path / "config"
    config.write_text("Host pod-0\n Hostname 192.0.2.7\n Port 2200\n User eve\n ProxyCommand lead %h\n")
    access = Access(config=str(config), own_known_hosts=str(tmp_path / "known"))
    options = _settings_of(await shell_command(Worker(0, hostname="pod-0"), access), str(config))
    assert {"hostname 192.0.2.7", "port 2200", "user eve", "proxycommand lead %h"} <= set(options)
    assert f"userknownhostsfile {tmp_path / 'known'}" in options


async def test_given_settings_override_the_configuration(tmp_path: Path) -> None:
    config = tmp_path / "config"
    config.write_text("Host *\n Port 2200\n User eve\n ProxyJump other\n")
    access = Access(
        config=str(config), own_known_hosts="/known", user="me", port=22, jump="gate", identity="/keys/mine"
    )
    options = _settings_of(await shell_command(Worker(0, external_ip="fd00::7"), access), str(config))
    assert {"hostname fd00::7", "port 22", "user me", "proxyjump gate", "identitiesonly yes"} <= set(options)


async def test_a_host_key_stored_under_another_name_is_found_by_ssh(tmp_path: Path) -> None:
    key = make_key(tmp_path / "host_key").rpartition(" ")[0]
    config, google, own = (tmp_path / name for name in ("config", "google", "own"))
    config.write_text(f"Host pod-0\n Hostname 192.0.2.7\n UserKnownHostsFile {google}\n")
    access = Access(config=str(config), own_known_hosts=str(own))
    worker = Worker(0, hostname="pod-0", host_key_alias="tpu.77-0")
    options = _settings_of(await shell_command(worker, access), str(config))
    assert not [line for line in options if line.startswith("hostkeyalias")]
    assert f"userknownhostsfile {google} {own}" in options
    google.write_text(f"tpu.77-0 {key}\n")
    assert "hostkeyalias tpu.77-0" in _settings_of(await shell_command(worker, access), str(config))
    google.write_text(f"pod-0 {key}\n")
    plain = Worker(0, hostname="pod-0")
    assert "hostkeyalias pod-0" in _settings_of(await shell_command(plain, access), str(config))


async def test_commands_made_at_the_same_time_keep_the_host_keys_of_each_worker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    @contextmanager
    def slow_replace(path: Path) -> Iterator[BinaryIO]:
        with replace_file(path) as file:
            time.sleep(0.1)
            yield file

    def make_command(worker: Worker) -> None:
        asyncio.run(shell_command(worker, access))

    monkeypatch.setattr("tui.ssh.config.ssh_command.replace_file", slow_replace)
    access = Access(own_known_hosts=str(tmp_path / "known"))
    workers = [Worker(index, external_ip=f"192.0.2.{index}", host_keys=(f"key-{index}",)) for index in range(3)]
    await asyncio.gather(*(asyncio.to_thread(make_command, worker) for worker in workers))
    lines = (tmp_path / "vouched_hosts").read_text().splitlines()
    assert sorted(lines) == [f"192.0.2.{index} key-{index}" for index in range(3)]


@needs_sshd
async def test_ssh_reaches_a_worker_through_iap_and_checks_its_host_key(sshd: Start, tmp_path: Path) -> None:
    server = sshd()
    async with iap_server() as iap:
        iap.machines["t1v-n-w-0", server.port] = (server.host, server.port)
        iap.token = "50%/token"
        instance = "projects/p/zones/us-central1-a/instances/t1v-n-w-0"
        worker = replace(server.worker, internal_ip="192.0.2.1", instance=instance)
        access = server.access(
            route="iap", iap_url=iap.url, jump="nowhere.invalid", token_command=("printf", "%s", "50%/token")
        )

        async def answer(worker: Worker) -> tuple[int | None, bytes, bytes]:
            command = [*(await shell_command(worker, access)), "head -c 5; echo $((6 * 7))"]
            pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
            process = await asyncio.create_subprocess_exec(*command, **pipes)
            out, errors = await process.communicate(b"hello and more")
            return process.returncode, out, errors

        assert (await answer(worker))[:2] == (0, b"hello42\n")
        key = make_key(tmp_path / "other").rpartition(" ")[0]
        code, out, errors = await answer(replace(worker, host_keys=(key,)))
    assert (code, out) == (255, b"")
    assert b"host key" in errors.lower()


async def test_ssh_prints_why_the_tunnel_through_iap_fails() -> None:
    async with iap_server() as iap:
        iap.status = 403
        worker = Worker(2, internal_ip="192.0.2.1", instance="projects/p/zones/z/instances/gone", host_keys=())
        words = await shell_command(worker, Access(route="iap", iap_url=iap.url))
        proxy = next(word for word in words if word.startswith("ProxyCommand=")).removeprefix("ProxyCommand=")
        process = await asyncio.create_subprocess_shell(proxy, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE)
        _, errors = await process.communicate()
    assert process.returncode == 1
    assert b"worker 2" in errors
    assert b"Traceback" not in errors


async def test_a_worker_without_an_instance_name_cannot_be_reached_through_iap() -> None:
    with pytest.raises(SshError, match="IAP cannot find it"):
        await shell_command(Worker(2, internal_ip="10.0.0.2"), Access(route="iap"))
