"""The names that slices, groups and images may have."""

from __future__ import annotations

import re

MAX_LENGTH = 63
"""Characters of a name, as in a DNS label (RFC 1035), which Google Cloud APIs require."""

_NAME = re.compile(rf"[a-z](?:[a-z0-9-]{{0,{MAX_LENGTH - 2}}}[a-z0-9])?")
_UNFIT = re.compile(r"[^a-z0-9-]+")
NAME_RULE = (
    f"a name has up to {MAX_LENGTH} lower-case letters, digits and dashes, begins with a letter, ends with no dash"
)


def suggest_name(name: str, otherwise: str) -> str:
    """Return the remedy for an invalid name: a similar valid one, else `otherwise`; empty for a valid name."""
    if _NAME.fullmatch(name):
        return ""
    near = _UNFIT.sub("-", name.lower()).lstrip("-0123456789")[:MAX_LENGTH].rstrip("-")
    return f"use {near}" if near else otherwise
