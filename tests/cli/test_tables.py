"""Columns of text: one line for each row where there is room, and no word lost on a narrow screen."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tui.commands.terminal.tables import INDENT, MIN_WRAPPED_WIDTH, fit_columns
from tui.text.columns import align_columns

NONE = frozenset[int]()
RUNS = [
    ["RUN", "STATE", "STARTED", "ATTENDED", "CAUSE"],
    ["night-20260101-000000-abcd", "failed", "2026-01-01 00:00:00Z", "", "worker 3 exited with 1; " * 4],
    ["day-20260101-000000-abcd", "succeeded", "2026-01-01 00:00:00Z", "", "-"],
]


def test_columns_are_aligned_with_their_names_and_numbers_to_the_right() -> None:
    lines = list(align_columns([["NAME", "WORKERS"], ["pod", "4"], ["größer", "128"]], frozenset({1})))
    assert lines == ["NAME    WORKERS", "pod           4", "größer      128"]


def test_rows_that_fit_take_one_line_each() -> None:
    assert list(fit_columns(RUNS, NONE, 200)) == list(align_columns(RUNS, NONE))


def test_an_empty_column_is_left_out_before_any_text_is_wrapped() -> None:
    lines = list(fit_columns([["A", "B", "C"], ["x" * 10, "-", "y"], ["x", "", "y"]], NONE, 14))
    assert lines == ["A           C", "xxxxxxxxxx  y", "x           y"]


def test_a_sentence_is_wrapped_within_its_column() -> None:
    lines = list(fit_columns([["cause", "one two three four five six seven"], ["state", "failed"]], NONE, 32))
    assert lines == ["cause  one two three four five", "       six seven", "state  failed"]


def test_columns_without_room_are_printed_below_and_ids_stay_whole() -> None:
    lines = list(fit_columns(RUNS, NONE, 60))
    assert max(map(len, lines)) <= 60
    assert lines[0] == "RUN                         STATE      STARTED"
    assert lines[1].startswith(" " * INDENT + "CAUSE")
    assert sum("night-20260101-000000-abcd" in line for line in lines) == 1


words = st.text(st.characters(categories=["L", "N"], max_codepoint=0x17F), min_size=1, max_size=MIN_WRAPPED_WIDTH)
cells = st.lists(words, max_size=8).map(" ".join)


@given(st.lists(st.tuples(cells, cells, cells), min_size=2, max_size=5), st.integers(MIN_WRAPPED_WIDTH + INDENT, 120))
def test_no_word_is_lost_and_no_line_is_too_long(rows: list[tuple[str, str, str]], room: int) -> None:
    lines = [["first", "second", "third"], *map(list, rows)]
    shown = list(fit_columns(lines, NONE, room))
    assert all(len(line) <= room for line in shown)
    printed = sorted(" ".join(shown).split())
    filled = [place for place in range(3) if any(line[place] for line in lines[1:])] or [0, 1, 2]
    assert printed == sorted(
        " ".join(line[place] for line in lines for place in filled).split()
    ) or printed == sorted(" ".join(" ".join(line) for line in lines).split())
