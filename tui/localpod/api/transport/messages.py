"""Access to Google's two kinds of messages, proto-plus and plain protobuf."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any


def plain(message: Any) -> Any:
    """Return the protobuf message within a proto-plus message; any other message unchanged."""
    return type(message).pb(message) if is_wrapper(type(message)) else message


def is_wrapper(kind: Any) -> bool:
    """Return whether the type is proto-plus: unlike protobuf's own types, these have `pb` and `wrap`."""
    return hasattr(kind, "pb") and hasattr(kind, "wrap")


def now() -> Any:
    """Return the current time, for a Timestamp field of a proto-plus message."""
    return datetime.now(timezone.utc)
