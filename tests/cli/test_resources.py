"""`resources` as a user runs it: what costs money, what uses it, and what a deletion removes and leaves."""

from __future__ import annotations

import contextlib
import json
import shutil
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.commands import Answer, Question, Shell
from tests.cli.conftest import LocalPod
from tests.stores import needs_store
from tests.waiting import wait_until

pytestmark = [needs_store, pytest.mark.timing]

TYPE = ("--type", "v2-8", "--version", "tpu-ubuntu2204-base")


def rows(pod: LocalPod | Shell, *options: str) -> dict[tuple[str, str], dict[str, Any]]:
    """Return the rows of `resources --json` by kind and name."""
    answer = pod.call(*options, "resources", "--json")
    assert answer.code == 0, answer.errors
    return {(row["kind"], row["name"]): row for row in answer.document}


def delete(pod: LocalPod, *words: str) -> Answer:
    return pod.call("resources", "delete", *words, "--yes")


def add_disk(pod: LocalPod, name: str, **labels: str) -> None:
    """Create a disk as another program would."""
    address = f"{pod.announced['compute_api']}/compute/v1/projects/local/zones/local-a/disks"
    body = json.dumps({"name": name, "labels": {key.replace("_", "-"): value for key, value in labels.items()}})
    headers = {"Authorization": f"Bearer {pod.announced['token']}"}
    with urllib.request.urlopen(urllib.request.Request(address, body.encode(), headers, method="POST")) as answer:
        assert answer.status == 200


@contextlib.contextmanager
def live_run(pod: LocalPod, slice_name: str) -> Iterator[str]:
    """Launch a run that stays alive on the slice, yield its id, and stop it."""
    launched = pod.call("launch", slice_name, "--skip-checks", "--detach", "--json", "--", "sleep", "600")
    assert launched.code == 0, launched.errors
    run = str(launched.document["run"])
    wait_until(lambda: pod.call("status", run, "--json").document["state"] == "running", "the run is running")
    yield run
    assert pod.call("stop", run, "--grace", "1").code == 0


def test_everything_is_listed_with_its_users_and_deleted_in_order(pod: LocalPod) -> None:
    add_disk(pod, "data", created_by="tpu-tui")
    disk = "source=projects/local/zones/local-a/disks/data"
    assert pod.call("slices", "create", "made", *TYPE, "--data-disk", disk).code == 0
    assert pod.call("slices", "create", "pair", *TYPE, "--queued", "--nodes", "2").code == 0
    assert pod.call("buckets", "create", "gs://made-bucket", "--for", "local").code == 0

    found = rows(pod)

    made = found["slice", "made"]
    assert (made["zone"], made["state"], made["chips"]) == ("local-a", "READY", 4)
    assert (made["made_by_us"], made["cost_relevant"], made["used_by"]) == (True, True, [])
    assert made["age_s"] in range(300)
    assert found["slice", "local"]["made_by_us"] is False
    assert found["disk", "data"]["used_by"] == ["made"]
    queued = found["queued-resource", "pair"]
    assert (queued["state"], queued["chips"], queued["cost_relevant"]) == ("ACTIVE", 8, False)
    bucket = found["bucket", "made-bucket"]
    assert (bucket["zone"], bucket["cost_relevant"], bucket["labels"]["slice"]) == ("local", False, "local")

    dry = pod.call("resources", "delete", "--unused", "--dry-run", "--json")
    assert (dry.code, {row["deleted"] for row in dry.document}) == (0, {False})
    assert rows(pod).keys() == found.keys()

    gone = delete(pod, "--unused")
    assert gone.code == 0, gone.errors
    lines = gone.errors.splitlines()
    order = [
        "queued resource pair is deleted",
        "made is deleted",
        "disk data is deleted",
        "gs://made-bucket is deleted",
    ]
    assert [line for line in lines if line in order] == order
    assert rows(pod).keys() == found.keys() - {
        ("slice", "made"),
        ("slice", "pair-0"),
        ("slice", "pair-1"),
        ("queued-resource", "pair"),
        ("disk", "data"),
        ("bucket", "made-bucket"),
    }


def test_a_slice_with_a_live_run_is_never_unused_even_where_the_run_is_not_known(
    pod: LocalPod, tmp_path: Path
) -> None:
    assert pod.call("slices", "create", "busy", *TYPE).code == 0
    assert pod.call("slices", "create", "busier", *TYPE, "--queued").code == 0
    other = Shell(tmp_path)
    shutil.copytree(pod.shell.home / "profiles", other.home / "profiles")
    with live_run(pod, "busy") as run, live_run(pod, "busier") as second:
        assert rows(pod)["slice", "busy"]["used_by"] == [run]
        assert rows(pod)["queued-resource", "busier"]["used_by"] == [second]
        here = delete(pod, "--unused")
        assert (here.code, f"Kept: slice/local-a/busy, used by {run}" in here.errors) == (0, True)

        away = other.call("--profile", "local", "resources", "delete", "--unused", "--yes", "--json")

        assert away.code == 2
        assert f"slice busy was not deleted: live on it: {run}" in away.errors
        assert f"queued-resource busier was not deleted: live on it: {second}" in away.errors
        assert "Left: queued-resource/local-a/busier, slice/local-a/busy" in away.errors
        assert {row["name"]: row["deleted"] for row in away.document} == {"busy": False, "busier": False}
        assert rows(pod)["slice", "busy"]["state"] == "READY"
    assert delete(pod, "--unused").code == 0
    assert not {"busy", "busier"} & {name for _, name in rows(pod)}


