"""How fast a line says that a job goes: so many examples a second, or steps, or how long a step takes."""

from __future__ import annotations

from collections.abc import Mapping

from tui.logs.dialect import SUFFIXES

_STEPS = rb"(?:step|it(?:er(?:ation)?)?|batch(?:es)?|update)"
_TIME = rb"\d{1,9}(?:\.\d{1,9})?"

_A_STEP = rb"s(?:ec(?:ond)?s?)?(?:/| per )" + _STEPS + rb"(?!\w)"

PACE = (
    rb"(?<![\w.,/])(?:(?P<pace>" + _TIME + rb") ?(?P<milli>m)?" + _A_STEP
    + rb"|(?P<named_milli>m)?" + _A_STEP + rb"[ :=]{1,8}(?P<named_pace>" + _TIME + rb")(?!\w))"
)  # fmt: skip
"""How long a step takes, by the unit behind it or before: `131.2 ms/step`, `0.158 sec/batch`, `ms/batch 5.4`."""

BAR_RATE = (
    rb"(?=(?:[^\]\n,]{0,40}, {0,4}(?:(?P<its>" + _TIME + rb"[kM]?) ?[a-z]{2,12}/s"
    rb"|(?P<pace>" + _TIME + rb") ?s/[a-z]{2,12})[,\]])?)"
)  # fmt: skip
"""What tqdm tells behind its clock, right after its bracket: `[00:17<01:02, 4.47s/it]`."""

GROUPS = ("its", "pace", "milli", "named_pace", "named_milli")
"""Groups out of which a rate is made where a line tells none."""


def rate_of(told: Mapping[str, bytes]) -> float | None:
    """What a line tells as its rate: in its own unit, else steps a second; None where it tells none."""
    if "rate" in told:
        return number(told["rate"])
    if "its" in told:
        return number(told["its"])
    pace = float(told.get("pace") or told.get("named_pace") or 0.0)
    if not pace:
        return None
    return (1000.0 if "milli" in told or "named_milli" in told else 1.0) / pace


def number(text: bytes) -> float:
    """The number that a text tells, thousands' commas and `k` included."""
    if text[-1:] in SUFFIXES:
        return float(text[:-1]) * SUFFIXES[text[-1:]]
    return float(text.replace(b",", b""))
