from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given

from tests.logs.shapes import LOGS, training
from tui.logs import catalogue
from tui.logs.demux import Demux
from tui.logs.dialects import registry
from tui.logs.dialects.user_dialects import user_dialects
from tui.logs.files.summary_cache import READER_DIRECTORY, sort_rows
from tui.logs.saved_log import open_log
from tui.logs.snapshot import SORT_KEYS


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "out.log"
    write(path, f"{training(core=1)}\n{training(core=2, loss='nan')}\n")
    return path


def write(path: Path, text: str, *, age: float = 60.0) -> None:
    path.write_text(text)
    now = path.stat().st_mtime
    os.utime(path, (now - age, now - age))


def cores(path: Path, cache: Path) -> list[object]:
    return [row["core"] for row in open_log(path).core_rows(cache=cache)]


def test_a_second_opening_does_not_read_the_log(log: Path, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    first = open_log(log).core_rows(cache=cache)
    (entry,) = cache.iterdir()
    assert entry.stat().st_mode & 0o777 == 0o600
    document = json.loads(entry.read_text())
    document["rows"][0]["loss"] = 42.0
    entry.write_text(json.dumps(document))
    assert first == open_log(log).core_rows()
    assert [row["loss"] for row in open_log(log).core_rows(cache=cache)] == [42.0, "nan"]


@pytest.mark.parametrize("change", ["longer", "as long", "another file", "touched"])
def test_a_log_that_changed_is_read_again(log: Path, tmp_path: Path, change: str) -> None:
    cache = tmp_path / "cache"
    assert cores(log, cache) == [1, 2]
    text = log.read_text()
    if change == "longer":
        write(log, text + training(core=3) + "\n", age=50)
        assert cores(log, cache) == [1, 2, 3]
    elif change == "as long":
        write(log, text.replace("xla:0/1", "xla:0/7"), age=50)
        assert cores(log, cache) == [2, 7]
    elif change == "another file":
        before = log.stat()
        other = tmp_path / "other"
        other.write_text(text.replace("xla:0/1", "xla:0/7"))
        os.utime(other, ns=(before.st_atime_ns, before.st_mtime_ns))
        other.replace(log)
        assert cores(log, cache) == [2, 7]
    else:
        os.utime(log, (1.0, 1.0))
        assert cores(log, cache) == [1, 2]


def test_a_log_that_is_being_written_is_not_cached(log: Path, tmp_path: Path) -> None:
    write(log, log.read_text(), age=0)
    assert cores(log, tmp_path / "cache") == [1, 2]
    assert not (tmp_path / "cache").exists()


def test_a_users_dialect_makes_another_summary(log: Path, tmp_path: Path) -> None:
    own = user_dialects({"mine": r"Device=xla:0/(?P<core>\d+).* Step=(?P<step>\d+) Loss=(?P<loss>nan)"})
    cache = tmp_path / "cache"
    assert cores(log, cache) == [1, 2]
    write(log, "step 3 loss 1\n", age=60)
    (entry,) = cache.iterdir()
    before = entry.read_bytes()
    open_log(log, dialects=own).core_rows(cache=cache)
    assert entry.read_bytes() != before


def test_the_profiles_thresholds_decide_who_is_a_straggler(log: Path, tmp_path: Path) -> None:
    lines = [training(core=core, step=step) for step in range(0, 400, 20) for core in range(4) if core or step < 200]
    write(log, "\n".join(lines) + "\n")
    cache = tmp_path / "cache"
    for thresholds, state in (({}, "straggler"), ({"straggler": 1000.0}, "training"), ({}, "straggler")):
        rows = open_log(log, thresholds=thresholds).core_rows(cache=cache)
        assert [row["state"] for row in rows] == [state, "training", "training", "training"]


def test_the_summary_depends_on_the_texts_that_a_dialect_names(log: Path, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    pattern = r"Device=xla:0/(?P<core>\d+).* Step=(?P<step>\d+) Loss=(?P<loss>nan)"
    entries = []
    for contains in ("Device", "nothing of the kind"):
        open_log(log, dialects=user_dialects({"mine": {"pattern": pattern, "contains": contains}})).core_rows(
            cache=cache
        )
        entries.append(next(cache.iterdir()).read_bytes())
    assert entries[0] != entries[1]


@pytest.mark.parametrize("changed", ["dialects/matcher.py", "catalogue/patterns.toml", "catalogue/data"])
def test_a_summary_is_valid_for_the_code_and_the_patterns_that_made_it_only(
    log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changed: str
) -> None:
    cache, reader = tmp_path / "cache", tmp_path / "reader"
    (reader / "dialects" / "__pycache__").mkdir(parents=True)
    (reader / "catalogue").mkdir()
    (reader / changed).write_text("pattern = 'loss 1'")
    (reader / "catalogue" / "newer.toml").write_text("")
    monkeypatch.setattr("tui.logs.files.summary_cache.READER_DIRECTORY", reader)
    assert cores(log, cache) == [1, 2]
    (entry,) = cache.iterdir()
    before = entry.stat().st_ino
    (reader / "dialects" / "__pycache__" / "matcher.cpython-313.pyc").write_bytes(b"compiled")
    assert cores(log, cache) == [1, 2]
    assert entry.stat().st_ino == before
    (reader / changed).write_text("pattern = 'loss 2'")
    os.utime(reader / changed, (1e9, 1e9))
    assert cores(log, cache) == [1, 2]
    assert entry.stat().st_ino != before


def test_the_cache_covers_the_catalogue() -> None:
    assert Path(registry.__file__).parents[1] == READER_DIRECTORY == Path(catalogue.__file__).parents[1]


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"mark": 1}', b"\xff"])
def test_a_broken_summary_is_ignored(log: Path, tmp_path: Path, content: bytes) -> None:
    cache = tmp_path / "cache"
    cores(log, cache)
    (entry,) = cache.iterdir()
    entry.write_bytes(content)
    assert cores(log, cache) == [1, 2]


def test_a_cache_that_cannot_be_written_is_ignored(log: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert cores(log, tmp_path / "file") == [1, 2]


@given(LOGS)
def test_cached_rows_sort_as_snapshots_do(data: bytes) -> None:
    demux = Demux()
    demux.feed(0, data)
    snapshot = demux.snapshot()
    rows = [row.to_json() for row in snapshot.rows()]
    for by in SORT_KEYS:
        for reverse in (False, True):
            expected = [row.to_json() for row in snapshot.sorted(by, reverse).rows()]
            assert sort_rows(rows, by, reverse) == expected


def test_a_second_opening_loads_no_numpy(log: Path, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    cores(log, cache)
    program = (
        "import sys, pathlib; from tui.logs.saved_log import open_log;"
        f"rows = open_log({str(log)!r}).core_rows(cache=pathlib.Path({str(cache)!r}));"
        "assert len(rows) == 2; assert 'numpy' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