def test_a_slice_whose_workers_cannot_be_reached_is_not_deleted_unless_it_is_named(
    pod: LocalPod, tmp_path: Path
) -> None:
    assert pod.call("slices", "create", "silent", *TYPE).code == 0
    other = Shell(tmp_path)
    shutil.copytree(pod.shell.home / "profiles", other.home / "profiles")
    wrong_key = tmp_path / "key"
    wrong_key.write_text("no key")
    options = ("--profile", "local", "--identity", str(wrong_key))

    result = other.call(*options, "resources", "delete", "--unused", "--yes")

    assert (result.code, "slice silent was not deleted: it may have a live run" in result.errors) == (2, True)
    assert other.call(*options, "resources", "delete", "slice/silent", "--yes").code == 0
    assert ("slice", "silent") not in rows(pod)


def test_a_failed_deletion_does_not_stop_the_others_and_the_rest_is_named(pod: LocalPod) -> None:
    add_disk(pod, "used", created_by="tpu-tui")
    add_disk(pod, "free")
    source = "source=projects/local/zones/local-a/disks/used"
    assert pod.call("slices", "create", "holder", *TYPE, "--data-disk", source).code == 0

    answer = pod.call("resources", "delete", "used", "disk/free", "--yes", "--json")

    assert answer.code == 2
    assert {row["name"]: row["deleted"] for row in answer.document} == {"used": False, "free": True}
    assert "already being used by" in answer.errors
    assert answer.errors.splitlines()[-1] == "Left: disk/local-a/used"
    both = delete(pod, "used", "holder")
    assert both.code == 0, both.errors


def test_a_bucket_with_objects_counts_as_used_and_is_deleted_when_it_is_named(pod: LocalPod, tmp_path: Path) -> None:
    bucket = "gs://with-objects"
    assert pod.call("buckets", "create", bucket, "--for", "local").code == 0
    log = tmp_path / "out.log"
    log.write_text("| Training Device=xla:0/0 Epoch=1 Step=0 Loss=1.0 Rate=1.0 GlobalRate=1.0 Time=00:00:00\n")
    assert pod.call("report", str(log), "--out", str(tmp_path), "--upload", f"{bucket}/reports").code == 0

    assert rows(pod)["bucket", "with-objects"]["cost_relevant"] is True
    result = delete(pod, "--unused")
    assert f"Kept: {bucket}, used by what is stored in it" in result.errors
    named = delete(pod, bucket)
    assert (named.code, "1 object is deleted from gs://with-objects" in named.errors) == (0, True)
    assert ("bucket", "with-objects") not in rows(pod)


def test_words_that_name_nothing_or_too_much_are_refused(pod: LocalPod) -> None:
    for words, text in (
        ((), "no resources given"),
        (("local", "--unused"), "give either names or --unused, not both"),
        (("locl",), "did you mean local?"),
        (("gs://tpu-tui-local",), "no such resource"),
        (("local",), "refusing to delete 1 resource without confirmation"),
    ):
        answer = pod.call("resources", "delete", *words)
        assert (answer.code, text in answer.errors) == (2, True), answer.errors
    assert pod.call("--read-only", "resources", "delete", "local", "--yes").code == 2
    assert pod.call("--read-only", "resources", "--json").code == 0
    assert ("slice", "local") in rows(pod)


def test_names_are_typed_at_a_terminal_and_wrong_ones_delete_nothing(pod: LocalPod) -> None:
    add_disk(pod, "one")
    add_disk(pod, "two")
    wrong = typed(pod, "one\n", "resources", "delete", "one", "two")
    assert "the typed names do not match" in wrong
    assert {("disk", "one"), ("disk", "two")} <= rows(pod).keys()
    right = typed(pod, "two, one\n", "resources", "delete", "one", "two")
    assert "not made by tpu-tui" in right
    assert "disk one is deleted" in right
    assert not {("disk", "one"), ("disk", "two")} & rows(pod).keys()


def test_a_bucket_that_tpu_tui_did_not_create_is_deleted_only_with_its_name_typed(pod: LocalPod) -> None:
    bucket = "gs://of-others"
    address = f"{pod.announced['storage']}/storage/v1/b?project=local"
    request = urllib.request.Request(address, b'{"name": "of-others"}', method="POST")
    with urllib.request.urlopen(request):
        pass
    assert ("bucket", "of-others") not in rows(pod)
    refused = pod.call("buckets", "delete", bucket, "--yes")
    assert (refused.code, "tpu-tui did not create it" in refused.errors) == (2, True)
    assert "does not match" in typed(pod, "others\n", "buckets", "delete", bucket, "--yes")
    assert f"Deleted {bucket}" in typed(pod, "of-others\n", "buckets", "delete", bucket, "--yes")


def typed(pod: LocalPod, text: str, *words: str) -> str:
    """Type a text at a command's terminal as soon as the command asks; return what the command printed there."""
    with Question(pod.shell, *words) as question:
        question.waits_for("to continue:")
        return question.answers(text).errors
