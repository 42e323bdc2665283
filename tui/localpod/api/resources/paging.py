"""Lists in pages. A token holds the last name, so that deletions between pages skip nothing."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Sequence
from typing import TypeVar

from tui.localpod.api import rpc_errors

MAX_PAGE_SIZE = 1000
"""Larger pages are cut to this, as AIP-158 allows."""

T = TypeVar("T")


def page(items: Sequence[T], page_size: int, page_token: str, name: Callable[[T], str]) -> tuple[list[T], str]:
    """One page of the items in order of their names, and the next page's token ("" at the end).

    Raises INVALID_ARGUMENT for a negative size or a token that no list ever gave.
    """
    if page_size < 0:
        raise rpc_errors.invalid("page_size must not be negative", "page_size")
    size = min(page_size or MAX_PAGE_SIZE, MAX_PAGE_SIZE)
    after = _decode(page_token) if page_token else ""
    rest = sorted((item for item in items if name(item) > after), key=name)
    more = len(rest) > size
    return rest[:size], _encode(name(rest[size - 1])) if more else ""


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
