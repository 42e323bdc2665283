"""Authentication of a local pod: the owner has a bearer token; requests from web pages are refused."""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from multidict import CIMultiDictProxy

TOKEN_BYTES = 32
_SCHEME = "bearer"
_HARMLESS_SITES = frozenset({"same-origin", "none"})
"""Values of Sec-Fetch-Site in requests that no other site caused (W3C Fetch Metadata)."""
_EXPECTED = (
    "Expected OAuth 2 access token, login cookie or other valid authentication credential. "
    "See https://developers.google.com/identity/sign-in/web/devconsole-project."
)
MISSING_CREDENTIALS = f"Request is missing required authentication credential. {_EXPECTED}"
INVALID_CREDENTIALS = f"Request had invalid authentication credentials. {_EXPECTED}"


class NotTheOwner(Exception):
    """A request that is not the owner's. `code` is the name of a google.rpc.Code, `reason` that of an ErrorInfo."""

    def __init__(self, code: str, reason: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason


def make_token() -> str:
    """Return a new secret for one pod."""
    return secrets.token_urlsafe(TOKEN_BYTES)


def check_token(expected: str, authorizations: Sequence[str]) -> None:
    """Raise NotTheOwner unless the request's only Authorization header carries the token."""
    if not authorizations:
        raise NotTheOwner("UNAUTHENTICATED", "CREDENTIALS_MISSING", MISSING_CREDENTIALS)
    scheme, _, token = authorizations[0].strip().partition(" ")
    is_right = hmac.compare_digest(token.strip().encode(errors="replace"), expected.encode())
    if len(authorizations) != 1 or scheme.lower() != _SCHEME or not is_right:
        raise NotTheOwner("UNAUTHENTICATED", "ACCESS_TOKEN_TYPE_UNSUPPORTED", INVALID_CREDENTIALS)


def check_site(authority: str, headers: CIMultiDictProxy[str], *, any_port: bool = False) -> None:
    """Raise NotTheOwner for a request that a web page sends.

    The Host header reveals a page whose own name resolves to this machine; Origin and Sec-Fetch-Site reveal any
    other page. With `any_port`, the Host may have another port, e.g. a forwarded one.
    """
    hosts, origins, sites = (headers.getall(name, []) for name in ("Host", "Origin", "Sec-Fetch-Site"))
    host = hosts[0] if len(hosts) == 1 else ""
    is_own = host == authority or (any_port and _address(host) == _address(authority))
    if not is_own:
        raise _foreign(f"the Host header must be {authority}")
    if any(origin != f"http://{authority}" for origin in origins) or any(
        site.lower() not in _HARMLESS_SITES for site in sites
    ):
        raise _foreign("requests from web pages are not allowed")


def _address(authority: str) -> str:
    return authority.partition(":")[0]


def _foreign(why: str) -> NotTheOwner:
    return NotTheOwner("PERMISSION_DENIED", "SECURITY_POLICY_VIOLATED", f"The request is refused: {why}.")
