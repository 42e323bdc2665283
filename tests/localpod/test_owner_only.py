"""Tests of a pod on a machine with other users: requests that do not come from its owner are refused."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.api_core import exceptions
from google.auth.exceptions import RefreshError
from google.cloud import storage

from tests.localpod.api_clients import PLACE, TRANSPORTS, connected, named, pod, serving
from tests.localpod.other_user import (
    NOBODY,
    as_nobody,
    listening,
    named_sockets,
    needs_other_user,
    processes_of,
    python_as_nobody,
)
from tests.pods import PodProcess, log_in, pod_home, pod_process_in, running_pod
from tests.sshd import make_key
from tui.cloud.tpu.tpu_api import TpuApi
from tui.localpod.api.authentication import make_token
from tui.settings import load
from tui.settings.profiles import read_profile

__all__ = ["pod_home"]

pytestmark = pytest.mark.timing

NODE = f"/v2/{PLACE}/nodes/local"
_HTTP = """
import http.client, json, sys
place, verb, path, body, headers = json.loads(sys.argv[1])
connection = http.client.HTTPConnection(place, timeout=20)
connection.request(verb, path, body, headers)
answer = connection.getresponse()
print(json.dumps([answer.status, answer.read().decode()]))
"""
_KNOCK = """
import json, socket, sys
answers = []
for address, port in json.loads(sys.argv[1]):
    with socket.create_connection((address, port), timeout=20) as made:
        made.settimeout(20)
        request = "GET /storage/v1/b?project=local HTTP/1.1\\r\\nHost: %s:%d\\r\\n\\r\\n" % (address, port)
        made.sendall(request.encode())
        answers.append(made.recv(1 << 16).decode("latin-1"))
print(json.dumps(answers))
"""
_JOB = """
from trainer.storage import objects
objects.write("gs://tpu-tui-local/note", b"written by a job")
print(objects.read("gs://tpu-tui-local/note").decode())
"""
_READ = """
import json, sys
found = []
for path in json.loads(sys.argv[1]):
    try:
        found.append(len(open(path, "rb").read()))
    except OSError as error:
        found.append(error.strerror)
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def pod_of_two(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PodProcess]:
    """Run a pod of two workers for the tests of this module, as `local up` runs one."""
    with pod_process_in(tmp_path_factory.mktemp("home"), workers=2) as made:
        yield made


@pytest.fixture
def up(pod_of_two: PodProcess, monkeypatch: pytest.MonkeyPatch) -> PodProcess:
    """Return the pod, whose home is that of the test."""
    monkeypatch.setenv("TPU_TUI_HOME", str(pod_of_two.home))
    return pod_of_two


def pod_id(up: PodProcess) -> str:
    return str(read_profile(up.home, "local", Path.home()).local["pod"])


def place_of(url: str) -> str:
    return url.removeprefix("http://")


def http_as_nobody(url: str, verb: str, path: str, body: Any = None, **headers: str) -> tuple[int, str]:
    words = [place_of(url), verb, path, json.dumps(body) if body else None, headers]
    status, text = json.loads(python_as_nobody(_HTTP, json.dumps(words)))
    return status, text


def http_as_owner(
    up: PodProcess, verb: str, path: str, body: bytes | None = None, url: str = "", **headers: str
) -> tuple[int, str]:
    """Send a request as the owner's program or browser would; it carries the token by default."""
    rest = url or up.announcement["tpu_api"]["rest"]
    bears = {"Authorization": f"Bearer {up.announcement['token']}"} | headers
    sent = {name.replace("_", "-"): value for name, value in bears.items() if value}
    try:
        with urllib.request.urlopen(urllib.request.Request(rest + path, body, sent, method=verb)) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


@needs_other_user
def test_another_user_lists_neither_nodes_nor_buckets(up: PodProcess) -> None:
    rest, store = up.announcement["tpu_api"]["rest"], up.announcement["storage"]
    status, text = http_as_nobody(rest, "GET", f"/v2/{PLACE}/nodes")
    error = json.loads(text)["error"]
    assert (status, error["status"]) == (401, "UNAUTHENTICATED")
    assert "missing required authentication credential" in error["message"]
    assert "t1v-n" not in text
    for path in ("/storage/v1/b?project=local", "/download/storage/v1/b/tpu-tui-local/o/x?alt=media", "/_internal"):
        status, text = http_as_nobody(store, "GET", path)
        assert (status, json.loads(text)["error"]["errors"][0]["reason"]) == (401, "required")
    for path in ("global/firewalls", "zones/local-a/instances", "zones/local-a/instanceGroupManagers"):
        assert http_as_nobody(rest, "GET", f"/compute/v1/projects/local/{path}")[0] == 401
    assert http_as_nobody(rest, "POST", "/batch/compute/v1", {})[0] == 401
    wrong = {"Authorization": f"Bearer {make_token()}"}
    assert http_as_nobody(rest, "GET", f"/v2/{PLACE}/nodes", **wrong)[0] == 401
    assert http_as_nobody(store, "GET", "/storage/v1/b?project=local", **wrong)[0] == 401
    right = {"Authorization": f"Bearer {up.announcement['token']}"}
    assert "tpu-tui-local" in http_as_nobody(store, "GET", "/storage/v1/b?project=local", **right)[1]


