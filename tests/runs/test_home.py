"""The runs of a home, and the names by which a user may refer to them."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path

import pytest

from tui.errors import UsageError
from tui.pod.job_options import JobOptions
from tui.pod.run import Run
from tui.pod.worker import Worker
from tui.runs.deletion import delete_here, delete_unreadable
from tui.runs.record.damaged_record import NoRecordError
from tui.runs.record.directory_lock import DirectoryLock
from tui.runs.record.run_directory import RunDirectory
from tui.runs.record.run_index import list_runs, resolve

RUN = Run(id="pod-20261121-101500-00aa", slice="pod", job=JobOptions(("true",)), workers=(Worker(0),))


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "runs"


def create_runs(home: Path, *names: str) -> None:
    for name in names:
        RunDirectory.create(home, replace(RUN, id=name))


def test_runs_are_listed_newest_first_and_broken_ones_are_reported(home: Path) -> None:
    create_runs(home, "b-20261120-101500-0001", "a-20261121-101500-0001")
    (home / "broken-20261121-101500-0009").mkdir()
    (home / "broken-20261121-101500-0009" / "run.json").write_text("{")
    problems: list[NoRecordError] = []
    assert [found.id for found in list_runs(home, problems)] == ["a-20261121-101500-0001", "b-20261120-101500-0001"]
    assert len(problems) == 1
    assert list_runs(home / "nowhere") == []


def test_a_run_is_found_by_its_id_part_of_it_path_and_the_word_last(home: Path) -> None:
    create_runs(home, "alpha-20261120-101500-0001", "beta-20261121-101500-0002")
    assert resolve(home, "alpha-20261120-101500-0001").id.startswith("alpha")
    assert resolve(home, "bet").id.startswith("beta")
    assert resolve(home, "last").id.startswith("beta")
    assert resolve(home / "elsewhere", str(home / "alpha-20261120-101500-0001")).id.startswith("alpha")


def test_the_last_run_is_found_without_reading_the_others(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    create_runs(home, *(f"beta-20261121-1015{second:02d}-0002" for second in range(10)))
    for name, moment in (("one", "2026-11-22T10:15:00Z"), ("two", "2026-11-22T10:14:59Z")):
        RunDirectory.create(home, replace(RUN, id=f"{name}-20261122-101500-0001", created=moment))
    (home / "broken-20261123-101500-0009").mkdir()
    opened: list[str] = []
    real = RunDirectory.open
    monkeypatch.setattr(RunDirectory, "open", lambda path: (opened.append(path.name), real(path))[1])
    assert resolve(home, "last").id == "one-20261122-101500-0001"
    assert {name.partition("-")[0] for name in opened} == {"broken", "one", "two"}


def test_an_ambiguous_part_names_the_candidates(home: Path) -> None:
    create_runs(home, "alpha-20261120-101500-0001", "alpha-20261121-101500-0002")
    with pytest.raises(UsageError) as caught:
        resolve(home, "alpha")
    assert "alpha-20261120-101500-0001" in caught.value.remedy
    assert "alpha-20261121-101500-0002" in caught.value.remedy


@pytest.mark.parametrize("text", ["nothing", "", "/nowhere/at/all"])
def test_an_unknown_run_is_a_usage_error_that_lists_the_runs(home: Path, text: str) -> None:
    create_runs(home, "alpha-20261120-101500-0001")
    with pytest.raises(UsageError, match="no run") as caught:
        resolve(home, text)
    assert "alpha" in caught.value.remedy


@pytest.mark.parametrize("text", ["alhpa", "alpha-20261120-101500-0003"])
def test_a_run_with_a_similar_name_is_suggested(home: Path, text: str) -> None:
    create_runs(home, "alpha-20261120-101500-0001", "night-20261120-101500-0002")
    with pytest.raises(UsageError) as caught:
        resolve(home, text)
    assert caught.value.remedy == "did you mean alpha-20261120-101500-0001?"


def test_last_is_an_error_without_any_run(home: Path) -> None:
    with pytest.raises(UsageError, match="there is no run in"):
        resolve(home, "last")


def test_a_run_whose_directory_was_renamed_is_found_by_its_new_name_and_by_its_id(home: Path) -> None:
    create_runs(home, "alpha-20261120-101500-0001", "beta-20261121-101500-0002")
    (home / "alpha-20261120-101500-0001").rename(home / "kept")
    for text in ("kept", "alpha-20261120-101500-0001"):
        assert resolve(home, text).path == home / "kept"


def damaged(home: Path, record: bytes | None = b"{", state: str = "succeeded") -> NoRecordError:
    """Create a run in this state with a damaged or missing record; return the error of opening it."""
    path = RunDirectory.create(home, RUN).path
    RunDirectory(path, RUN).append_event("state", state=state)
    if record is None:
        (path / "run.json").unlink()
    else:
        (path / "run.json").write_bytes(record)
    with pytest.raises(NoRecordError) as caught:
        resolve(home, RUN.id)
    return caught.value


@pytest.mark.parametrize("record", [b"", b"{", b"[1, 2]", b'{"id": 5}', b"\xff", b"[" * 9999, None])
def test_a_damaged_record_is_deleted_by_the_name_of_its_directory(home: Path, record: bytes | None) -> None:
    delete_unreadable(damaged(home, record), home)
    assert list(home.iterdir()) == []


def test_a_damaged_record_of_a_run_that_may_be_alive_is_deleted_only_if_confirmed(home: Path) -> None:
    problem = damaged(home, state="running")
    with pytest.raises(UsageError, match="may still be running") as refused:
        delete_unreadable(problem, home)
    assert "--on here" in refused.value.remedy
    claim = DirectoryLock.take(RunDirectory(problem.path, RUN))
    assert claim is not None
    claim.sign()
    with pytest.raises(UsageError, match="keeper"):
        delete_unreadable(problem, home, anyway=True)
    claim.close()
    delete_unreadable(problem, home, anyway=True)
    assert list(home.iterdir()) == []


def test_a_directory_that_may_not_be_a_run_is_not_deleted(home: Path, tmp_path: Path) -> None:
    problem = damaged(home)
    with pytest.raises(NoRecordError):
        delete_unreadable(problem, tmp_path / "elsewhere", anyway=True)
    (home / RUN.id).rename(home / "precious")
    with pytest.raises(NoRecordError) as caught:
        resolve(home, "precious")
    with pytest.raises(NoRecordError):
        delete_unreadable(caught.value, home, anyway=True)
    assert (home / "precious" / "run.json").exists()


def test_a_run_that_another_process_deletes_at_the_same_time_counts_as_deleted(home: Path) -> None:
    directory = RunDirectory.create(home, RUN)
    directory.append_event("state", state="succeeded")
    again = RunDirectory.open(directory.path)
    claim = DirectoryLock.take(directory)
    assert claim is not None
    begun = threading.Event()
    other = threading.Thread(target=lambda: (begun.set(), delete_here(again)))
    other.start()
    begun.wait()
    directory.path.rename(home / f".deleted-{RUN.id}")
    claim.close()
    other.join()
    delete_here(directory)
    assert [path.name for path in home.iterdir()] == [f".deleted-{RUN.id}"]


def test_what_an_interrupted_deletion_left_is_removed_by_the_next_one(home: Path) -> None:
    for name in (RUN.id, "another-run"):
        (home / f".deleted-{name}").mkdir(parents=True)
        (home / f".deleted-{name}" / "worker-000.log").touch()
    directory = RunDirectory.create(home, RUN)
    directory.append_event("state", state="succeeded")
    delete_here(directory)
    assert list(home.iterdir()) == []


def test_deleting_a_link_to_a_run_deletes_the_link_and_its_target(home: Path, tmp_path: Path) -> None:
    create_runs(home, RUN.id)
    (home / RUN.id).rename(tmp_path / "bigger-disk")
    (home / RUN.id).symlink_to(tmp_path / "bigger-disk")
    directory = resolve(home, RUN.id)
    directory.append_event("state", state="succeeded")
    delete_here(directory)
    assert [*home.iterdir(), *tmp_path.iterdir()] == [home]


def test_a_run_that_lies_elsewhere_is_only_read_and_vouches_for_no_machine(home: Path, tmp_path: Path) -> None:
    workers = (Worker(0, host_keys=("ssh-ed25519 AAAA",)),)
    job = JobOptions(("true",), on_end=("command:true",))
    given = RunDirectory.create(tmp_path / "elsewhere", replace(RUN, workers=workers, job=job))
    found = resolve(home, str(given.path))
    assert found.foreign is not None
    assert found.foreign.why == f"it lies outside {home}"
    assert (found.run.workers[0].host_keys, found.run.job.on_end) == ((), ())
    for write in (
        lambda: found.append_event("note", text="x"),
        lambda: found.append_arrival(0, 1, 1.0),
        lambda: found.update_run(RUN),
        lambda: DirectoryLock.take(found),
    ):
        with pytest.raises(UsageError, match="is only read"):
            write()


def test_a_run_of_this_home_is_its_own_however_it_is_named(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    create_runs(home, RUN.id)
    RunDirectory.create(tmp_path / "disk", replace(RUN, id="moved-20261121-101500-00bb"))
    (home / "moved-20261121-101500-00bb").symlink_to(tmp_path / "disk" / "moved-20261121-101500-00bb")
    (tmp_path / "link").symlink_to(home)
    monkeypatch.chdir(home / RUN.id)
    for text in (RUN.id, str(home / RUN.id), str(tmp_path / "link" / RUN.id), "."):
        assert resolve(home, text).foreign is None
    for text in ("moved", str(home / "moved-20261121-101500-00bb")):
        assert resolve(home, text).foreign is None
    assert resolve(tmp_path / "link", str(home / RUN.id)).foreign is None
