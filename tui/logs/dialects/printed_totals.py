"""Find the totals that lines print behind a step or an epoch: `Epoch 2/10, step 40 of 391`."""

from __future__ import annotations

import re
from collections.abc import Iterable

PRINTED_TOTALS = {"step": "printed_steps", "epoch": "printed_epochs"}
"""The name of the total behind each column that has one."""

_TOTAL = re.compile(
    rb"(?:(?:it|[\])])?\s{0,4}(?:/|\(?(?:out )?of )\s{0,12}[\[(]?|\|(?=\s{0,12}\d{1,12}\]))\s{0,12}"
    rb"(\d{1,3}(?:,\d{3}){1,3}|\d{1,12})(?:it)?(?![\w/]|[.,:]\d)"
)
"""Such as `/391`, `] / 10`, ` of 10` or `|1000]`."""


def find_printed_totals(text: bytes, spans: Iterable[tuple[str, int, int]]) -> tuple[tuple[str, int, int], ...]:
    """Return name, beginning and end of the totals behind the values whose names and positions are given."""
    return tuple(
        (PRINTED_TOTALS[name], *total.span(1))
        for name, _, end in spans
        if name in PRINTED_TOTALS and (total := _TOTAL.match(text, end))
    )
