"""The Compute Engine API v1 by REST over google-auth's session: the generated client takes seconds to import.

It blocks, so use it in a thread. Google's libraries are imported when a session is opened.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from tui.cloud.answers import ShapeOf, check_answers
from tui.cloud.api_errors import ApiRequest, explain, explain_transport, retry_delay_s
from tui.cloud.compute.answer_shapes import shape_of
from tui.cloud.credentials import find_credentials
from tui.cloud.google_import import import_google
from tui.cloud.retries import LISTING_RESTARTS, pauses, retry_limits
from tui.errors import TpuTuiError
from tui.settings import Settings

Answer = TypeVar("Answer")

_COMPUTE = "https://compute.googleapis.com"
_SERVICE = "compute.googleapis.com"
_RATE_LIMITS = ("rateLimitExceeded", "userRateLimitExceeded")
"""Reasons of a 403 that is a rate limit, after which a retry may succeed."""


class ComputeClient:
    """A session with the API, or with a local pod's, which requires the pod's token; `close` ends it.

    Opening one raises CloudError without credentials. `project` is that of the settings, else of the credentials.
    All requests raise GoogleAPICallError for a refusal, RequestException without an answer, GoogleAuthError.
    """

    def __init__(self, settings: Settings, *, patience: float | None) -> None:
        self.endpoint = settings.endpoints.get("compute", "")
        self._session, its_project = open_session(self.endpoint, settings.token, shape_of)
        self._retry_s, self._least_s = retry_limits(patience, is_local=bool(self.endpoint))
        self.project = settings.project or its_project or ("local" if self.endpoint else "")

    def get(self, path: str, **query: str) -> dict[str, Any]:
        """Return the resource at `path`, without its `projects/`."""
        return self._send("GET", path, query)

    def delete(self, path: str, **query: str) -> dict[str, Any]:
        """Delete the resource at `path` and return the operation; with the same `requestId` it is done once."""
        return self._send("DELETE", path, query)

    def post(self, path: str, body: Mapping[str, Any] | None = None, **query: str) -> dict[str, Any]:
        """Create a resource or call a method at `path`; with the same `requestId` it is done once."""
        return self._send("POST", path, query, body)

    def items(self, path: str, *, key: str = "items", verb: str = "GET", **query: str) -> list[dict[str, Any]]:
        """Return the items of a list, which are at `key` in its pages.

        `verb` is POST for the lists that are methods, as `listManagedInstances` is.
        """
        return [item for page in self.pages(path, verb=verb, **query) for item in page.get(key, ())]

    def pages(self, path: str, *, verb: str = "GET", **query: str) -> list[dict[str, Any]]:
        """Return the pages of a list; it is read again from its beginning if a page token expires."""
        from google.api_core.exceptions import BadRequest
        from requests.exceptions import InvalidJSONError

        pages: list[dict[str, Any]] = []
        token, restarts = "", 0
        while token or not pages:
            try:
                pages.append(self._send(verb, path, {**query, **({"pageToken": token} if token else {})}))
            except BadRequest:
                if not token or restarts == LISTING_RESTARTS:
                    raise
                pages, token, restarts = [], "", restarts + 1
                continue
            before, token = token, pages[-1].get("nextPageToken", "")
            if token and token == before:
                raise InvalidJSONError(f"{path} has no next page that it names")
        return pages

    def _send(
        self, verb: str, path: str, query: dict[str, str], body: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        """Make a request, and repeat it while the service is unavailable or busy, after the wait that it requests."""
        from google.api_core.exceptions import GoogleAPICallError
        from requests.exceptions import RequestException

        url = f"{self.endpoint or _COMPUTE}/compute/v1/projects/{path}"
        deadline, waits = time.monotonic() + self._retry_s, pauses()
        while True:
            try:
                return self._send_once(verb, url, query, body, max(self._least_s, deadline - time.monotonic()))
            except (GoogleAPICallError, RequestException) as error:
                pause = max(retry_delay_s(error), next(waits))
                if not _is_passing(error) or time.monotonic() + pause >= deadline:
                    raise
            time.sleep(pause)

    def _send_once(
        self, verb: str, url: str, query: dict[str, str], body: Mapping[str, Any] | None, timeout_s: float
    ) -> dict[str, Any]:
        from google.api_core.exceptions import from_http_response

        answer = self._session.request(verb, url, params=query, json=body, timeout=timeout_s)
        if not answer.ok:
            error = from_http_response(answer)  # type: ignore[no-untyped-call]
            error.message = error.message.removeprefix(f"{verb} {answer.request.url}: ")
            raise error
        document: dict[str, Any] = answer.json()
        return document

    def ask(self, what: str, call: Callable[[], Answer], *, role: str, permission: str, project: str = "") -> Answer:
        """Make requests by `call`; raise CloudError or UsageError for theirs, with the permission that is missing."""
        from google.api_core.exceptions import GoogleAPIError
        from google.auth.exceptions import GoogleAuthError
        from requests.exceptions import RequestException

        started_at = time.monotonic()
        try:
            return call()
        except (GoogleAPIError, GoogleAuthError, RequestException) as error:
            tried_s = time.monotonic() - started_at
            request = ApiRequest(
                what, project or self.project, _SERVICE, "the Compute Engine API", role, self.endpoint
            )
            raise self._explain(error, request, permission, tried_s) from error

    def _explain(self, error: Exception, request: ApiRequest, permission: str, tried_s: float) -> TpuTuiError:
        from google.api_core.exceptions import Forbidden
        from requests.exceptions import RequestException

        if isinstance(error, RequestException):
            return explain_transport(error, request, tried_s)
        explained = explain(error, request, tried_s)
        if isinstance(error, Forbidden) and permission not in explained.why:
            why = f"{explained.why} (requires {permission})"
            return type(explained)(explained.what, why=why, remedy=explained.remedy)
        return explained

    def close(self) -> None:
        """Close the session."""
        self._session.close()


def _is_passing(error: Exception) -> bool:
    """Return whether a retry may help."""
    from google.api_core.exceptions import Forbidden
    from google.api_core.retry import if_transient_error

    if isinstance(error, Forbidden):
        return any(detail.get("reason") in _RATE_LIMITS for detail in error.errors if isinstance(detail, dict))
    return bool(if_transient_error(error))


def open_session(endpoint: str, token: str | None, shape_of: ShapeOf) -> tuple[Any, str | None]:
    """Return a session for one of Google's APIs, or for a local pod's at `endpoint`, and the login's project.

    Its answers have the shapes that `shape_of` returns.
    """
    session, project = _open_session(endpoint, token)
    check_answers(session, shape_of)
    return session, project


def _open_session(endpoint: str, token: str | None) -> tuple[Any, str | None]:
    import_google("google.auth.exceptions", "google.api_core.exceptions", "requests")
    if not endpoint:
        from google.auth.transport.requests import AuthorizedSession

        login = find_credentials()
        return AuthorizedSession(login.credentials), login.project  # type: ignore[no-untyped-call]

    import requests

    session = requests.Session()
    session.trust_env = False  # no proxy gets the token, and .netrc does not replace it
    if token:
        session.headers["Authorization"] = f"Bearer {token}"
    return session, None
