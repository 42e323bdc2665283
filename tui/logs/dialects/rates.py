"""Parse rates: examples, tokens or steps per second, or the time of a step."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache

from tui.logs.dialects.dialect import SUFFIXES
from tui.logs.state.rate_kinds import RateKind

GROUPS = ("its", "pace", "milli", "micro", "each", "named_pace", "named_milli", "unit", "counted", "counts")
"""Groups from which a rate is computed if a line prints none, and groups that say what it counts."""

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
"""What a rate counts, by its name or the unit beside it; PyTorch/XLA's `rate` counts examples."""

_A_DEVICE = re.compile(rb"(?<![a-z])(?:chip|device|core|[gt]pu)(?![a-z])")
_OF_ALL = re.compile(rb"(?<![a-z])(?:global|total|overall|aggregate)(?![a-z])")
_NARROWED = {
    (RateKind.EXAMPLES, True, False): RateKind.EXAMPLES_A_DEVICE,
    (RateKind.TOKENS, True, False): RateKind.TOKENS_A_DEVICE,
    (RateKind.EXAMPLES, False, True): RateKind.EXAMPLES_OF_ALL,
    (RateKind.TOKENS, False, True): RateKind.TOKENS_OF_ALL,
}
"""The kind of a rate that is named as one device's, or as the whole job's."""


def kind_of(values: Mapping[str, bytes], dialect: RateKind) -> RateKind:
    """Return what the rate of a line counts, for one core or all: by its dialect, else by the words beside it.

    The time of a step counts steps, and so does a progress bar with an unknown unit.
    """
    if "rate" in values:
        # In a line with a progress bar, these words are the bar's.
        names = () if values.keys() & {"its", "pace"} else ("unit", "counted", "counts")
        return dialect or _kind_named(b" ".join(values[name] for name in names if name in values))
    if "its" in values or "pace" in values or "named_pace" in values:
        counted = next((values[name] for name in ("counted", "counts", "each") if name in values), b"")
        return _kind_named(counted) or RateKind.STEPS
    return RateKind.UNKNOWN


@lru_cache(maxsize=1024)
def _kind_named(words: bytes) -> RateKind:
    """Return the kind of rate that these words name; UNKNOWN if they do not say what it counts."""
    plain = words.lower().replace(b"_", b" ")
    kind = next((kind for pattern, kind in _WORDS_OF_KINDS if pattern.search(plain)), RateKind.UNKNOWN)
    return _NARROWED.get((kind, bool(_A_DEVICE.search(plain)), bool(_OF_ALL.search(plain))), kind)


def rate_of(values: Mapping[str, bytes]) -> float | None:
    """Return the rate of a line, in the printed unit or else in steps per second; None without a rate."""
    if "rate" in values:
        return number(values["rate"])
    if "its" in values:
        return number(values["its"])
    pace = float(values.get("pace") or values.get("named_pace") or 0.0)
    if not pace:
        return None
    if "micro" in values:
        return 1e6 / pace
    return (1000.0 if "milli" in values or "named_milli" in values else 1.0) / pace


def number(text: bytes) -> float:
    """Parse a number, with commas between thousands and suffixes such as `k`."""
    if text[-1:] in SUFFIXES:
        return float(text[:-1]) * SUFFIXES[text[-1:]]
    return float(text.replace(b",", b""))