@needs_other_user
def test_no_port_that_a_pod_listens_on_serves_another_user(up: PodProcess) -> None:
    """The ports are found among the kernel's sockets, so that a port added later is tried too."""
    found = listening(processes_of(pod_id(up), up.pid))
    announced = {up.announcement["tpu_api"]["grpc"], place_of(up.announcement["tpu_api"]["rest"])}
    announced |= {place_of(up.announcement["storage"])}
    assert announced < {f"{one.address}:{one.port}" for one in found}
    places = sorted({(one.address, one.port) for one in found})
    answers = json.loads(python_as_nobody(_KNOCK, json.dumps(places)))
    for (address, port), answer in zip(places, answers, strict=True):
        if f"{address}:{port}" == up.announcement["tpu_api"]["grpc"]:
            assert "HTTP/1" not in answer
        else:
            assert answer.startswith(("HTTP/1.1 401 ", "SSH-2.0-")), (address, port, answer)
    assert named_sockets(processes_of(pod_id(up), up.pid)) == []


@needs_other_user
def test_another_user_can_neither_add_an_ssh_key_nor_log_in(up: PodProcess, tmp_path: Path) -> None:
    key_directory = Path(f"/tmp/nobody-{os.getpid()}-{tmp_path.name[-6:]}")
    key_directory.mkdir(mode=0o700)
    try:
        public = make_key(key_directory / "key")
        for path in (key_directory, *key_directory.iterdir()):
            os.chown(path, NOBODY, NOBODY)
        body = {"metadata": {"ssh-keys": f"root:{public or (key_directory / 'key.pub').read_text()}"}}
        rest = up.announcement["tpu_api"]["rest"]
        status, _ = http_as_nobody(rest, "PATCH", f"{NODE}?updateMask=metadata", body)
        assert status == 401
        ssh = shutil.which("ssh")
        assert ssh is not None
        node = json.loads(http_as_owner(up, "GET", NODE)[1])
        endpoint = node["networkEndpoints"][0]
        words = [
            ssh,
            "-F",
            "none",
            "-i",
            str(key_directory / "key"),
            "-o",
            "BatchMode=yes",
            "-o",
            "StrictHostKeyChecking=no",
        ]
        words += ["-o", f"UserKnownHostsFile={key_directory}/known", "-p", str(endpoint["port"])]
        tried = as_nobody(*words, f"root@{endpoint['ipAddress']}", "id")
        assert (tried.returncode, tried.stdout) == (255, "")
        assert "Permission denied" in tried.stderr
        assert "ssh-keys" not in node.get("metadata", {})
    finally:
        shutil.rmtree(key_directory)


@needs_other_user
def test_the_token_is_in_no_place_that_another_user_can_read(up: PodProcess) -> None:
    token = up.announcement["token"].encode()
    processes = processes_of(pod_id(up), up.pid)
    for pid in processes:
        assert token not in Path(f"/proc/{pid}/cmdline").read_bytes()
        assert token not in Path(f"/proc/{pid}/environ").read_bytes()
    profile = up.home / "profiles" / "local.toml"
    identity = load({"profile": "local"}).identity
    assert identity is not None
    secret_files = [profile, identity.with_name("token"), identity, *(f"/proc/{pid}/environ" for pid in processes)]
    assert token in profile.read_bytes()
    assert identity.with_name("token").read_bytes() == token
    read = json.loads(python_as_nobody(_READ, json.dumps([str(path) for path in secret_files])))
    assert set(read) == {"Permission denied"}


