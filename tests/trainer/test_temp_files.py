"""Tests of temporary files: those of killed writers are removed, and no others."""

from __future__ import annotations

import multiprocessing
import os
import re
import signal
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch", reason="torch is not installed")

from trainer.checkpoint import store
from trainer.checkpoint.store import CheckpointStore, Identity, Position, State
from trainer.shards import command, sources
from trainer.storage import objects, temp_files

ANYTHING = re.compile(".*")
IDENTITY = Identity("resnet50", 10, "plan")


def write_for_ever(path: Path, begun: Any) -> None:
    with temp_files.replace_file(path) as stream:
        stream.write(b"half")
        stream.flush()
        begun.send(None)
        signal.pause()


@pytest.fixture
def writer() -> Iterator[Any]:
    """Return a function that starts a process in the middle of writing a file; all are killed later."""
    context = multiprocessing.get_context("fork")
    with ExitStack() as stack:

        def begin(path: Path) -> Any:
            receiver, sender = context.Pipe(duplex=False)
            process = context.Process(target=write_for_ever, args=(path, sender))
            process.start()
            stack.callback(end, process)
            receiver.recv()
            receiver.close()
            sender.close()
            return process

        yield begin


def end(process: Any) -> None:
    process.kill()
    process.join()


def temporaries(directory: Path) -> list[str]:
    return [path.name for path in directory.iterdir() if path.name.startswith(".")]


def make_old(path: Path) -> None:
    then = time.time() - temp_files.ABANDONED_AFTER_S - 60
    os.utime(path, (then, then))


def test_files_of_killed_writers_are_removed_and_those_of_living_ones_are_not(writer: Any, tmp_path: Path) -> None:
    writer(tmp_path / "living")
    end(writer(tmp_path / "killed"))
    assert len(temporaries(tmp_path)) == 2
    make_old(next(tmp_path.glob(".living*")))  # as of a writer that waits for a slow disk
    temp_files.remove_temp_files(tmp_path, ANYTHING)
    [left] = temporaries(tmp_path)
    assert left.startswith(".living.")


def test_a_file_of_another_machine_is_removed_only_when_it_is_old(writer: Any, tmp_path: Path) -> None:
    end(writer(tmp_path / "file"))
    elsewhere = tmp_path / ".file.another-host.17.part"
    next(tmp_path.glob(".file*")).rename(elsewhere)
    temp_files.remove_temp_files(tmp_path, ANYTHING)
    assert elsewhere.exists()
    make_old(elsewhere)
    temp_files.remove_temp_files(tmp_path, ANYTHING)
    assert not elsewhere.exists()


def test_a_writer_makes_another_file_if_one_is_removed_as_a_leftover_before_it_is_locked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock, taken = temp_files.fcntl.flock, []  # type: ignore[attr-defined]

    def late(stream: Any, how: int) -> None:
        if how == temp_files.fcntl.LOCK_EX and not taken:  # type: ignore[attr-defined]
            taken.append(True)
            temp_files.remove_temp_files(tmp_path, ANYTHING)
        lock(stream, how)

    monkeypatch.setattr(temp_files.fcntl, "flock", late)  # type: ignore[attr-defined]
    with temp_files.replace_file(tmp_path / "file") as stream:
        stream.write(b"whole")
    assert taken
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {"file": b"whole"}


def test_a_writer_stopped_before_it_has_its_lock_leaves_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stopped(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(temp_files.fcntl, "flock", stopped)  # type: ignore[attr-defined]
    with pytest.raises(KeyboardInterrupt), temp_files.replace_file(tmp_path / "file"):
        pass
    assert not list(tmp_path.iterdir())


def test_a_run_removes_the_temporary_files_of_a_killed_one_from_its_checkpoint_directory(
    writer: Any, tmp_path: Path
) -> None:
    CheckpointStore(str(tmp_path), IDENTITY, None).save(State({}, {}), Position(1, 1))
    whole = sorted(path.name for path in tmp_path.iterdir())
    for name in ("checkpoint-000002.pt", "checkpoint-000002.json", "best.json", ".probe"):
        end(writer(tmp_path / name))
    (tmp_path / ".probe").touch()
    end(writer(tmp_path / "notes.txt"))
    writer(tmp_path / "checkpoint-000003.pt")
    newest = store.find_newest(str(tmp_path), IDENTITY)
    assert newest is not None
    CheckpointStore(str(tmp_path), IDENTITY, newest[0])
    left = sorted(
        path.name for path in tmp_path.iterdir() if not path.name.startswith((".notes", ".checkpoint-000003"))
    )
    assert left == whole
    assert len(temporaries(tmp_path)) == 2


def test_making_shards_again_removes_the_temporary_files_of_a_killed_process(writer: Any, tmp_path: Path) -> None:
    source = sources.shapes(20, 4, 32, seed=1)
    for name in ("shapes-train-000001.tar", "manifest.unfinished.json", "manifest.json", "else-train-000001.tar"):
        end(writer(tmp_path / name))
    command.make(source, str(tmp_path), samples_per_shard=10, repeat={}, seed=1)
    assert [name.split(".")[1] for name in temporaries(tmp_path)] == ["else-train-000001"]


def test_a_probe_of_a_killed_run_in_a_bucket_is_removed_by_the_next_start(object_store: str, tmp_path: Path) -> None:
    where = f"gs://trainer-test/{tmp_path.name}"
    objects.write(f"{where}/.probe", b"")
    CheckpointStore(where, IDENTITY, None)
    assert objects.list_names(where) == []
