"""The `ssh` command line that leads to one worker: what ssh(1) itself makes of it."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.sshd import make_key
from tui.errors import UsageError
from tui.pod.worker import Worker
from tui.ssh.config.access import Access
from tui.ssh.config.ssh_command import shell_command


def _understood(command: list[str], config: str) -> list[str]:
    """What ssh would do, a setting a line, with this configuration for the person's own."""
    words = [command[0], "-G", "-F", config, *command[1:]]
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout.splitlines()


def test_the_configuration_holds_for_the_name_that_a_worker_goes_by(tmp_path: Path) -> None:
    config = tmp_path / "config"
    config.write_text("Host pod-0\n Hostname 192.0.2.7\n Port 2200\n User eve\n ProxyCommand lead %h\n")
    access = Access(config=str(config), own_known_hosts=str(tmp_path / "known"))
    options = _understood(shell_command(Worker(0, hostname="pod-0"), access), str(config))
    assert {"hostname 192.0.2.7", "port 2200", "user eve", "proxycommand lead %h"} <= set(options)
    assert f"userknownhostsfile {tmp_path / 'known'}" in options


def test_what_is_given_wins_over_the_configuration(tmp_path: Path) -> None:
    config = tmp_path / "config"
    config.write_text("Host *\n Port 2200\n User eve\n ProxyJump other\n")
    access = Access(
        config=str(config), own_known_hosts="/known", user="me", port=22, jump="gate", identity="/keys/mine"
    )
    options = _understood(shell_command(Worker(0, external_ip="fd00::7"), access), str(config))
    assert {"hostname fd00::7", "port 22", "user me", "proxyjump gate", "identitiesonly yes"} <= set(options)


def test_a_key_that_is_filed_under_another_name_is_found_by_ssh(tmp_path: Path) -> None:
    key = make_key(tmp_path / "host_key").rpartition(" ")[0]
    config, google, own = (tmp_path / name for name in ("config", "google", "own"))
    config.write_text(f"Host pod-0\n Hostname 192.0.2.7\n UserKnownHostsFile {google}\n")
    access = Access(config=str(config), own_known_hosts=str(own))
    worker = Worker(0, hostname="pod-0", host_key_alias="tpu.77-0")
    options = _understood(shell_command(worker, access), str(config))
    assert not [line for line in options if line.startswith("hostkeyalias")]
    assert f"userknownhostsfile {google} {own}" in options
    google.write_text(f"tpu.77-0 {key}\n")
    assert "hostkeyalias tpu.77-0" in _understood(shell_command(worker, access), str(config))
    google.write_text(f"pod-0 {key}\n")
    plain = Worker(0, hostname="pod-0")
    assert "hostkeyalias pod-0" in _understood(shell_command(plain, access), str(config))


def test_through_iap_another_command_is_named() -> None:
    with pytest.raises(UsageError, match="IAP"):
        shell_command(Worker(2, internal_ip="10.0.0.2"), Access(route="iap"))
