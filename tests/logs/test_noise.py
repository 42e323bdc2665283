from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tui.logs.noise import Signs

STRINGS = st.lists(st.text("ab: =[", min_size=1, max_size=7).map(str.encode), min_size=1, max_size=6)
LINES = st.lists(st.text("ab: =[x", max_size=12).map(str.encode), max_size=12)


@given(STRINGS, LINES)
def test_lines_that_hold_a_string_are_found_and_no_others(strings: list[bytes], lines: list[bytes]) -> None:
    joined = b"".join(line + b"\n" for line in lines)
    ends = np.cumsum([len(line) + 1 for line in lines], dtype=np.int64)
    expected = [place for place, line in enumerate(lines) if any(string in line for string in strings)]
    assert Signs(strings).lines_with(joined, ends).tolist() == expected
