from __future__ import annotations

from dataclasses import replace

import pytest

from tui.console.screens.run_layout import (
    CHART_ROWS,
    EDGES,
    FRAME,
    LEAST_LOG,
    MOST_OF_FEW,
    Shape,
    Shares,
    leaves_room_for_logs,
    room_above,
    shares,
)

SCREEN = Shape(rows=4, room=33, started=True, one_at_a_time=False, stacked=False, charts_in_front=False)


def test_a_few_cores_stand_above_the_charts() -> None:
    assert shares(SCREEN) == Shares(True, 4 + FRAME + 11, 4 + FRAME)


@pytest.mark.parametrize("change", [{"rows": MOST_OF_FEW + 1}, {"room": 4 + FRAME + CHART_ROWS - 1}])
def test_many_cores_and_little_room_put_them_beside_the_charts(change: dict[str, int]) -> None:
    found = shares(replace(SCREEN, **change))  # type: ignore[arg-type]
    assert (found.few, found.cores) == (False, None)


def test_the_upper_half_is_never_higher_than_its_room_nor_than_what_it_shows() -> None:
    many = replace(SCREEN, rows=500)
    assert shares(many).upper == many.room
    assert shares(replace(SCREEN, started=False)).upper == 4 + FRAME
    assert shares(replace(SCREEN, stacked=True)).upper == 4 + FRAME
    assert shares(replace(SCREEN, stacked=True, charts_in_front=True)).upper == 2 * CHART_ROWS


def test_one_pane_at_a_time_takes_all_there_is() -> None:
    assert shares(replace(SCREEN, one_at_a_time=True)) == Shares(False, None, None)


def test_the_logs_keep_two_fifths_of_what_the_headline_leaves() -> None:
    assert room_above(60, 5) == 33
    assert room_above(3, 5) == FRAME + 1


def test_a_log_stands_beneath_a_table_that_leaves_it_some_lines() -> None:
    assert leaves_room_for_logs(24 - EDGES - FRAME - LEAST_LOG, 24)
    assert not leaves_room_for_logs(25 - EDGES - FRAME - LEAST_LOG, 24)