def test_a_web_page_in_the_owners_browser_changes_nothing(up: PodProcess) -> None:
    """CORS lets a page send such requests without asking; a name for 127.0.0.1 makes it the same site."""
    store = up.announcement["storage"]
    page = {"Origin": "http://evil.example", "Content_Type": "text/plain"}
    objects = "/upload/storage/v1/b/tpu-tui-local/o?uploadType=media&name=x"
    for sent in (page, {"Host": "evil.example"}, {"Host": "evil.example", **page}, {"Sec_Fetch_Site": "cross-site"}):
        assert http_as_owner(up, "POST", f"{NODE}:stop", b"{}", **sent)[0] == 403
        assert http_as_owner(up, "POST", f"{NODE}:stop", b"{}", **sent, Authorization="")[0] == 403
        assert http_as_owner(up, "POST", objects, b"stolen", store, **sent, Authorization="")[0] == 403
        assert http_as_owner(up, "POST", objects, b"stolen", store, **sent)[0] == 403
    assert http_as_owner(up, "POST", f"{NODE}:stop", b"{}", Authorization="")[0] == 401
    assert json.loads(http_as_owner(up, "GET", NODE)[1])["state"] == "READY"
    assert json.loads(http_as_owner(up, "GET", "/storage/v1/b/tpu-tui-local/o", url=store)[1]).get("items", []) == []


@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_the_owners_client_is_accepted_and_one_with_another_token_is_refused(transport: str) -> None:
    async with pod(transport) as one:
        await one.service.add_slice("local", 1, 8)
        assert [node.name for node in await one.call.all("list_nodes", parent=PLACE)] == [named("local")]
        async with connected(one.service, transport, make_token()) as stranger:
            # the REST session answers 401 by refreshing its credentials, which these cannot do
            with pytest.raises(RefreshError if transport == "rest" else exceptions.Unauthenticated) as refused:
                await stranger("list_nodes", parent=PLACE)
    if transport != "rest":
        assert isinstance(refused.value, exceptions.Unauthenticated)
        assert refused.value.reason == "ACCESS_TOKEN_TYPE_UNSUPPORTED"


async def test_grpc_without_a_token_is_refused_whatever_the_channel() -> None:
    local = grpc.local_channel_credentials(grpc.LocalConnectionType.LOCAL_TCP)
    async with serving() as (service, _):
        place = f"127.0.0.1:{service.grpc_port}"
        for channel in (grpc.aio.insecure_channel(place), grpc.aio.secure_channel(place, local)):
            async with channel:
                call = channel.unary_unary("/google.cloud.tpu.v2.Tpu/ListNodes")  # type: ignore[call-arg]
                with pytest.raises(grpc.aio.AioRpcError) as refused:
                    await call(b"", timeout=20)
                assert refused.value.code() is grpc.StatusCode.UNAUTHENTICATED
                assert "missing required authentication credential" in (refused.value.details() or "")


async def test_an_earlier_profile_without_a_token_is_reported_in_a_sentence(pod_home: Path) -> None:
    async with serving() as (service, _):
        profile = pod_home / "profiles" / "old.toml"
        profile.parent.mkdir(parents=True)
        profile.write_text(
            f'project = "local"\nzones = ["local-a"]\nendpoints.tpu = "127.0.0.1:{service.grpc_port}"\n'
        )
        api = TpuApi(load({"profile": "old"}))
        try:
            [problem] = (await api.slices()).problems
        finally:
            await api.close()
    assert "answers only its owner, and the profile has no token" in problem.why
    assert "tpu-tui local up" in problem.remedy


def test_the_token_is_not_among_the_settings_that_are_shown(up: PodProcess) -> None:
    words = [sys.executable, "-m", "tui.cli", "config", "show", "--json"]
    shown = subprocess.run(words, env={**os.environ, "TPU_TUI_HOME": str(up.home)}, capture_output=True, check=True)
    assert up.announcement["token"].encode() not in shown.stdout
    assert {"name": "token", "value": "(not shown)"}.items() <= next(
        row for row in json.loads(shown.stdout) if row["name"] == "token"
    ).items()
    assert up.announcement["token"] not in repr(load({"profile": "local"}))


async def test_a_job_on_a_worker_reaches_the_bucket_through_its_environment(pod_home: Path) -> None:
    async with running_pod(pod_home) as made, log_in(made) as connection:
        done = await connection.run(f"python3 -c '{_JOB}'")
    assert (done.exit_status, done.stdout) == (0, "written by a job\n"), done.stderr


async def test_the_storage_client_needs_only_the_environment_variable(
    up: PodProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", up.announcement["storage"])
    data = os.urandom(9 << 20)

    def upload_and_download() -> bytes:
        client = storage.Client(project="local")
        blob = client.bucket("tpu-tui-local").blob("large.bin", chunk_size=1 << 20)
        blob.upload_from_string(data)
        downloaded = bytes(blob.download_as_bytes())
        blob.delete()
        return downloaded

    assert await asyncio.to_thread(upload_and_download) == data
