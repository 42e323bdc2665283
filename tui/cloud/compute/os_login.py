"""The user's OS Login profile: the POSIX account of a project, and the keys that log in with it (API v1, by REST).

Sources: OS Login API v1, users.getLoginProfile and users.importSshPublicKey; Compute Engine documentation, "Set up
OS Login" for the roles; gcloud's `compute tpus tpu-vm ssh` for the account and the key that is imported.
It blocks, so use it in a thread. Google's libraries are imported when a client is opened.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from tui.cloud.api_errors import ApiRequest, explain, explain_transport
from tui.cloud.compute.answer_shapes import login_shape_of
from tui.cloud.compute.compute_client import open_session
from tui.errors import UsageError
from tui.settings import Settings
from tui.text.numbers import parse_integer

TIMEOUT_S = 10.0
ROLE = "roles/compute.osLogin"
"""The role that lets an account log in to machines with OS Login."""
_OS_LOGIN = "https://oslogin.googleapis.com"
_REQUEST = {"service": "oslogin.googleapis.com", "api": "the OS Login API", "role": ROLE}


@dataclass(frozen=True)
class LoginProfile:
    """An account's OS Login profile: its e-mail address, its user names, the chosen one first, and its keys."""

    account: str
    users: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()

    @property
    def user(self) -> str | None:
        """The user name to log in with; None until the account has one for the project."""
        return self.users[0] if self.users else None

    def accepts(self, public: str | None) -> bool:
        """Return whether the profile has a user name and this public key."""
        return self.user is not None and public is not None and _material(public) in map(_material, self.keys)


class OsLoginClient:
    """A session with the API, or with a local pod's; `close` ends it.

    Opening one raises CloudError without credentials, UsageError for credentials of an unknown account.
    """

    def __init__(self, settings: Settings) -> None:
        self._endpoint = settings.endpoints.get("oslogin", "")
        self._session, its_project = open_session(self._endpoint, settings.token, login_shape_of)
        self.project = settings.project or its_project or ""
        self.account = _account_of(getattr(self._session, "credentials", None)) or settings.account or ""
        if not self.account:
            raise UsageError(
                "the OS Login user name cannot be looked up",
                why="the credentials do not name their account",
                remedy="gcloud config set account EMAIL, or give the user name with --user",
            )

    def profile(self) -> LoginProfile:
        """Return the account's profile for the project. Raises CloudError."""
        what = f"the OS Login profile of {self.account} cannot be read"
        return self._parse_profile(self._send(what, "GET", "/loginProfile"))

    def import_key(self, public: str) -> LoginProfile:
        """Add a public key to the profile, which makes its account for the project; return the new profile."""
        what = f"the SSH key cannot be added to the OS Login profile of {self.account}"
        answer = self._send(what, "POST", ":importSshPublicKey", {"key": public})
        return self._parse_profile(answer.get("loginProfile") or {})

    def _parse_profile(self, document: Mapping[str, Any]) -> LoginProfile:
        accounts = sorted(document.get("posixAccounts") or (), key=lambda account: not account.get("primary"))
        keys = (document.get("sshPublicKeys") or {}).values()
        return LoginProfile(
            self.account,
            tuple(str(account["username"]) for account in accounts if account.get("username")),
            tuple(str(key["key"]) for key in keys if key.get("key") and not _has_expired(key)),
        )

    def _send(self, what: str, verb: str, path: str, body: Mapping[str, str] | None = None) -> Mapping[str, Any]:
        from google.api_core.exceptions import GoogleAPICallError, from_http_response
        from google.auth.exceptions import GoogleAuthError
        from requests.exceptions import RequestException

        url = f"{self._endpoint or _OS_LOGIN}/v1/users/{quote(self.account, safe='@:')}{path}"
        request = ApiRequest(what, self.project, endpoint=self._endpoint, **_REQUEST)
        started_at = time.monotonic()
        try:
            query = {"projectId": self.project}
            answer = self._session.request(verb, url, params=query, json=body, timeout=TIMEOUT_S)
            if not answer.ok:
                raise from_http_response(answer)  # type: ignore[no-untyped-call]
            document: dict[str, Any] = answer.json()
        except (GoogleAPICallError, GoogleAuthError) as error:
            raise explain(error, request) from error
        except RequestException as error:
            raise explain_transport(error, request, time.monotonic() - started_at) from error
        return document

    def close(self) -> None:
        """Close the session."""
        self._session.close()


def login_profile(settings: Settings, public: str | None = None) -> LoginProfile:
    """Return the login's profile, after adding this public key where the profile lacks it, as gcloud's ssh does."""
    with closing(OsLoginClient(settings)) as client:
        profile = client.profile()
        return profile if public is None or profile.accepts(public) else client.import_key(public)


def _account_of(credentials: Any) -> str:
    """Return the e-mail address of credentials: a service account's, an impersonated one's, or a user's."""
    email = str(getattr(credentials, "service_account_email", "") or getattr(credentials, "account", "") or "")
    if email != "default":  # what a machine's account is called until its first token has been fetched
        return email
    from google.auth.exceptions import GoogleAuthError
    from google.auth.transport.requests import Request

    try:
        credentials.refresh(Request())
    except GoogleAuthError:
        return ""
    return str(credentials.service_account_email)


def _has_expired(key: Mapping[str, Any]) -> bool:
    """Return whether the key's expiry, in microseconds since the epoch, is past; without a valid one it has none."""
    expires_us = parse_integer(str(key.get("expirationTimeUsec", "")))
    return expires_us is not None and expires_us < time.time() * 1e6


def _material(key: str) -> str:
    """Return a key's base64 text, which is the same with another comment."""
    fields = key.split()
    return fields[1] if len(fields) > 1 else key
