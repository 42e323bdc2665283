"""What a slice may be called."""

from __future__ import annotations

import re

from tui.errors import UsageError

LONGEST = 63
"""Characters of a name, as of a label in DNS (RFC 1035): every Google Cloud API takes a name of that shape."""

_NAME = re.compile(rf"[a-z](?:[a-z0-9-]{{0,{LONGEST - 2}}}[a-z0-9])?")
_UNFIT = re.compile(r"[^a-z0-9-]+")
_RULE = (
    f"a name has lower-case letters, digits and dashes, {LONGEST} at most; it begins with a letter, ends with no dash"
)


def refuse_what_is_no_name(name: str, what: str) -> None:
    """Refuse a name that a new slice cannot have: `what` says what cannot be done.

    Raises UsageError with what names look like, and with one that comes near.
    """
    if _NAME.fullmatch(name):
        return
    near = _UNFIT.sub("-", name.lower()).lstrip("-0123456789")[:LONGEST].rstrip("-")
    raise UsageError(what, why=_RULE, remedy=f"{near} would do" if near else "tpu-tui slices create NAME …")
