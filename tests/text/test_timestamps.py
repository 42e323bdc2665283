"""Times as tables and sentences show them."""

from __future__ import annotations

import pytest

from tui.text.timestamps import format_utc, to_utc

pytestmark = pytest.mark.py310


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("2026-01-31T18:00:00.250Z", "2026-01-31 18:00:00Z"),
        ("2026-01-31T18:00:00+02:00", "2026-01-31 16:00:00Z"),
        ("2026-01-31T18:00:00", "2026-01-31 18:00:00Z"),
        ("0001-01-01T00:00:00+02:00", "0001-01-01T00:00:00+02:00"),
        ("later", "later"),
        (None, None),
    ],
)
def test_a_time_is_shown_in_utc_and_to_the_second(text: str | None, shown: str | None) -> None:
    assert format_utc(text) == shown


@pytest.mark.parametrize(
    ("value", "converted"),
    [
        ("2026-01-31T18:00:00.250+02:00", "2026-01-31T16:00:00Z"),
        ("2026-01-31T18:00:00", "2026-01-31T18:00:00Z"),
        ("0001-01-01T00:00:00+02:00", None),
        ("later", None),
        (1769882400, None),
    ],
)
def test_a_time_is_converted_to_utc_unless_it_is_none(value: object, converted: str | None) -> None:
    assert to_utc(value) == converted
