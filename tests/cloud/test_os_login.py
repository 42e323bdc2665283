"""Tests of the OS Login profile: its account, user name and keys, and the reasons why it cannot be read."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from aiohttp import web

from tests.localpod import refusals
from tests.localpod.api_clients import serving
from tui.cloud.compute import os_login
from tui.cloud.compute.os_login import LoginProfile, OsLoginClient, login_profile
from tui.errors import CloudError, UsageError
from tui.localpod.api import rpc_errors
from tui.localpod.api.os_login_api import OsLoginService, user_name
from tui.settings import Settings

KEY, OTHER = "ssh-ed25519 AAAAone ada@home", "ssh-rsa AAAAtwo"


@dataclass
class Served:
    """A pod's OS Login service, and the settings that reach it."""

    service: OsLoginService
    settings: Settings

    async def profile(self, public: str | None = None) -> LoginProfile:
        return await asyncio.to_thread(login_profile, self.settings, public)


@pytest.fixture
async def served(tmp_path: Path) -> AsyncIterator[Served]:
    service = OsLoginService("local", dict)
    async with serving(rest_routes=service.routes(), os_login=service) as (api, _):
        endpoints = {"oslogin": f"http://127.0.0.1:{api.rest_port}"}
        account = {"project": "local", "token": api.token, "account": "Ada.L@example.com"}
        yield Served(service, Settings(home=tmp_path, endpoints=endpoints, **account))


async def test_a_profile_without_a_key_has_no_user_and_importing_a_key_makes_it(served: Served) -> None:
    assert await served.profile() == LoginProfile("Ada.L@example.com")

    made = await served.profile(KEY)

    assert (made.user, made.keys, made.accepts("ssh-ed25519 AAAAone other")) == ("ada_l_example_com", (KEY,), True)
    assert await served.profile(KEY) == await served.profile() == made, "a stored key is not imported again"
    assert not made.accepts(OTHER)
    assert (await served.profile(OTHER)).keys == (KEY, OTHER)


@pytest.mark.parametrize(
    ("method", "denied", "what"),
    [
        ("GET", "oslogin.users.getLoginProfile", "the OS Login profile of Ada.L@example.com cannot be read"),
        (
            "POST",
            "oslogin.users.importSshPublicKey",
            "the SSH key cannot be added to the OS Login profile of Ada.L@example.com",
        ),
    ],
)
async def test_a_refusal_names_the_permission_and_the_role(
    served: Served, monkeypatch: pytest.MonkeyPatch, method: str, denied: str, what: str
) -> None:
    user_of = served.service._user

    def user_or_refusal(request: web.Request) -> str:
        if request.method == method:
            raise rpc_errors.permission_denied(denied, f"users/{user_of(request)}")
        return user_of(request)

    monkeypatch.setattr(served.service, "_user", user_or_refusal)
    with pytest.raises(CloudError) as caught:
        await served.profile(KEY)

    assert (caught.value.what, f"(missing: {denied})" in caught.value.why) == (what, True)
    assert "roles/compute.osLogin" in caught.value.remedy


async def test_a_disabled_or_unreachable_api_is_reported_in_a_sentence(
    served: Served, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def disabled(*_: Any) -> str:
        raise refusals.service_disabled("local")

    monkeypatch.setattr(served.service, "_user", disabled)
    with pytest.raises(CloudError, match="the OS Login API is not enabled in project local") as caught:
        await served.profile()
    assert "gcloud services enable oslogin.googleapis.com --project local" in caught.value.remedy

    nowhere = Settings(home=tmp_path, endpoints={"oslogin": "http://127.0.0.1:1"}, account="a@b.c")
    with pytest.raises(CloudError, match=r"the OS Login API at .* cannot be reached"):
        await asyncio.to_thread(login_profile, nowhere)


async def test_a_project_can_enable_os_login_and_a_node_can_override_it() -> None:
    service = OsLoginService("local", lambda: {"enable-oslogin": "TRUE"})
    service.keys["ada@example.com"] = [KEY]

    assert service.logins({}) == {"ada_example_com": [KEY]}
    assert service.logins({"enable-oslogin": "false"}) is None


def test_the_primary_account_comes_first(served: Served) -> None:
    accounts = [{"username": "old"}, {"username": "new", "primary": True}, {}]
    with closing(OsLoginClient(served.settings)) as client:
        assert client._parse_profile({"posixAccounts": accounts}).users == ("new", "old")


def test_a_key_that_has_expired_does_not_count(served: Served) -> None:
    soon = str(int((time.time() + 60) * 1e6))
    keys = {
        "a": {"key": KEY, "expirationTimeUsec": "1700000000000000"},
        "b": {"key": OTHER, "expirationTimeUsec": soon},
    }
    with closing(OsLoginClient(served.settings)) as client:
        assert client._parse_profile({"sshPublicKeys": keys}).keys == (OTHER,)


@pytest.mark.parametrize(
    ("credentials", "account"),
    [
        ({"service_account_email": "robot@p.iam.gserviceaccount.com"}, "robot@p.iam.gserviceaccount.com"),
        ({"account": "ada@example.com"}, "ada@example.com"),
        ({"account": ""}, "gcloud@example.com"),
        ({"service_account_email": "default"}, "machine@p.iam.gserviceaccount.com"),
    ],
)
def test_the_account_is_that_of_the_credentials_or_else_of_gcloud(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, credentials: dict[str, str], account: str
) -> None:
    def refresh(_: Any) -> None:
        found.service_account_email = "machine@p.iam.gserviceaccount.com"

    found = SimpleNamespace(**credentials, refresh=refresh)
    session = SimpleNamespace(credentials=found, close=lambda: None)
    monkeypatch.setattr(os_login, "open_session", lambda *_: (session, "p"))

    with closing(OsLoginClient(Settings(home=tmp_path, account="gcloud@example.com"))) as client:
        assert client.account == account


def test_credentials_of_an_unknown_account_are_refused_with_a_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os_login, "open_session", lambda *_: (SimpleNamespace(close=lambda: None), "p"))

    with pytest.raises(UsageError, match="the credentials do not name their account") as caught:
        OsLoginClient(Settings(home=tmp_path))
    assert "--user" in caught.value.remedy


def test_a_service_account_is_named_after_its_number() -> None:
    name = user_name("robot@p.iam.gserviceaccount.com")
    assert (name[:3], name[3:].isdecimal()) == ("sa_", True)
