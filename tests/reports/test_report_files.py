"""Tests of the files that reports are written to: their names, and what they replace."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.reports.test_reports import failed_run
from tui.errors import UsageError
from tui.logs.demux import Demux
from tui.reports.summary import RunFacts, summarize
from tui.reports.write import WRITERS, source_of_file, stem_of, uploaded_name, write_report

FORMATS = sorted(WRITERS)


class TestFiles:
    def test_are_written_privately_by_format(self, tmp_path: Path) -> None:
        paths = write_report(failed_run(), ["md", "json", "md"], tmp_path / "out")
        assert [path.name for path in paths] == ["report.md", "report.json"]
        assert {path.stat().st_mode & 0o777 for path in paths} == {0o600}
        assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["report.json", "report.md"]

    def test_an_unknown_format_is_refused(self, tmp_path: Path) -> None:
        with pytest.raises(UsageError, match="no such report format: pdf"):
            write_report(failed_run(), ["pdf"], tmp_path)

    def test_a_place_that_cannot_be_written_is_reported(self, tmp_path: Path) -> None:
        (tmp_path / "file").write_text("")
        with pytest.raises(UsageError, match=r"cannot write .*file/report.md: .*file is not a directory"):
            write_report(failed_run(), ["md"], tmp_path / "file")

    def test_a_file_that_cannot_be_put_in_place_is_not_left_behind(self, tmp_path: Path) -> None:
        (tmp_path / "report.md").mkdir()
        with pytest.raises(UsageError, match="cannot write") as error:
            write_report(failed_run(), ["md"], tmp_path)
        assert "--out DIR" in error.value.remedy
        assert [path.name for path in tmp_path.iterdir()] == ["report.md"]


class TestPlaces:
    """Tests of reports outside the run's directory: they have the run's name and replace nothing of another run."""

    def test_csv_is_two_tables(self, tmp_path: Path) -> None:
        assert [path.name for path in write_report(failed_run(), ["csv"], tmp_path)] == ["cores.csv", "curves.csv"]
        names = ["demo-1.cores.csv", "demo-1.curves.csv", "demo-1.md"]
        assert [path.name for path in write_report(failed_run(), ["csv", "md"], tmp_path, stem="demo-1")] == names

    def test_a_file_has_the_runs_name_in_a_bucket_regardless_of_its_local_name(self, tmp_path: Path) -> None:
        own = write_report(failed_run(), FORMATS, tmp_path / "own")
        named = write_report(failed_run(), FORMATS, tmp_path / "out", stem="demo-1")
        assert [uploaded_name(path.name, "demo-1") for path in own] == [path.name for path in named]
        assert [uploaded_name(path.name, "demo-1") for path in named] == [path.name for path in named]

    def test_the_report_of_the_same_run_is_replaced(self, tmp_path: Path) -> None:
        for state in ("failed", "stopped"):
            paths = write_report(failed_run(state=state), FORMATS, tmp_path, stem="demo-1")
        assert "stopped" in (tmp_path / "demo-1.json").read_text()
        assert sorted(tmp_path.iterdir()) == sorted(paths)

    @pytest.mark.parametrize("name", FORMATS)
    def test_another_runs_report_is_replaced_by_force_only(self, name: str, tmp_path: Path) -> None:
        paths = write_report(failed_run(source="out.log:aaaa"), [name], tmp_path, stem="out.log")
        before = [path.read_bytes() for path in paths]
        with pytest.raises(UsageError, match=r"refusing to replace .*: it is a report of out\.log:aaaa") as error:
            write_report(failed_run(source="out.log:bbbb"), [name], tmp_path, stem="out.log")
        assert "--force" in error.value.remedy
        assert [path.read_bytes() for path in paths] == before
        write_report(failed_run(source="out.log:bbbb"), [name], tmp_path, stem="out.log", force=True)
        assert all(source_of_file(path) == "out.log:bbbb" for path in paths)

    @pytest.mark.py310
    @pytest.mark.parametrize("name", FORMATS)
    def test_a_file_that_is_no_report_is_not_replaced(self, name: str, tmp_path: Path) -> None:
        place = write_report(failed_run(), [name], tmp_path, stem="demo-1")[-1].name
        for path in tmp_path.iterdir():
            path.unlink()
        (tmp_path / place).write_text("my own notes\0\nof that run\n")
        with pytest.raises(UsageError, match="it is not a report of this run or log"):
            write_report(failed_run(), ["html", name], tmp_path, stem="demo-1")
        assert [path.name for path in tmp_path.iterdir()] == [place], "nothing is written unless every file can be"

    def test_tables_without_rows_and_empty_files_are_replaced(self, tmp_path: Path) -> None:
        empty = summarize(RunFacts("demo-1", state="lost"), Demux().snapshot())
        write_report(empty, ["csv"], tmp_path, stem="demo-1")
        (tmp_path / "demo-1.md").touch()
        write_report(failed_run(), ["csv", "md"], tmp_path, stem="demo-1")
        assert len((tmp_path / "demo-1.cores.csv").read_text().splitlines()) == 4

    @pytest.mark.parametrize(
        ("title", "stem"), [("demo-1", "demo-1"), ("my log.txt", "my-log.txt"), ("../..", "report"), ("=x|y", "x-y")]
    )
    def test_a_file_is_named_after_its_run_or_log(self, title: str, stem: str) -> None:
        assert stem_of(title) == stem
