from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from google.auth.exceptions import DefaultCredentialsError, RefreshError

from tests.sshd import free_port
from tui.cloud import token
from tui.cloud.credentials import LOGIN, FoundCredentials, find_credentials
from tui.errors import CloudError
from tui.ssh.config.access import TOKEN_COMMAND

pytestmark = [pytest.mark.timing, pytest.mark.py310]

USER = {"type": "authorized_user", "client_id": "c", "client_secret": "s", "refresh_token": "r"}


class Login:
    """A user's home with the files of gcloud's logins."""

    def __init__(self, root: Path) -> None:
        self.directory = root / ".config" / "gcloud"
        self.directory.mkdir(parents=True)
        self.environ = {"HOME": str(root), "NO_GCE_CHECK": "true"}

    def write(self, name: str, document: Any) -> Path:
        path = self.directory / name
        path.write_text(document if isinstance(document, str) else json.dumps(document))
        return path


@pytest.fixture
def login(tmp_path: Path) -> Login:
    return Login(tmp_path)


def test_without_any_login_the_command_is_named(login: Login) -> None:
    with pytest.raises(CloudError) as caught:
        find_credentials(login.environ)

    assert caught.value.what == "no credentials for Google Cloud"
    assert caught.value.remedy.startswith(LOGIN)
    assert caught.value.exit_code == 3


@pytest.mark.parametrize("file", ["credentials.db", "access_tokens.db"])
def test_a_login_of_gcloud_alone_does_not_count_as_application_default_credentials(login: Login, file: str) -> None:
    login.write(file, "")

    with pytest.raises(CloudError) as caught:
        find_credentials(login.environ)

    assert "gcloud auth login works for gcloud only" in caught.value.why
    assert caught.value.remedy == LOGIN


def test_application_default_credentials_are_found_with_their_project(login: Login) -> None:
    login.write("credentials.db", "")
    login.write("application_default_credentials.json", {**USER, "quota_project_id": "billed"})

    found = find_credentials(login.environ)

    assert found.credentials.refresh_token == "r"
    assert found.project == "billed"


def test_the_variable_wins_over_the_usual_file(login: Login) -> None:
    login.write("application_default_credentials.json", {**USER, "refresh_token": "usual"})
    named = login.write("named.json", {**USER, "refresh_token": "named"})
    login.environ["GOOGLE_APPLICATION_CREDENTIALS"] = str(named)

    assert find_credentials(login.environ).credentials.refresh_token == "named"


@pytest.mark.parametrize("document", ["", "no json", {"type": "authorized_user"}, {"type": "unheard of"}, []])
def test_a_file_that_holds_no_credentials_is_named(login: Login, document: Any) -> None:
    path = login.write("application_default_credentials.json", document)

    with pytest.raises(CloudError) as caught:
        find_credentials(login.environ)

    assert str(path) in caught.value.why
    assert caught.value.remedy == LOGIN


def test_a_missing_file_in_the_variable_is_named(login: Login) -> None:
    login.environ["GOOGLE_APPLICATION_CREDENTIALS"] = "/nowhere/key.json"

    with pytest.raises(CloudError) as caught:
        find_credentials(login.environ)

    assert "GOOGLE_APPLICATION_CREDENTIALS" in caught.value.what
    assert "/nowhere/key.json" in caught.value.why


@pytest.mark.parametrize(
    ("product", "expected_calls"), [("Google Compute Engine\n", 1), ("Standard PC\n", 0), (None, 0)]
)
def test_the_metadata_server_is_used_on_compute_engine_only(
    tmp_path: Path, login: Login, monkeypatch: pytest.MonkeyPatch, product: str | None, expected_calls: int
) -> None:
    calls = []

    def default(**_: Any) -> None:
        calls.append(True)
        raise DefaultCredentialsError("no service account here")

    file = tmp_path / "product_name"
    if product is not None:
        file.write_text(product)
    monkeypatch.setattr("tui.cloud.credentials._PRODUCT_NAME", file)
    monkeypatch.setattr("google.auth.default", default)

    with pytest.raises(CloudError):
        find_credentials({"HOME": login.environ["HOME"]})

    assert len(calls) == expected_calls


LISTING = """
import asyncio, os, sys
from pathlib import Path
from tui.cloud.open_inventory import open_inventory
from tui.errors import TpuTuiError
from tui.settings import load
settings = load({}, {"HOME": os.environ["HOME"], "TPU_TUI_HOME": os.environ["HOME"]})
if len(sys.argv) > 1:
    from dataclasses import replace
    settings = replace(settings, endpoints={"tpu": sys.argv[1]})
async def main():
    inventory = open_inventory(settings)
    try:
        for problem in (await inventory.slices()).problems:
            print(problem.sentence)
    except TpuTuiError as error:
        print(error.sentence, flush=True)
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)
    await inventory.close()
asyncio.run(main())
"""


@pytest.mark.parametrize("case", ["no credentials", "API down", "unusable login"])
def test_libraries_write_nothing_to_stderr(tmp_path: Path, login: Login, case: str) -> None:
    if case == "unusable login":
        login.write("application_default_credentials.json", USER)
    arguments = [f"127.0.0.1:{free_port()}"] if case == "API down" else []

    answer = subprocess.run(
        [sys.executable, "-c", LISTING, *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        env={"HOME": str(tmp_path), "PATH": "", "NO_GCE_CHECK": "true"},
    )

    assert answer.stdout.strip()
    assert (answer.stderr, answer.returncode) == ("", 0)


def test_a_token_that_cannot_be_fetched_names_the_permission(monkeypatch: pytest.MonkeyPatch) -> None:
    class Impersonated:
        def refresh(self, _: object) -> None:
            raise RefreshError("Unable to acquire impersonated credentials", "denied")

    monkeypatch.setattr(token, "find_credentials", lambda: FoundCredentials(Impersonated(), "p"))

    with pytest.raises(CloudError, match="Identity-Aware Proxy cannot be used: this login may not act as") as caught:
        token.access_token()
    assert "(missing: iam.serviceAccounts.getAccessToken)" in caught.value.why
    assert "roles/iam.serviceAccountTokenCreator" in caught.value.remedy


def test_the_command_that_prints_a_token_names_the_missing_login_and_runs_nothing_from_here(tmp_path: Path) -> None:
    for name in ("tui.py", "argparse.py"):
        (tmp_path / name).write_text("raise SystemExit('code of the current directory')\n")
    answer = subprocess.run(
        TOKEN_COMMAND,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        env={"HOME": str(tmp_path), "PATH": "", "NO_GCE_CHECK": "true"},
    )
    assert (answer.returncode, answer.stdout) == (3, "")
    assert "gcloud auth application-default login" in answer.stderr
    assert "Traceback" not in answer.stderr


def test_a_pipe_or_endless_nesting_in_place_of_credentials_is_named(login: Login) -> None:
    pipe = login.directory / "pipe"
    os.mkfifo(pipe)
    for path in (pipe, login.write("deep.json", "[" * 100_000)):
        login.environ["GOOGLE_APPLICATION_CREDENTIALS"] = str(path)
        with pytest.raises(CloudError, match="cannot be used") as caught:
            find_credentials(login.environ)
        assert str(path) in caught.value.why
