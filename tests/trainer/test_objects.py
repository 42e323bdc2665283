"""Tests of Cloud Storage's client with the credentials that workers have."""

from __future__ import annotations

import contextlib
import json
import os
import re
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

pytest.importorskip("google.cloud.storage")

from tests.trainer.small_shards import config, refused
from tests.trainer.storage_answers import answering
from trainer.checkpoint import store
from trainer.checkpoint.store import Identity
from trainer.data import dataset
from trainer.errors import TrainerError
from trainer.shards.manifest import MANIFEST
from trainer.storage import objects, temp_files


def test_credentials_without_a_project_are_accepted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    key = tmp_path / "user.json"
    reported = {"type": "authorized_user", "client_id": "a", "client_secret": "b", "refresh_token": "c"}
    key.write_text(json.dumps(reported))
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(key))
    for name in ("GOOGLE_CLOUD_PROJECT", "GCLOUD_PROJECT", "STORAGE_EMULATOR_HOST"):
        monkeypatch.delenv(name, raising=False)
    client, session = objects._client_and_session.__wrapped__(os.getpid(), "")
    assert client.bucket("anybodys").path == "/b/anybodys"
    assert session.credentials.refresh_token == "c"
    client.close()
    session.close()


def test_the_apis_answer_is_reported_without_the_request() -> None:
    import requests
    from google.api_core.exceptions import RetryError, ServiceUnavailable, from_http_status

    answer = requests.Response()
    answer._content = b'{"error": {"code": 403, "message": "you@p does not have storage.objects.create access"}}'
    refused = from_http_status(403, "POST https://…/o?uploadType=multipart: {…}", response=answer)
    with pytest.raises(TrainerError) as reported, objects._translate_errors("gs://b/it"):
        raise refused
    assert str(reported.value).startswith(
        "No permission for gs://b/it: 403: you@p does not have storage.objects.create"
    )
    with (
        pytest.raises(TrainerError, match=r"gs://b/it: \[Errno \d+\] Connection refused\. Check"),
        objects._translate_errors("gs://b/it"),
    ):
        requests.get("http://127.0.0.1:1")
    busy = RetryError("Timeout of 30.0s exceeded", ServiceUnavailable("try later"))  # type: ignore[no-untyped-call]
    with pytest.raises(TrainerError) as reported, objects._translate_errors("gs://b/it"):
        raise busy
    assert str(reported.value) == (
        "Cloud Storage does not serve gs://b/it: 503: try later. Check the network and the bucket."
    )


def test_a_missing_object_is_not_reported_as_a_missing_bucket(object_store: str) -> None:
    with objects._translate_errors("gs://trainer-test/x"):
        client = objects._client()
    client.create_bucket("my-bucket")
    with pytest.raises(objects.MissingError, match="There is no object gs://my-bucket/buckets/1"):
        objects.read("gs://my-bucket/buckets/1")


@pytest.mark.parametrize("ask", [objects.is_directory, objects.list_names, objects.read, objects.delete])
def test_an_error_of_the_file_system_is_reported_in_a_sentence(ask: Callable[[str], object], tmp_path: Path) -> None:
    with pytest.raises(TrainerError, match=r"Cannot \w+( for)? .*/xxx.*: File name too long\."):
        ask(f"{tmp_path}/{'x' * 300}")


def test_of_several_writers_of_a_new_file_one_writes_it(tmp_path: Path) -> None:
    together = threading.Barrier(4)

    def write(number: int) -> bool:
        together.wait()
        with contextlib.suppress(objects.TakenError):
            objects.write(str(tmp_path / "new"), b"%d" % number, new=True)
            return True
        return False

    with ThreadPoolExecutor(4) as pool:
        for _ in range(10):
            wrote = list(pool.map(write, range(4)))
            assert wrote.count(True) == 1
            assert objects.read(str(tmp_path / "new")) == b"%d" % wrote.index(True)
            (tmp_path / "new").unlink()


def pipe(path: Path) -> None:
    os.mkfifo(path)


def endless(path: Path) -> None:
    path.symlink_to("/dev/zero")


def huge(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(1 << 40)


ODD_FILES = pytest.mark.parametrize(
    ("make", "says"),
    [
        (pipe, "it is not a file"),
        (endless, "it is not a file"),
        (huge, f"it has more than {objects.LARGEST_DOCUMENT_BYTES} bytes"),
    ],
)


@ODD_FILES
def test_a_manifest_that_never_ends_is_refused(make: Callable[[Path], None], says: str, tmp_path: Path) -> None:
    make(tmp_path / MANIFEST)
    for given in ({"directory": str(tmp_path)}, {"train": f"{tmp_path}/{{manifest,}}.json"}):
        given["on_bad_shard"] = "skip"
        assert f"Cannot read {tmp_path}/{MANIFEST}: {says}" in refused(lambda: dataset.find(config(**given), 1))  # noqa: B023


@pytest.mark.parametrize("make", [pipe, endless])
def test_a_checkpoints_pointer_that_is_no_file_is_refused(make: Callable[[Path], None], tmp_path: Path) -> None:
    make(tmp_path / "checkpoint-000001.json")
    text = refused(lambda: store.find_newest(str(tmp_path), Identity("resnet50", 10, "plan")))
    assert text.startswith(f"Cannot read {tmp_path}/checkpoint-000001.json: it is not a file. Make it readable, or")


def test_a_checkpoint_whose_pointer_is_too_large_is_passed_over(tmp_path: Path) -> None:
    huge(tmp_path / "checkpoint-000001.json")
    lines: list[str] = []
    assert store.find_newest(str(tmp_path), Identity("resnet50", 10, "plan"), lines.append) is None
    assert f"it has more than {objects.LARGEST_DOCUMENT_BYTES} bytes" in lines[0]


def test_a_pipe_or_link_in_place_of_a_temporary_file_is_neither_waited_for_nor_written_to(tmp_path: Path) -> None:
    pipe(tmp_path / ".x.json.elsewhere.1.part")
    objects.remove_temp_files(str(tmp_path), re.compile(r"x\.json"))
    temporary = tmp_path / f".x.json.{temp_files._host()}.{os.getpid()}.part"
    victim = tmp_path / "victim"
    victim.write_text("precious")
    temporary.symlink_to(victim)
    assert "Cannot write" in refused(lambda: objects.write(f"{tmp_path}/x.json", b"new"))
    assert victim.read_text() == "precious"


@pytest.mark.parametrize("content", ['{"size": "x"}', "{}", '{"items": 5}', '{"items": [5]}', "[" * 100_000])
def test_an_answer_that_is_not_of_cloud_storage_is_named(monkeypatch: pytest.MonkeyPatch, content: str) -> None:
    read = objects.list_names if "items" in content else objects.find_object
    named = pytest.raises(TrainerError, match="The answer about gs://a/b is not one of Cloud Storage")
    with answering(monkeypatch, lambda _: (200, content.encode())), named:
        read("gs://a/b")
