import pytest
from hypothesis import given
from hypothesis import strategies as st

from tui.errors import UsageError
from tui.text.ranks import format_ranks, parse_ranks


@given(st.sets(st.integers(0, 99), min_size=1))
def test_formatted_ranks_are_parsed_back(ranks: set[int]) -> None:
    assert parse_ranks(format_ranks(ranks), 100) == tuple(sorted(ranks))


def test_ranges_singles_and_all_are_understood() -> None:
    assert parse_ranks("0-3,7", 8) == (0, 1, 2, 3, 7)
    assert parse_ranks("all", 3) == (0, 1, 2)
    assert format_ranks([7, 1, 0, 2]) == "0-2,7"


@pytest.mark.parametrize("text", ["", "x", "3-1", "0-8", "-1", "1,,2", "0-", "9" * 5000, "٣"])
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(UsageError):
        parse_ranks(text, 8)


def test_a_range_written_backwards_is_reported_with_the_right_one() -> None:
    with pytest.raises(UsageError, match="did you mean 1-3"):
        parse_ranks("3-1", 8)
