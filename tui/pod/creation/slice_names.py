"""The names that a slice may have."""

from __future__ import annotations

import re

from tui.errors import UsageError

MAX_LENGTH = 63
"""Characters of a name, as in a DNS label (RFC 1035), which Google Cloud APIs require."""

_NAME = re.compile(rf"[a-z](?:[a-z0-9-]{{0,{MAX_LENGTH - 2}}}[a-z0-9])?")
_UNFIT = re.compile(r"[^a-z0-9-]+")
_RULE = (
    f"a name has up to {MAX_LENGTH} lower-case letters, digits and dashes, begins with a letter, ends with no dash"
)


def check_slice_name(name: str, what: str) -> None:
    """Check a new slice's name; `what` is the error's sentence.

    Raises UsageError with the rule for names, and a valid name like the given one.
    """
    if _NAME.fullmatch(name):
        return
    near = _UNFIT.sub("-", name.lower()).lstrip("-0123456789")[:MAX_LENGTH].rstrip("-")
    raise UsageError(what, why=_RULE, remedy=f"use {near}" if near else "tpu-tui slices create NAME …")
