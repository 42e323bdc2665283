"""The guest attributes of machines, by which they publish their SSH host keys (Compute Engine documentation)."""

from __future__ import annotations

import re
from collections.abc import Iterable

HOST_KEYS = "hostkeys"
"""The namespace of a machine's public host keys: a key's type by its base64."""
_KEY_TYPE = re.compile(r"[a-z0-9@.-]+")
_KEY = re.compile(r"[A-Za-z0-9+/]+={0,2}")


def host_keys_in(items: Iterable[tuple[str, str, str]]) -> tuple[str, ...]:
    """Return the public host keys among attributes: each is a namespace, a key and a value."""
    return tuple(
        f"{key} {value}"
        for namespace, key, value in items
        if namespace == HOST_KEYS and _KEY_TYPE.fullmatch(key) and _KEY.fullmatch(value)
    )
