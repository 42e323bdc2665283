from __future__ import annotations

import asyncio
import json
from datetime import datetime, timezone

import pytest

from tests.cloud.conftest import Cloud
from tui.cloud.compute.ssh_key_metadata import lets_in, os_login, with_key
from tui.errors import UsageError

MINE = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIMine me@laptop"
NOW = datetime(2026, 5, 1, tzinfo=timezone.utc)


def expiring(when: str, key: str = MINE) -> str:
    return f"me:{key.rpartition(' ')[0]} google-ssh " + json.dumps({"userName": "me@example.com", "expireOn": when})


def test_a_key_is_found_by_its_bytes_and_its_user() -> None:
    text = "other:ssh-rsa AAAAB3 other\nme:ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIMine whatever comment\n"
    assert lets_in(text, "me", MINE)
    assert not lets_in(text, "other", MINE)
    assert not lets_in(text, "me", MINE.replace("IMine", "IMin"))


@pytest.mark.parametrize(
    ("when", "counts"),
    [
        ("2026-04-30T23:59:59+0000", False),
        ("2026-05-01T00:00:01+0000", True),
        ("2026-05-01T01:00:01+0200", False),
        ("soon", False),
    ],
)
def test_a_key_that_expires_counts_until_then(when: str, counts: bool) -> None:
    assert lets_in(expiring(when), "me", MINE, NOW) is counts


def test_adding_keeps_every_other_line_as_it_is() -> None:
    before = f"# a comment\n{expiring('2020-01-01T00:00:00+0000')}\n\nbroken line\r\nother:ssh-rsa AAAAB3 x  y"
    after = with_key(before, "me", MINE)
    assert after == f"{before}\nme:ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIMine me"
    assert lets_in(after, "me", MINE, NOW)
    assert with_key("", "me", MINE) == "me:ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIMine me"


def test_the_slices_own_word_on_os_login_wins() -> None:
    assert os_login({"enable-oslogin": "true"}, {"enable-oslogin": "FALSE"})
    assert not os_login({"enable-oslogin": "FALSE"}, {"enable-oslogin": "TRUE"})
    assert os_login({}, {"enable-oslogin": "TRUE"})
    assert not os_login({}, {})


async def test_metadata_is_changed_by_one_key_and_the_machines_hear_of_it(cloud: Cloud) -> None:
    await cloud.make("pod", metadata={"startup-script": "echo hi", "ssh-keys": "a:ssh-rsa AAAA a"})
    slice_ = await cloud.api.get("pod", "local-a")
    progress = [
        line
        async for line in cloud.api.set_metadata(
            slice_, lambda now: {**now, "ssh-keys": with_key(now["ssh-keys"], "me", MINE)}
        )
    ]
    assert all("busy" not in line for line in progress)
    found = await cloud.api.metadata(slice_)
    assert found["startup-script"] == "echo hi"
    assert found["ssh-keys"].splitlines()[0] == "a:ssh-rsa AAAA a"
    assert cloud.hosts.ssh_keys["pod"] == found["ssh-keys"]


async def test_two_who_change_metadata_at_once_both_get_their_way(cloud: Cloud) -> None:
    await cloud.make("pod")
    slice_ = await cloud.api.get("pod", "local-a")

    async def adds(name: str) -> list[str]:
        return [line async for line in cloud.api.set_metadata(slice_, lambda now: {**now, name: "yes"})]

    progress = await asyncio.gather(adds("one"), adds("two"))
    assert any("busy" in line for lines in progress for line in lines)
    assert await cloud.api.metadata(slice_) == {"one": "yes", "two": "yes"}


async def test_a_slice_that_is_not_there_has_no_metadata(cloud: Cloud) -> None:
    await cloud.make("pod")
    slice_ = await cloud.api.get("pod", "local-a")
    _ = [line async for line in cloud.api.delete("local-a", "pod")]
    with pytest.raises(UsageError, match="metadata of pod cannot be read"):
        await cloud.api.metadata(slice_)
