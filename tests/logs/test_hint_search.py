from __future__ import annotations

import numpy as np
import numpy.typing as npt
from hypothesis import given
from hypothesis import strategies as st

from tui.logs.hint_search import HintFinder

STRINGS = st.lists(st.text("ab: =[", min_size=1, max_size=7).map(str.encode), min_size=1, max_size=6)
LINES = st.lists(st.text("ab: =[x", max_size=12).map(str.encode), max_size=12)


def _joined(lines: list[bytes]) -> tuple[bytes, npt.NDArray[np.int64]]:
    return b"".join(line + b"\n" for line in lines), np.cumsum([len(line) + 1 for line in lines], dtype=np.int64)


def test_a_hint_for_the_end_of_a_line_does_not_count_before_another_word() -> None:
    lines = [b"a step 5", b"step 5 of it", b"step 5/9 ==", b"step 5\rmore", b"step ", b"step 5_"]
    assert HintFinder([b"more"], [b"step "]).lines_with(*_joined(lines)).tolist() == [0, 2, 3, 4]


@given(STRINGS, LINES)
def test_lines_that_contain_a_string_are_found_and_no_others(strings: list[bytes], lines: list[bytes]) -> None:
    joined, ends = _joined(lines)
    expected = [place for place, line in enumerate(lines) if any(string in line for string in strings)]
    assert HintFinder(strings).lines_with(joined, ends).tolist() == expected


def test_escapes_count_and_lone_escape_characters_do_not() -> None:
    lines = [b"\x1b[31mred", b"\x1b\x00 binary", b"a\x1b", b"\x1b]0;title\x07", b"plain"]
    assert HintFinder([b"zzzz"]).lines_with(*_joined(lines)).tolist() == [0, 3]
