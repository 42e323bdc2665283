"""Names of runs: letters that every path, shell and terminal can show, because a run's ID names files."""

from __future__ import annotations

import re
import unicodedata

from tui.errors import UsageError
from tui.text.printable import one_line

_LONGEST = 100
"""Most characters of a name in an ID."""
_SHOWN = 40
"""Most characters of a name in a message."""
_UNFIT = re.compile(r"[^A-Za-z0-9._-]+")
_UNREPRESENTABLE = re.compile(r"(?![A-Za-z0-9_])[\w\ud800-\udfff]")
"""Letters without a counterpart in ASCII, and bytes that are not text."""
_LIGATURES = str.maketrans(
    {"ß": "ss", "æ": "ae", "Æ": "AE", "œ": "oe", "Œ": "OE", "ø": "o", "Ø": "O", "þ": "th", "Þ": "Th"}
    | {"ł": "l", "Ł": "L", "đ": "d", "Đ": "D", "ð": "d", "Ð": "D", "ħ": "h", "Ħ": "H", "ı": "i", "ẞ": "SS"}
)
"""Latin letters that Unicode does not decompose into a letter and a mark."""


def readable_name(name: str) -> str:
    """Return the name in the form that a run's ID allows: `größe 2` becomes `grosse-2`.

    Raises UsageError where a letter would be lost (e.g. of another script), or nothing would be left.
    """
    plain = unicodedata.normalize("NFKD", name.translate(_LIGATURES))
    lost = "".join(dict.fromkeys(filter(_UNREPRESENTABLE.match, plain)))
    if lost:
        raise _refusal_error(name, f"its ID cannot contain {_shorten(lost)}")
    unmarked = "".join(letter for letter in plain if not unicodedata.combining(letter))
    fit = safe_name(unmarked)
    if not fit:
        raise _refusal_error(name, "it has no letter or digit")
    return fit


def safe_name(name: str) -> str:
    """Return the name with `-` for what an ID cannot contain, shortened; it may be empty."""
    return _UNFIT.sub("-", name)[:_LONGEST].strip("-.")


def _refusal_error(name: str, why: str) -> UsageError:
    remedy = "use Latin letters, digits and . _ - in --name"
    return UsageError(f"a run cannot be called {_shorten(name)!r}", why=why, remedy=remedy)


def _shorten(text: str) -> str:
    shown = one_line(text)
    return shown if len(shown) <= _SHOWN else f"{shown[:_SHOWN]}…"
