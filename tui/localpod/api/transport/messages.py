"""Google's two kinds of messages, proto-plus and plain protobuf, under one handle."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any


def plain(message: Any) -> Any:
    """The protobuf message within a proto-plus one; any other as it is."""
    return type(message).pb(message) if is_wrapper(type(message)) else message


def is_wrapper(kind: Any) -> bool:
    """Whether the type is a proto-plus one (these have `pb` and `wrap`; protobuf's own have not)."""
    return hasattr(kind, "pb") and hasattr(kind, "wrap")


def now() -> Any:
    """The time, fit for a Timestamp field of a proto-plus message."""
    return datetime.now(timezone.utc)
