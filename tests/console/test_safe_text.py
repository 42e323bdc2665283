from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from tui.console.render.safe_text import decode_line, decode_visible_line, escape_line, fit, fit_right, format_number


def test_escape_sequences_are_shown_as_text() -> None:
    assert decode_line(b"\x1b[31mred\x1b]0;title\x07\x9b1m") == "␛[31mred␛]0;title␇�1m"


def test_carriage_returns_and_tabs_do_not_move_the_cursor() -> None:
    assert escape_line("10%\r20%\ta") == "10%␍20% a"


@pytest.mark.parametrize(
    ("data", "seen"),
    [
        (b"  0%|  | 0/9\r 50%|# | 4/9\r100%|##| 9/9", "␍100%|##| 9/9"),
        (b"\r 50%\r        \r", " 50%"),
        (b"a line from Windows\r", "a line from Windows"),
        (b"\x1b[36m(worker1, rank=1)\x1b[0m \x1b[1;31mloss 2\x1b[K", "(worker1, rank=1) loss 2"),
        (b"\x1b[2J\x1b[?1049h\r\x1b]0;t\x07", "␍␛]0;t␇"),
    ],
)
def test_a_progress_bar_shows_its_newest_state_and_nothing_is_coloured(data: bytes, seen: str) -> None:
    assert decode_visible_line(data) == seen


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, "–"),
        (1.5, "1.50000"),
        (0.00003, "3e-05"),
        (1234.5678, "1234.57"),
        (123456.789, "123457"),
        (-1.234e9, "-1.23e+09"),
        (float("nan"), "nan"),
    ],
)
def test_a_figure_has_its_significant_digits_and_is_never_cut(value: float | None, expected: str) -> None:
    assert format_number(value, 5 if value != 1234.5678 else 2, 9) == expected


def test_bytes_that_are_no_text_are_shown_as_replacement_characters() -> None:
    assert decode_line(b"a\xff\x00b") == "a�␀b"


def test_markup_is_shown_as_text() -> None:
    assert escape_line("[/usr/lib] [bold]x[/]") == "[/usr/lib] [bold]x[/]"


@given(st.binary(max_size=300))
def test_no_control_character_remains(data: bytes) -> None:
    shown = decode_line(data)
    assert not [
        char for char in shown if ord(char) < 0x20 or 0x7F <= ord(char) < 0xA0 or char in "\u2028\u202e\u200b"
    ]
    shown.encode()


@given(st.text(max_size=60), st.integers(0, 40))
def test_a_fitted_text_takes_exactly_its_width(text: str, width: int) -> None:
    assert cell_len(fit(escape_line(text), width)) == width


def test_text_that_does_not_fit_ends_in_an_ellipsis() -> None:
    assert fit("abcdef", 4) == "abc…"
    assert fit_right("42", 5) == "   42"
    assert fit_right("1234567", 5) == "1234…"
