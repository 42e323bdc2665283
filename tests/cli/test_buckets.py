"""`buckets` as a user runs it, on the local pod's object store."""

from __future__ import annotations

from pathlib import Path

from tests.cli.conftest import LocalPod


def test_a_bucket_is_made_in_the_slices_region_used_and_deleted(pod: LocalPod, tmp_path: Path) -> None:
    bucket = "gs://made-for-local"
    made = pod.call("buckets", "create", bucket, "--for", "local", "--json")
    assert made.code == 0, made.errors
    assert made.document == {"bucket": bucket, "location": "local", "slice": "local", "dry_run": False}
    log = tmp_path / "out.log"
    log.write_text("| Training Device=xla:0/0 Epoch=1 Step=0 Loss=1.0 Rate=1.0 GlobalRate=1.0 Time=00:00:00\n")
    assert pod.call("report", str(log), "--out", str(tmp_path), "--upload", f"{bucket}/reports").code == 0
    again = pod.call("buckets", "create", bucket, "--for", "local")
    assert (again.code, "you have it already" in again.errors) == (2, True)
    refused = pod.call("buckets", "delete", bucket)
    assert (refused.code, "without confirmation" in refused.errors) == (2, True)
    gone = pod.call("buckets", "delete", bucket, "--yes", "--json")
    assert (gone.code, gone.document) == (0, {"bucket": bucket, "objects": 1, "dry_run": False})
    assert pod.call("buckets", "delete", bucket, "--yes").code == 2


def test_nothing_happens_on_a_dry_run_or_read_only(pod: LocalPod) -> None:
    dry = pod.call("buckets", "create", "gs://dry-bucket", "--for", "local", "--dry-run")
    assert (dry.code, "Would create gs://dry-bucket in local" in dry.errors) == (0, True)
    assert pod.call("buckets", "delete", "gs://dry-bucket", "--yes").code == 2
    assert pod.call("--read-only", "buckets", "create", "gs://dry-bucket", "--for", "local").code == 2


def test_an_object_is_not_taken_for_its_bucket(pod: LocalPod) -> None:
    answer = pod.call("buckets", "delete", "gs://pod/reports", "--yes")
    assert (answer.code, "name the bucket only: gs://pod" in answer.errors) == (2, True)
