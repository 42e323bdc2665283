from __future__ import annotations

from dataclasses import replace

import pytest

from tui.console.screens.run_layout import (
    EDGE_ROWS,
    FRAME_ROWS,
    MAX_FEW_CORES,
    MIN_CHART_ROWS,
    MIN_LOG_ROWS,
    LayoutInputs,
    PaneHeights,
    divide_height,
    get_upper_room,
    has_room_for_logs,
    reserve_rows,
)

SCREEN = LayoutInputs(rows=4, room=33, started=True, one_at_a_time=False, stacked=False, charts_in_front=False)


def test_few_cores_are_above_the_charts() -> None:
    assert divide_height(SCREEN) == PaneHeights(True, 4 + FRAME_ROWS + 11, 4 + FRAME_ROWS)


@pytest.mark.parametrize("change", [{"rows": MAX_FEW_CORES + 1}, {"room": 4 + FRAME_ROWS + MIN_CHART_ROWS - 1}])
def test_many_cores_and_little_room_put_them_next_to_the_charts(change: dict[str, int]) -> None:
    found = divide_height(replace(SCREEN, **change))  # type: ignore[arg-type]
    assert (found.few, found.cores) == (False, None)


def test_the_upper_half_is_never_higher_than_its_room_nor_than_what_it_shows() -> None:
    many = replace(SCREEN, rows=500)
    assert divide_height(many).upper == many.room
    assert divide_height(replace(SCREEN, started=False)).upper == 4 + FRAME_ROWS
    assert divide_height(replace(SCREEN, stacked=True)).upper == 4 + FRAME_ROWS
    assert divide_height(replace(SCREEN, stacked=True, charts_in_front=True)).upper == 2 * MIN_CHART_ROWS


def test_a_pane_shown_alone_takes_the_whole_height() -> None:
    assert divide_height(replace(SCREEN, one_at_a_time=True)) == PaneHeights(False, None, None)


def test_the_logs_keep_two_fifths_of_what_the_headline_leaves() -> None:
    assert get_upper_room(60, 5) == 33
    assert get_upper_room(3, 5) == FRAME_ROWS + 1


def test_a_log_is_shown_below_a_table_that_leaves_it_some_lines() -> None:
    assert has_room_for_logs(24 - EDGE_ROWS - FRAME_ROWS - MIN_LOG_ROWS, 24)
    assert not has_room_for_logs(25 - EDGE_ROWS - FRAME_ROWS - MIN_LOG_ROWS, 24)
    assert has_room_for_logs(MAX_FEW_CORES + reserve_rows(1), 24)


def test_the_room_for_a_problem_changes_only_with_a_long_one() -> None:
    assert [reserve_rows(rows) for rows in (0, 1, 2, 3, 4)] == [0, 3, 3, 3, 4]
