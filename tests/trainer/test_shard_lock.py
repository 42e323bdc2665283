"""Tests of the lock on a place for shards: a second process is refused, a killed one loses the lock."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from contextlib import ExitStack
from pathlib import Path

import pytest

webdataset = pytest.importorskip("webdataset", reason="the trainer's packages are not installed")

from tests.trainer.shard_sets import make, samples_of
from tests.trainer.storage_answers import losing_answers
from trainer.errors import TrainerError
from trainer.shards import (
    command,
    shard_lock,
    sources,
)
from trainer.shards.shard_lock import LOCK_NAME, hold_lock
from trainer.storage import objects

ROOT = Path(__file__).parents[2]
DEADLINE_S = 60.0
HOLDER = """
import sys, threading
from trainer.shards.shard_lock import hold_lock

with hold_lock(sys.argv[1]):
    print("held", flush=True)
    threading.Event().wait()
"""


def start_holder(out: str) -> subprocess.Popen[str]:
    """Start a process that holds the lock on the shards of a place."""
    process = subprocess.Popen([sys.executable, "-c", HOLDER, out], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    return process


@pytest.fixture
def no_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Do not wait for the end of a process that holds a lock."""
    monkeypatch.setattr(shard_lock, "HOLDER_END_TIMEOUT_S", 0.0)


@pytest.mark.usefixtures("no_patience")
def test_shards_are_not_made_where_a_living_process_makes_some_but_can_be_after_it_is_killed(tmp_path: Path) -> None:
    source = sources.shapes(8, 4, 16, seed=1)
    out = tmp_path / "out"
    with start_holder(str(out)) as other:
        try:
            refused = rf"Shards are already being made in .*/out: by process {other.pid} on "
            given = {"samples_per_shard": 4, "repeat": {}, "seed": 1}
            for overwrite in (False, True):
                with pytest.raises(TrainerError, match=refused):
                    command.make(source, str(out), overwrite=overwrite, **given)
            assert [path.name for path in out.iterdir()] == [LOCK_NAME]
        finally:
            other.kill()
    manifest = make(source, out, per_shard=4)
    assert len(samples_of(out, manifest, "train")) == 8
    assert not (out / LOCK_NAME).exists()


@pytest.mark.usefixtures("no_patience")
def test_of_many_threads_that_begin_at_once_one_holds_the_lock_at_a_time(tmp_path: Path) -> None:
    """Each release removes the lock file, which another thread may just have opened."""
    inside, most, refused, held = 0, 0, 0, 0
    counting = threading.Lock()

    def begin() -> None:
        nonlocal inside, most, refused, held
        for _ in range(100):
            try:
                with hold_lock(str(tmp_path)):
                    with counting:
                        inside, held = inside + 1, held + 1
                        most = max(most, inside)
                    with counting:
                        inside -= 1
            except TrainerError:  # noqa: PERF203
                with counting:
                    refused += 1

    threads = [threading.Thread(target=begin) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (most, held + refused) == (1, 800)
    assert held
    assert not list(tmp_path.iterdir())


def test_in_a_bucket_a_living_process_keeps_its_lock(object_store: str, tmp_path: Path) -> None:
    out = f"gs://trainer-test/{tmp_path.name}"
    with hold_lock(out) as held:
        refused = rf"Shards are already being made in {out}: by process {os.getpid()} on .* gcloud storage rm {out}/"
        with pytest.raises(TrainerError, match=refused), hold_lock(out):
            pass
        held()
    assert objects.list_names(out) == []


def test_in_a_bucket_a_killed_process_of_this_machine_loses_its_lock(object_store: str, tmp_path: Path) -> None:
    out = f"gs://trainer-test/{tmp_path.name}"
    with start_holder(out) as other:
        other.kill()
    assert objects.list_names(out) == [LOCK_NAME]
    with hold_lock(out) as held:
        held()
    assert objects.list_names(out) == []


def test_in_a_bucket_a_process_of_another_machine_keeps_its_lock_until_a_user_removes_it(
    object_store: str, tmp_path: Path
) -> None:
    out = f"gs://trainer-test/{tmp_path.name}"
    objects.write(f"{out}/{LOCK_NAME}", b"process 1 on a-deleted-vm")
    with pytest.raises(TrainerError, match="by process 1 on a-deleted-vm"), hold_lock(out):
        pass
    objects.delete(f"{out}/{LOCK_NAME}")
    with hold_lock(out) as held:
        held()


def test_in_a_bucket_a_frozen_process_detects_that_it_lost_its_lock(object_store: str, tmp_path: Path) -> None:
    out = f"gs://trainer-test/{tmp_path.name}"
    with ExitStack() as frozen_one:
        frozen = frozen_one.enter_context(hold_lock(out))
        objects.delete(f"{out}/{LOCK_NAME}")
        with hold_lock(out) as other:
            with pytest.raises(TrainerError, match=f"Another process has taken over {out}"):
                frozen()
            frozen_one.close()
            other()
        assert objects.list_names(out) == []


def test_in_a_bucket_a_process_recognises_its_own_lock_after_a_lost_answer(
    object_store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second request finds the object that the first one made, whose answer was lost."""
    out = f"gs://trainer-test/{tmp_path.name}"
    with losing_answers(monkeypatch, object_store) as switches:
        switches.losing.set()
        threading.Thread(target=lambda: switches.lost.wait(DEADLINE_S) and switches.losing.clear()).start()
        with hold_lock(out) as held:
            held()
        assert switches.lost.is_set()


def test_of_two_processes_that_find_a_dead_holder_one_takes_over_its_lock(
    object_store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = f"gs://trainer-test/{tmp_path.name}"
    with start_holder(out) as dead:
        dead.kill()
    both = threading.Barrier(2)
    has_ended = shard_lock._has_ended
    monkeypatch.setattr(shard_lock, "_has_ended", lambda holder: both.wait(DEADLINE_S) >= 0 and has_ended(holder))
    outcomes: list[str] = []

    def begin() -> None:
        try:
            with hold_lock(out) as held:
                both.wait(DEADLINE_S)
                held()
                outcomes.append("made")
        except TrainerError as error:
            both.wait(DEADLINE_S)
            outcomes.append(error.what)

    threads = [threading.Thread(target=begin) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(outcomes) == [f"Shards are already being made in {out}", "made"]
