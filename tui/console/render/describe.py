"""The JSON of slices, runs and cores as indented text for people. Pure functions."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tui.logs.core_row import json_number
from tui.text.numbers import round_figure

if TYPE_CHECKING:
    from tui.logs.core_row import CoreRow

MAX_LIST_WIDTH = 100
"""Characters of a list of plain values that stand on one line."""
STEP = "  "
COMMANDS = frozenset({"argv"})
"""Names of lists that are a command's words: shown as one would type them."""

_MOMENT = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.\d+)?(Z|[+-]\d\d:\d\d)")


def format_document(value: Mapping[str, Any]) -> str:
    """Return one line per name and value; nested values are indented, `–` is unknown."""
    return "\n".join(_lines_of(value))


def describe_core(core: CoreRow) -> str:
    """Return everything known of a core in words; since when its loss is not a number only if that is so."""
    fields: dict[str, object] = {
        "core": core.core,
        "worker": core.worker,
        "address": core.address,
        "device": core.device,
        "state": core.state,
        "epoch": core.epoch,
        "step": core.step,
        "steps behind the median": core.lag,
        "loss": json_number(core.loss),
        "rate": _with_unit(core.rate, core.rate_unit),
        "global rate": _with_unit(core.global_rate, core.rate_unit),
        "pace": None if core.pace is None else f"{core.pace * 100:.0f} % of the median core's",
        "last sample": core.time,
        "clock in the log": core.clock,
    }
    if core.first_nan is not None:
        fields["loss is not a number since"] = core.first_nan.to_json()
    return format_document(fields)


def _with_unit(rate: float | None, unit: str | None) -> str | None:
    return None if rate is None else " ".join(filter(None, (str(round_figure(rate)), unit)))


def _lines_of(value: Mapping[str, Any]) -> Iterator[str]:
    for name, item in value.items():
        if isinstance(item, str) and "\n" in item:
            yield f"{name}:"
            yield from (STEP + line for line in item.splitlines())
        elif (line := _on_one_line(name, item)) is not None:
            yield f"{name}: {line}"
        else:
            yield f"{name}:"
            yield from (STEP + line for line in _format_nested(item))


def _format_nested(value: Any) -> Iterator[str]:
    if isinstance(value, Mapping):
        yield from _lines_of(value)
        return
    for item in value:
        lines = list(_lines_of(item)) if isinstance(item, Mapping) else [_word(item)]
        yield from (("- " if not number else STEP) + line for number, line in enumerate(lines))


def _on_one_line(name: str, value: Any) -> str | None:
    """Return the value as one line; None if it takes several."""
    if isinstance(value, Mapping):
        return None if value else "none"
    if not isinstance(value, Sequence) or isinstance(value, str):
        return _word(value)
    if name in COMMANDS:
        return shlex.join(map(str, value))
    text = ", ".join(map(_word, value)) or "none"
    plain = not any(isinstance(item, (Mapping, list, tuple)) for item in value)
    return text if plain and len(text) <= MAX_LIST_WIDTH else None


def _word(value: Any) -> str:
    if value is None or value == "":
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return str(round_figure(value))
    if isinstance(value, str) and (moment := _MOMENT.fullmatch(value)):
        return moment[1] + moment[2].replace("+00:00", "Z")
    return str(value)
