"""`fetch` as a user runs it: rows, the exit code, and files that only some workers have."""

from __future__ import annotations

import argparse
import asyncio
import hashlib
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.cli.conftest import LocalPod
from tui.commands.fetch import fetch_to_directory
from tui.commands.terminal import stdio, transfer_progress
from tui.commands.terminal.output import Output
from tui.operator import FetchedFile

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


def test_the_progress_line_counts_the_workers_that_are_done(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr(stdio, "understands_controls", lambda _stream: True)
    monkeypatch.setattr(transfer_progress, "PROGRESS_INTERVAL_S", 0.0)

    async def get(_ref: str) -> Any:
        return SimpleNamespace(workers=(0, 1))

    async def fetch(
        _slice: Any, _remotes: Any, _to: Any, _ranks: Any, on_received: Any
    ) -> AsyncIterator[FetchedFile]:
        for worker in (0, 1):
            on_received(worker, 1_000_000, 1_000_000)
            for name in ("a", "b"):
                yield FetchedFile(worker, f"worker-{worker}/{name}", 500_000, "0" * 64, skipped=False)

    operator: Any = SimpleNamespace(slices=SimpleNamespace(get=get), files=SimpleNamespace(fetch=fetch))
    args = argparse.Namespace(slice="pod", remote=["*"], to=tmp_path, worker="all")
    assert asyncio.run(fetch_to_directory(args, operator, Output())) == 0
    lines = capsys.readouterr().err.split("\r\x1b[K")
    assert lines[1] == "0 of 2 workers, 1.0 of 1.0 MB received"
    assert lines[-2] == "2 of 2 workers, 2.0 of 2.0 MB received"


def test_a_size_never_has_a_thousand_of_its_unit() -> None:
    assert [transfer_progress.format_size(size) for size in (999, 1000, 999_949, 999_950)] == [
        "999 B",
        "1.0 kB",
        "999.9 kB",
        "1.0 MB",
    ]
