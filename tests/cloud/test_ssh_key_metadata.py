from __future__ import annotations

import asyncio
import json
from datetime import datetime, timezone

import pytest

from tests.cloud.conftest import Cloud
from tui.cloud.compute.ssh_key_metadata import accepts, has_os_login, valid_keys, with_key
from tui.errors import UsageError

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIMine me@laptop"
NOW = datetime(2026, 5, 1, tzinfo=timezone.utc)


def expiring(when: str, key: str = KEY) -> str:
    return f"me:{key.rpartition(' ')[0]} google-ssh " + json.dumps({"userName": "me@example.com", "expireOn": when})


def test_a_key_is_found_by_its_bytes_and_its_user() -> None:
    text = "other:ssh-rsa AAAAB3 other\nme:ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIMine whatever comment\n"
    assert accepts(text, "me", KEY)
    assert not accepts(text, "other", KEY)
    assert not accepts(text, "me", KEY.replace("IMine", "IMin"))


@pytest.mark.parametrize(
    ("when", "counts"),
    [
        ("2026-04-30T23:59:59+0000", False),
        ("2026-05-01T00:00:01+0000", True),
        ("2026-05-01T01:00:01+0200", False),
        ("soon", False),
        ("9999-12-31T23:59:59-0100", False),
    ],
)
def test_a_key_that_expires_counts_until_then(when: str, counts: bool) -> None:
    assert bool(valid_keys(expiring(when), "me", NOW)) is counts


def test_adding_keeps_every_other_line_as_it_is() -> None:
    before = f"# a comment\n{expiring('2020-01-01T00:00:00+0000')}\n\nbroken line\r\nother:ssh-rsa AAAAB3 x  y"
    after = with_key(before, "me", KEY)
    assert after == f"{before}\nme:ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIMine me"
    assert accepts(after, "me", KEY)
    assert with_key("", "me", KEY) == "me:ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIMine me"


def test_the_slices_own_setting_of_os_login_wins() -> None:
    assert has_os_login({"enable-oslogin": "true"}, {"enable-oslogin": "FALSE"})
    assert not has_os_login({"enable-oslogin": "FALSE"}, {"enable-oslogin": "TRUE"})
    assert has_os_login({}, {"enable-oslogin": "TRUE"})
    assert not has_os_login({}, {})


async def test_one_key_of_the_metadata_is_changed_and_reaches_the_machines(cloud: Cloud) -> None:
    await cloud.make("pod", metadata={"startup-script": "echo hi", "ssh-keys": "a:ssh-rsa AAAA a"})
    slice_ = await cloud.api.get("pod", "local-a")
    progress = [
        line
        async for line in cloud.api.lifecycle.set_metadata(
            "local-a", "pod", lambda now: {**now, "ssh-keys": with_key(now["ssh-keys"], "me", KEY)}
        )
    ]
    assert all("busy" not in line for line in progress)
    found = await cloud.api.metadata(slice_)
    assert found["startup-script"] == "echo hi"
    assert found["ssh-keys"].splitlines()[0] == "a:ssh-rsa AAAA a"
    assert cloud.hosts.ssh_keys["pod"] == found["ssh-keys"]


async def test_two_changes_of_metadata_at_the_same_time_are_both_applied(cloud: Cloud) -> None:
    await cloud.make("pod")
    set_metadata = cloud.api.lifecycle.set_metadata

    is_busy = asyncio.Event()

    async def add(name: str) -> None:
        async for line in set_metadata("local-a", "pod", lambda now: {**now, name: "yes"}):
            if "busy" in line:
                is_busy.set()

    cloud.service.faults.hold_operations()
    both = asyncio.gather(add("one"), add("two"))
    await is_busy.wait()
    cloud.service.faults.release_operations()
    await both
    slice_ = await cloud.api.get("pod", "local-a")
    assert await cloud.api.metadata(slice_) == {"one": "yes", "two": "yes"}


async def test_the_metadata_of_a_missing_slice_cannot_be_read(cloud: Cloud) -> None:
    await cloud.make("pod")
    slice_ = await cloud.api.get("pod", "local-a")
    _ = [line async for line in cloud.api.lifecycle.delete("local-a", "pod")]
    with pytest.raises(UsageError, match="metadata of pod cannot be read"):
        await cloud.api.metadata(slice_)
