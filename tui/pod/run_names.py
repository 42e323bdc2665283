"""What a run may be called: letters that a path, a shell and every terminal can show, for its id names files."""

from __future__ import annotations

import re
import unicodedata

from tui.errors import UsageError
from tui.text.printable import one_line

_LONGEST = 100
"""Characters of a name that an id holds."""
_SHOWN = 40
"""Characters of a name that a sentence holds."""
_UNFIT = re.compile(r"[^A-Za-z0-9._-]+")
_UNTOLD = re.compile(r"(?![A-Za-z0-9_])[\w\ud800-\udfff]")
"""Letters that ASCII has nothing for, and bytes that are no text."""
_LIGATURES = str.maketrans(
    {"ß": "ss", "æ": "ae", "Æ": "AE", "œ": "oe", "Œ": "OE", "ø": "o", "Ø": "O", "þ": "th", "Þ": "Th"}
    | {"ł": "l", "Ł": "L", "đ": "d", "Đ": "D", "ð": "d", "Ð": "D", "ħ": "h", "Ħ": "H", "ı": "i", "ẞ": "SS"}
)
"""Latin letters that Unicode takes for no letter with a mark."""


def readable_name(name: str) -> str:
    """The name as a run's id can hold it: `größe 2` is `grosse-2`.

    Raises UsageError where that would lose a letter, as of another script, or where nothing is left.
    """
    plain = unicodedata.normalize("NFKD", name.translate(_LIGATURES))
    lost = "".join(dict.fromkeys(filter(_UNTOLD.match, plain)))
    if lost:
        raise _refused(name, f"its id cannot hold {_shortened(lost)}")
    unmarked = "".join(letter for letter in plain if not unicodedata.combining(letter))
    fit = _UNFIT.sub("-", unmarked)[:_LONGEST].strip("-.")
    if not fit:
        raise _refused(name, "no letter or digit would be left of it")
    return fit


def _refused(name: str, why: str) -> UsageError:
    remedy = "--name takes letters of the Latin alphabet, digits, and . _ - between them"
    return UsageError(f"no run can be called {_shortened(name)!r}", why=why, remedy=remedy)


def _shortened(text: str) -> str:
    shown = one_line(text)
    return shown if len(shown) <= _SHOWN else f"{shown[:_SHOWN]}…"
