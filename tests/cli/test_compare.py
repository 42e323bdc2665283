from __future__ import annotations

from pathlib import Path

from tests.cli.commands import Shell
from tests.logs.shapes import generated_log


def test_two_saved_logs_are_shown_side_by_side(shell: Shell, tmp_path: Path) -> None:
    (tmp_path / "one.log").write_bytes(generated_log(400, 8, workers=1))
    (tmp_path / "four.log").write_bytes(generated_log(1600, 32, workers=4))
    printed = shell.call("compare", str(tmp_path / "one.log"), str(tmp_path / "four.log"))
    assert printed.code == 0
    rows = {line.split("  ")[0].strip(): line.split() for line in printed.out.splitlines()}
    assert rows["run"][-2:] == ["one.log", "four.log"]
    assert rows["cores"][-2:] == ["8", "32"]
    document = shell.call("compare", str(tmp_path / "one.log"), str(tmp_path / "four.log"), "--json").document
    assert [one["run"] for one in document] == ["one.log", "four.log"]
    assert [one["workers"] for one in document] == [1, 4]


def test_comparing_a_single_log_is_refused(shell: Shell, tmp_path: Path) -> None:
    (tmp_path / "one.log").write_bytes(generated_log(40, 8))
    printed = shell.call("compare", str(tmp_path / "one.log"))
    assert (printed.code, printed.raw) == (2, b"")
    assert "at least two runs or logs" in printed.errors
