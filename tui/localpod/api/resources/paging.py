"""Pages of lists. A token holds the last name of a page, so that deletions between pages do not skip items."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Any, TypeVar

from tui.localpod.api import rpc_errors

MAX_PAGE_SIZE = 1000
"""The largest page, in items; it limits requests for larger pages, as AIP-158 allows."""
_TOKEN_PREFIX = "after:"

T = TypeVar("T")


def page(items: Sequence[T], request: Any) -> tuple[list[T], str]:
    """Return one page of the items in order of their names, and the next page's token ("" at the end).

    Raises INVALID_ARGUMENT for a negative `page_size` or a `page_token` that no list has returned.
    """
    if request.page_size < 0:
        raise rpc_errors.invalid("page_size must not be negative", "page_size")
    size = min(request.page_size or MAX_PAGE_SIZE, MAX_PAGE_SIZE)
    after = _decode(request.page_token) if request.page_token else ""
    rest = sorted((item for item in items if _name(item) > after), key=_name)
    return rest[:size], _encode(_name(rest[size - 1])) if len(rest) > size else ""


def _name(item: Any) -> str:
    return str(item.name)


def _encode(name: str) -> str:
    return base64.urlsafe_b64encode(f"{_TOKEN_PREFIX}{name}".encode()).decode()


def _decode(token: str) -> str:
    try:
        text = base64.b64decode(token, altchars=b"-_", validate=True).decode()
    except ValueError:
        text = ""
    if not text.startswith(_TOKEN_PREFIX):
        raise rpc_errors.invalid("the page_token is not one of this list", "page_token")
    return text.removeprefix(_TOKEN_PREFIX)
