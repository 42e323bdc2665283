"""`fetch` as a user runs it: rows, the exit code, and files that only some workers have."""

from __future__ import annotations

import hashlib
from pathlib import Path

from tests.cli.conftest import LocalPod

MAKE = "w=$(basename $(dirname $HOME)); mkdir -p out; echo $w >out/who; echo $w >out/only-$w"


def test_fetch_copies_from_every_worker_and_skips_what_is_there(pod: LocalPod, tmp_path: Path) -> None:
    assert pod.call("exec", "local", "--", "sh", "-c", MAKE).code == 0
    to = str(tmp_path / "to")
    answer = pod.call("fetch", "local", "out/*", "--to", to, "--json", "--worker", "0,2")
    assert answer.code == 0, answer.errors
    assert len(answer.document) == 4
    for row in answer.document:
        assert set(row) == {"worker", "path", "bytes", "hash", "skipped"}
        data = Path(row["path"]).read_bytes()
        assert (row["bytes"], row["hash"]) == (len(data), hashlib.sha256(data).hexdigest())
        assert not row["skipped"]
    shared = [row for row in answer.document if row["path"].endswith("who")]
    assert [Path(row["path"]).relative_to(to) for row in shared] == [Path("worker-0/who"), Path("worker-2/who")]
    again = pod.call("fetch", "local", "--to", to, "--worker", "0,2", "out/*")
    assert again.code == 0
    assert again.out.count("already there") == 4


def test_fetch_names_a_pattern_that_matches_on_no_worker(pod: LocalPod, tmp_path: Path) -> None:
    answer = pod.call("fetch", "local", "nothing", "--to", str(tmp_path), "--json")
    assert (answer.code, answer.document) == (2, [])
    assert "no worker has nothing" in answer.errors
