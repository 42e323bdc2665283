"""Recognize secret values and mask them."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

MASK = "********"
_SECRET_WORDS = frozenset(
    ("TOKEN", "KEY", "SECRET", "PASS", "PASSWD", "PASSWORD", "PASSPHRASE", "PWD", "AUTH", "DSN", "CREDENTIAL")
) | {"CREDENTIALS"}
_WORKING_DIRECTORY = "PWD"
"""The variable of exactly this name is the shell's directory, which is not secret."""
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
"""A word of a variable's name: names are split at `_`, digits and changes of case (`HFToken` is two words)."""
_USER_IN_URL = re.compile(r"(?<=://)(?:[^\s/?#\"'<>]+|[^\s/?#\"'<>@:]*:[^\s\"'<>]*)(?=@)")
"""Until the `@`: a password may hold characters that should be escaped, such as `/` or `#`."""


def is_secret(name: str) -> bool:
    """Return whether a variable is secret because of a word in its name."""
    return name != _WORKING_DIRECTORY and any(word.upper() in _SECRET_WORDS for word in _WORD.findall(name))


def mask_urls(text: str) -> str:
    """Mask the user information of URLs in a text: the part before the `@`."""
    return _USER_IN_URL.sub(MASK, text) if "@" in text else text


def mask_secrets(env: Mapping[str, str], by_name: Collection[str] = ()) -> dict[str, str]:
    """Return the variables with secret values masked, fit for run.json, reports and logs.

    A value is secret when its variable's name says so or the variable was passed `by_name` only. In other values,
    the users in URLs are masked.
    """
    return {name: MASK if name in by_name or is_secret(name) else mask_urls(value) for name, value in env.items()}
