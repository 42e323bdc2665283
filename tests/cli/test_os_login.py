"""A slice with OS Login: the user name is looked up, the key is added to the profile, and every command uses it."""

from __future__ import annotations

import getpass
import json
import shutil
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import LocalPod
from tests.sshd import make_key
from tests.waiting import wait_until
from tui.settings import save_profile

pytestmark = pytest.mark.timing

ACCOUNT, USER = "ada@example.com", "ada_example_com"


@pytest.fixture(scope="module")
def own(pod: LocalPod) -> tuple[str, str]:
    """Enable OS Login on the slice; return the options of a profile without user name and key."""
    endpoints = {"tpu": pod.announced["tpu_api"]["grpc"], "compute": pod.announced["compute_api"]}
    endpoints["oslogin"] = pod.announced["compute_api"]
    values = {"project": "local", "zones": ["local-a"], "endpoints": endpoints, "token": pod.announced["token"]}
    save_profile(pod.shell.home, "own", {**values, "host_keys": "strict", "runtime": "cpu"})
    set_metadata(pod, {"enable-oslogin": "TRUE"})
    return ("--profile", "own")


@pytest.fixture
def ada(pod: LocalPod, own: tuple[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[str, str]:
    """Return the options of a user whose OS Login profile has the key of a home of this test."""
    key = tmp_path / ".ssh" / "google_compute_engine"
    key.parent.mkdir(mode=0o700)
    public = make_key(key)
    monkeypatch.setitem(pod.shell.environ, "HOME", str(tmp_path))
    monkeypatch.setitem(pod.shell.environ, "CLOUDSDK_CORE_ACCOUNT", ACCOUNT)
    profile = f"{pod.announced['compute_api']}/v1/users/{ACCOUNT}"
    send(pod, "POST", f"{profile}:importSshPublicKey", {"key": public})
    return own


def send(pod: LocalPod, verb: str, url: str, body: dict[str, Any] | None = None) -> Any:
    """Send a request to one of the pod's APIs and return the answer's document."""
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {pod.announced['token']}"}
    data = None if body is None else json.dumps(body).encode()
    with urllib.request.urlopen(urllib.request.Request(url, data, headers, method=verb)) as answer:
        return json.load(answer)


def set_metadata(pod: LocalPod, metadata: dict[str, str]) -> None:
    rest = f"{pod.announced['tpu_api']['rest']}/v2"
    node = f"{rest}/projects/local/locations/local-a/nodes/local?updateMask=metadata"
    operation = f"{rest}/{send(pod, 'PATCH', node, {'metadata': metadata})['name']}"
    wait_until(lambda: send(pod, "GET", operation).get("done"), "the slice has its metadata")


def test_without_an_account_keys_add_creates_one_and_its_key_is_accepted(
    pod: LocalPod, own: tuple[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(pod.shell.environ, "HOME", str(tmp_path))
    monkeypatch.setitem(pod.shell.environ, "CLOUDSDK_CORE_ACCOUNT", "new@example.com")
    refused = pod.call(*own, "exec", "local", "--", "true")
    assert (refused.code, "there is no user name to log in with" in refused.errors) == (2, True), refused.errors
    assert "tpu-tui keys add local" in refused.errors
    preview = pod.call(*own, "keys", "add", "local", "--dry-run")
    assert "through the OS Login profile of new@example.com" in preview.errors

    added = pod.run(*own, "keys", "add", "local", "--yes", "--json")

    assert added.code == 0, added.errors
    assert "the OS Login user name is new_example_com" in added.errors
    shown = [added.document[name] for name in ("user", "made", "found")]
    assert shown == ["new_example_com", True, None]
    assert [row["accepted"] for row in added.document["workers"]] == [True] * 4
    again = pod.call(*own, "keys", "add", "local", "--json")
    assert (again.code, again.document["added"], again.document["found"]) == (0, False, "profile")


def test_a_key_that_the_profile_lacks_is_added_at_the_first_login(
    pod: LocalPod, ada: tuple[str, str], tmp_path: Path
) -> None:
    shutil.rmtree(tmp_path / ".ssh")  # the first key would be accepted
    make_key(tmp_path / "second")
    words = (*ada, "--identity", str(tmp_path / "second"))
    read_only = pod.call(*words, "--read-only", "workers", "local")
    assert "roles/compute.osLogin" in read_only.errors + read_only.out

    assert pod.call(*words, "exec", "local", "--", "true").code == 0
    shown = pod.call(*words, "ssh", "local", "--json").document["argv"]
    assert shown[shown.index("-l") + 1] == USER


def test_a_run_and_its_files_use_the_user_name(pod: LocalPod, ada: tuple[str, str], tmp_path: Path) -> None:
    started = pod.run(*ada, "launch", "local", "--json", "--skip-checks", "--", "sh", "-c", "echo done > ~/out.txt")
    assert started.code == 0, started.errors
    (directory,) = (pod.shell.home / "runs").iterdir()
    document = json.loads((directory / "run.json").read_text())
    assert {worker["user"] for worker in document["workers"]} == {USER}

    fetched = pod.run(*ada, "fetch", "local", "out.txt", "--to", str(tmp_path), "--json")

    assert (fetched.code, len(fetched.document)) == (0, 4), fetched.errors


def test_a_service_account_logs_in_with_its_number(
    pod: LocalPod, ada: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(pod.shell.environ, "CLOUDSDK_CORE_ACCOUNT", "robot@local.iam.gserviceaccount.com")

    argv = pod.call(*ada, "ssh", "local", "--json").document["argv"]

    user = argv[argv.index("-l") + 1]
    assert (user[:3], user[3:].isdecimal()) == ("sa_", True)
    assert pod.call(*ada, "exec", "local", "--", "true").code == 0


def test_a_user_in_the_settings_takes_precedence(pod: LocalPod, ada: tuple[str, str]) -> None:
    local = pod.call("--profile", "local", "ssh", "local", "--json").document["argv"]
    assert local[local.index("-l") + 1] == getpass.getuser()
    other = pod.call(*ada, "--user", "fred", "keys", "add", "local", "--yes")
    assert (other.code, f"uses OS Login, where {ACCOUNT} is {USER}" in other.errors) == (2, True), other.errors


def test_without_os_login_the_local_user_name_is_used_again(pod: LocalPod, ada: tuple[str, str]) -> None:
    set_metadata(pod, {"enable-oslogin": "FALSE"})
    try:
        argv = pod.call(*ada, "ssh", "local", "--json").document["argv"]
    finally:
        set_metadata(pod, {"enable-oslogin": "TRUE"})

    assert argv[argv.index("-l") + 1] == getpass.getuser()
