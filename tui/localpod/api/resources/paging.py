"""Pages of lists. A token holds the last name, so that deletions between pages skip nothing."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence
from typing import Any, TypeVar

from tui.localpod.api import rpc_errors

MAX_PAGE_SIZE = 1000
"""The largest page, in items; larger requests are cut to it, as AIP-158 allows."""

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
    return base64.urlsafe_b64encode(f"after:{name}".encode()).decode()


def _decode(token: str) -> str:
    try:
        kind, _, name = base64.b64decode(token, altchars=b"-_", validate=True).decode().partition(":")
    except (binascii.Error, ValueError) as error:
        raise rpc_errors.invalid("the page_token is not one of this list", "page_token") from error
    if kind != "after":
        raise rpc_errors.invalid("the page_token is not one of this list", "page_token")
    return name
