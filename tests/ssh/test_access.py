"""The user, key and address of a login, from settings, OpenSSH's configuration and gcloud's conventions."""

from __future__ import annotations

import getpass
import json
from collections.abc import Callable
from dataclasses import replace
from itertools import islice
from pathlib import Path

import pytest

from tests.sshd import OpensshWorker
from tui import settings
from tui.aio.backoff import backoff
from tui.errors import UsageError
from tui.pod.worker import Worker
from tui.ssh.config.access import Access, access_from, login_to
from tui.ssh.errors import SshError
from tui.ssh.fleet import Fleet

Start = Callable[..., OpensshWorker]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Set HOME to a directory of the test with an empty ~/.ssh, and return it."""
    (tmp_path / "home/.ssh").mkdir(parents=True)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    return tmp_path / "home"


def _settings(home: Path, **flags: object) -> settings.Settings:
    environ = {"TPU_TUI_HOME": str(home / "tui"), "HOME": str(home)}
    return settings.load({"project": "p", **flags}, environ)


def _config(path: Path, text: str) -> Access:
    path.write_text(text)
    return Access(config=str(path))


async def test_without_any_settings_gclouds_conventions_apply(home: Path) -> None:
    access = access_from(_settings(home))
    assert (await login_to(Worker(0, external_ip="192.0.2.1"), access)).user == getpass.getuser()
    assert access.identities[0] == str(home / ".ssh/google_compute_engine")
    assert str(home / ".ssh/google_compute_known_hosts") in access.known_hosts
    assert str(home / ".ssh/known_hosts") in access.known_hosts
    assert access.own_known_hosts == str(home / "tui/known_hosts")
    assert (access.agent, access.config, access.host_keys) == (None, None, "strict")


def test_settings_override_the_conventions(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSH_AUTH_SOCK", "/run/agent")
    chosen = _settings(
        home, user="me", identity=str(home / "key"), known_hosts=[str(home / "k")], host_keys="accept-new"
    )
    access = access_from(chosen)
    assert (access.user, access.identity, access.agent) == ("me", str(home / "key"), "/run/agent")
    assert access.known_hosts == (str(home / "k"),)
    assert access.host_keys == "accept-new"


def test_an_access_survives_json(home: Path) -> None:
    access = access_from(_settings(home, user="me"))
    assert Access.from_json(json.loads(json.dumps(access.to_json()))) == access
    with pytest.raises(ValueError, match="not an access"):
        Access.from_json({"client_keys": [3]})


async def test_the_user_of_a_worker_overrides_the_settings_and_those_the_configuration(tmp_path: Path) -> None:
    access = _config(tmp_path / "c", "Host *\n User from-config\n")
    worker = Worker(0, external_ip="192.0.2.1")
    assert (await login_to(worker, access)).user == "from-config"
    assert (await login_to(worker, replace(access, user="from-settings"))).user == "from-settings"
    assert (await login_to(replace(worker, user="its-own"), replace(access, user="from-settings"))).user == "its-own"


async def test_the_configuration_gives_name_port_key_and_jump_host(tmp_path: Path) -> None:
    access = _config(
        tmp_path / "c",
        "Host tpu\n Hostname 192.0.2.7\n Port 2200\n IdentityFile /keys/tpu\n ProxyJump gate\nHost *\n",
    )
    login = await login_to(Worker(0, hostname="tpu"), access)
    assert (login.host, login.port, login.jump, login.identities) == ("192.0.2.7", 2200, "gate", ("/keys/tpu",))
    assert (await login_to(Worker(0, hostname="tpu", port=2201), access)).port == 2201
    assert (await login_to(Worker(0, hostname="tpu", port=2201), replace(access, port=2202))).port == 2202


async def test_a_configuration_that_cannot_be_read_is_a_usage_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="SSH configuration") as caught:
        await login_to(Worker(0, hostname="tpu"), _config(tmp_path / "c", "Port many\n"))
    assert str(tmp_path / "c") in str(caught.value)


async def test_the_route_chooses_the_address() -> None:
    worker = Worker(0, internal_ip="10.0.0.2", external_ip="192.0.2.1")
    assert (await login_to(worker, Access(route="external"))).host == "192.0.2.1"
    assert (await login_to(worker, Access(route="internal"))).host == "10.0.0.2"
    assert (await login_to(replace(worker, external_ip=None), Access(route="external"))).host == "10.0.0.2"
    with pytest.raises(SshError, match="no address"):
        await login_to(Worker(3), Access())


async def test_a_worker_is_reached_by_the_configured_name_and_key(sshd: Start, tmp_path: Path) -> None:
    server = sshd()
    (tmp_path / "known").write_text(f"its-alias {server.host_key}\n")
    access = _config(
        tmp_path / "c",
        f"Host pod-0\n Hostname 127.0.0.1\n Port {server.port}\n User root\n IdentityFile {server.identity}\n"
        f" HostKeyAlias its-alias\n UserKnownHostsFile {tmp_path / 'known'}\n",
    )
    async with Fleet([Worker(0, hostname="pod-0")], access) as fleet:
        assert (await fleet.run(0, "true")).ok


async def test_a_jump_host_from_the_configuration_is_used(sshd: Start, tmp_path: Path) -> None:
    jump, server = sshd(), sshd()
    (tmp_path / "known").write_text(f"[127.0.0.1]:{jump.port} {jump.host_key}\n")
    text = f"Host gate\n Hostname 127.0.0.1\n Port {jump.port}\n User root\nHost 127.0.0.1\n ProxyJump gate\n"
    (tmp_path / "c").write_text(text)
    access = server.access(config=str(tmp_path / "c"), known_hosts=(str(tmp_path / "known"),))
    async with Fleet([replace(server.worker, index=0)], access) as fleet:
        assert (await fleet.run(0, "true")).ok
    assert "127.0.0.1" in jump.log
    assert "Accepted publickey" in jump.log


def test_backoff_waits_grow_stay_bounded_and_differ() -> None:
    waits = list(islice(backoff(), 12))
    assert all(0.25 <= wait <= 30 for wait in waits)
    assert waits[0] <= 0.5
    assert waits[-1] >= 15
    assert waits != list(islice(backoff(), 12))


@pytest.mark.parametrize("name", ["-oProxyCommand=id", "$(id)", "a b", "a\nb", "`id`", "a;id", "*,a"])
@pytest.mark.parametrize("field", ["external_ip", "user", "host_key_alias"])
async def test_a_name_that_ssh_or_a_shell_would_obey_is_refused(field: str, name: str) -> None:
    worker = replace(Worker(0, external_ip="192.0.2.1"), **{field: name})
    with pytest.raises(SshError, match="not a valid name"):
        await login_to(worker, Access())
