"""The runs of a home, and what a person may call them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tui.errors import TpuTuiError, UsageError
from tui.pod.run import Run
from tui.pod.worker import Worker
from tui.runs.directory import RunDirectory
from tui.runs.home import list_runs, resolve

RUN = Run(id="pod-20261121-101500-00aa", slice="pod", argv=("true",), workers=(Worker(0),))


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "runs"


def named(home: Path, *names: str) -> None:
    for name in names:
        RunDirectory.create(home, replace(RUN, id=name))


def test_runs_are_listed_newest_first_and_broken_ones_told(home: Path) -> None:
    named(home, "b-20261120-101500-0001", "a-20261121-101500-0001")
    (home / "broken-20261121-101500-0009").mkdir()
    (home / "broken-20261121-101500-0009" / "run.json").write_text("{")
    problems: list[TpuTuiError] = []
    assert [found.id for found in list_runs(home, problems)] == ["a-20261121-101500-0001", "b-20261120-101500-0001"]
    assert len(problems) == 1
    assert list_runs(home / "nowhere") == []


def test_a_run_is_found_by_id_part_last_and_path(home: Path) -> None:
    named(home, "alpha-20261120-101500-0001", "beta-20261121-101500-0002")
    assert resolve(home, "alpha-20261120-101500-0001").id.startswith("alpha")
    assert resolve(home, "bet").id.startswith("beta")
    assert resolve(home, "last").id.startswith("beta")
    assert resolve(home / "elsewhere", str(home / "alpha-20261120-101500-0001")).id.startswith("alpha")


def test_the_last_run_is_found_without_reading_the_others(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    named(home, *(f"beta-20261121-1015{second:02d}-0002" for second in range(10)))
    for name, moment in (("one", "2026-11-22T10:15:00Z"), ("two", "2026-11-22T10:14:59Z")):
        RunDirectory.create(home, replace(RUN, id=f"{name}-20261122-101500-0001", created=moment))
    (home / "broken-20261123-101500-0009").mkdir()
    opened: list[str] = []
    real = RunDirectory.open
    monkeypatch.setattr(RunDirectory, "open", lambda path: (opened.append(path.name), real(path))[1])
    assert resolve(home, "last").id == "one-20261122-101500-0001"
    assert {name.partition("-")[0] for name in opened} == {"broken", "one", "two"}


def test_an_ambiguous_part_names_the_candidates(home: Path) -> None:
    named(home, "alpha-20261120-101500-0001", "alpha-20261121-101500-0002")
    with pytest.raises(UsageError) as caught:
        resolve(home, "alpha")
    assert "alpha-20261120-101500-0001" in caught.value.remedy
    assert "alpha-20261121-101500-0002" in caught.value.remedy


@pytest.mark.parametrize("text", ["nothing", "", "/nowhere/at/all"])
def test_an_unknown_run_is_a_usage_error_that_says_what_there_is(home: Path, text: str) -> None:
    named(home, "alpha-20261120-101500-0001")
    with pytest.raises(UsageError, match="no run") as caught:
        resolve(home, text)
    assert "alpha" in caught.value.remedy


@pytest.mark.parametrize("text", ["alhpa", "alpha-20261120-101500-0003"])
def test_a_run_that_looks_like_it_is_suggested(home: Path, text: str) -> None:
    named(home, "alpha-20261120-101500-0001", "night-20261120-101500-0002")
    with pytest.raises(UsageError) as caught:
        resolve(home, text)
    assert caught.value.remedy == "did you mean alpha-20261120-101500-0001?"


def test_no_last_run_is_said(home: Path) -> None:
    with pytest.raises(UsageError, match="no last run"):
        resolve(home, "last")
