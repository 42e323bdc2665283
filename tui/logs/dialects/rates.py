"""How fast a line says that a job goes: so many examples a second, or steps, or how long a step takes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache

from tui.logs.dialects.dialect import SUFFIXES
from tui.logs.state.rate_kinds import RateKind

GROUPS = ("its", "pace", "milli", "named_pace", "named_milli", "unit", "counted", "counts")
"""Groups out of which a rate is made where a line tells none, and those that say what it counts."""

_WORDS_OF_KINDS = (
    (re.compile(rb"tok|word|^[tw]ps"), RateKind.TOKENS),
    (re.compile(rb"(?<![a-z])(?:it(?:er(?:ation)?)?s?|steps?|batch(?:es)?|updates?)(?![a-z])"), RateKind.STEPS),
    (
        re.compile(
            rb"(?<![a-z])(?:samples?|examples?|ex|im(?:a)?g(?:e)?s?|frames?|seq(?:uence)?s?|records?|sent(?:ence)?s?"
            rb"|im?ps|fps|rate)(?![a-z])"
        ),
        RateKind.EXAMPLES,
    ),
)
"""What a rate counts by its name, or by the unit beside it; `rate` alone is PyTorch/XLA's own, of examples."""

_A_DEVICE = re.compile(rb"(?<![a-z])(?:chip|device|core|[gt]pu)(?![a-z])")
_OF_ALL = re.compile(rb"(?<![a-z])(?:global|total|overall|aggregate)(?![a-z])")
_LESS = {
    (RateKind.EXAMPLES, True, False): RateKind.EXAMPLES_A_DEVICE,
    (RateKind.TOKENS, True, False): RateKind.TOKENS_A_DEVICE,
    (RateKind.EXAMPLES, False, True): RateKind.EXAMPLES_OF_ALL,
    (RateKind.TOKENS, False, True): RateKind.TOKENS_OF_ALL,
}
"""What is told of one device, and of all together."""


def kind_of(told: Mapping[str, bytes], dialect: RateKind = RateKind.UNKNOWN) -> RateKind:
    """What the rate of a line counts, and whose it is: as its dialect says, else by the words beside it.

    The time that a step takes, and what a progress bar counts in a unit that is nothing known, are steps.
    """
    if "rate" in told:
        # Beside a progress bar's own rate those words are the bar's.
        names = () if told.keys() & {"its", "pace"} else ("unit", "counted", "counts")
        return dialect or _kind_named(b" ".join(told[name] for name in names if name in told))
    if "its" in told or "pace" in told or "named_pace" in told:
        return _kind_named(told.get("counted") or told.get("counts") or b"") or RateKind.STEPS
    return RateKind.UNKNOWN


@lru_cache(maxsize=1024)
def _kind_named(words: bytes) -> RateKind:
    """The kind of a rate that these words name; unknown where they do not say what it counts."""
    plain = words.lower().replace(b"_", b" ")
    kind = next((kind for pattern, kind in _WORDS_OF_KINDS if pattern.search(plain)), RateKind.UNKNOWN)
    return _LESS.get((kind, bool(_A_DEVICE.search(plain)), bool(_OF_ALL.search(plain))), kind)


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
