from __future__ import annotations

import pytest

from tui.console.widgets.log.log_wrapping import WrappedRow, cut_line, find_matches, find_severity, wrap_line


def marked(row: WrappedRow, text: str) -> str:
    shown = row.text
    for start, end in reversed(find_matches(row, text)):
        shown = f"{shown[:start]}<{shown[start:end]}>{shown[end:]}"
    return shown


@pytest.mark.parametrize(
    ("line", "text", "rows"),
    [
        ("abcde loss=nan xyz", "LOSS=nan", ["abcde <loss>", "<=nan> xyz"]),
        ("0123456789loss=nan", "loss", ["0123456789", "<loss>=nan"]),
        ("a" * 25, "a" * 25, ["<aaaaaaaaaa>", "<aaaaaaaaaa>", "<aaaaa>"]),
        ("損失=1 損失=2", "失=2", ["損失=1 損", "<失=2>"]),
        ("", "x", [""]),
    ],
    ids=["over an edge", "at an edge", "over three rows", "wide", "empty"],
)
def test_a_hit_is_marked_in_every_row_that_shows_a_part_of_it(line: str, text: str, rows: list[str]) -> None:
    assert [marked(row, text) for row in wrap_line(line, 0, 10)] == rows


def test_a_cut_line_marks_the_visible_part_of_a_hit() -> None:
    assert marked(cut_line("abcde loss=nan", 0, 10, 0)[0], "loss") == "abcde <los…>"
    assert marked(cut_line("abcde loss=nan", 0, 10, 8)[0], "loss").rstrip() == "<ss>=nan"


@pytest.mark.parametrize(
    ("line", "parts"),
    [
        ("2026-11-24 02:38:57 ERROR: no space left", ("log--error",)),
        ("Traceback (most recent call last):", ("log--error",)),
        ("FileNotFoundError: shard-00031.tar", ("log--error",)),
        ("| Training Device=xla:0/3 Epoch=1 Step=7 Loss=nan Rate=250.1", ("log--error",)),
        ("WARNING:root:slow input", ("log--warning",)),
        ("/x.py:3: UserWarning: deprecated", ("log--warning",)),
        ("| Training Device=xla:0/3 Epoch=1 Step=7 Loss=0.5 Rate=250.1", ()),
        ("epoch 3 error=0.25 ErrorRate=0.1 TERRORS WARNINGS", ()),
        ("", ()),
    ],
)
def test_lines_that_report_errors_and_warnings_have_a_style(line: str, parts: tuple[str, ...]) -> None:
    assert find_severity(line) == parts
