"""Tests of durations in sentences, in cells and on clocks."""

from __future__ import annotations

import pytest

from tui.text.durations import format_clock, format_duration, format_elapsed


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"),
        (5, "5 s"),
        (1.54, "1.5 s"),
        (42.4, "42 s"),
        (90, "90 s"),
        (120, "2 min"),
        (1800, "30 min"),
        (7200, "2 h"),
        (200_000, "2 d"),
    ],
)
def test_a_sentence_names_one_unit(seconds: float, text: str) -> None:
    assert format_duration(seconds) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(None, "–"), (0.4, "0s"), (59, "59s"), (187, "3m07s"), (7500, "2h05m"), (273600, "3d04h"), (-3, "0s")],
)
def test_a_cell_names_two_units(seconds: float | None, text: str) -> None:
    assert format_elapsed(seconds) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(None, "–"), (0.0, "00:00:00"), (0.04, "0.1 s"), (0.4, "0.4 s"), (0.6, "0.6 s"), (90_123.0, "1 d 01:02:03")],
)
def test_a_clock_never_shows_a_short_duration_as_zero(seconds: float | None, text: str) -> None:
    assert format_clock(seconds) == text


def test_a_clock_and_a_cell_show_the_same_second() -> None:
    assert (format_clock(30.7), format_elapsed(30.7)) == ("00:00:30", "30s")
    assert format_clock(29.9999999) == "00:00:30"
