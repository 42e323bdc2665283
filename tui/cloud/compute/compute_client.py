"""The Compute Engine API v1 by REST over google-auth's session: the generated client takes seconds to import.

It blocks, so use it in a thread. Google's libraries are imported when a session is opened.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tui.cloud.credentials import find_credentials
from tui.settings import Settings

_COMPUTE = "https://compute.googleapis.com"


class ComputeClient:
    """A session with the API, or with a local pod's, which requires the pod's token; a context manager closes it.

    Opening one raises CloudError without credentials. `project` is that of the settings, else of the credentials.
    """

    def __init__(self, settings: Settings) -> None:
        self.endpoint = settings.endpoints.get("compute", "")
        self._session, its_project = open_session(self.endpoint, settings.token)
        self.project = settings.project or its_project or ("local" if self.endpoint else "")

    def get(self, path: str, *, patience: float, **query: str) -> dict[str, Any]:
        """Return the resource at `path`, without its `projects/`; one request, which may take `patience` seconds.

        Raises GoogleAPICallError for a refusal, RequestException without an answer, GoogleAuthError.
        """
        from google.api_core.exceptions import from_http_response
        from requests.exceptions import InvalidJSONError

        url = f"{self.endpoint or _COMPUTE}/compute/v1/projects/{path}"
        answer = self._session.get(url, params=query, timeout=patience)
        if not answer.ok:
            raise from_http_response(answer)  # type: ignore[no-untyped-call]
        document = answer.json()
        if not isinstance(document, dict):
            raise InvalidJSONError(f"{url} does not answer with an object")
        return document

    def items(self, path: str, *, patience: float) -> Iterator[dict[str, Any]]:
        """Yield the items of a list, page by page."""
        query: dict[str, str] = {}
        while True:
            page = self.get(path, patience=patience, **query)
            yield from page.get("items", ())
            if not (token := page.get("nextPageToken")):
                return
            query["pageToken"] = token

    def __enter__(self) -> ComputeClient:
        return self

    def __exit__(self, *_: object) -> None:
        self._session.close()


def open_session(endpoint: str, token: str | None) -> tuple[Any, str | None]:
    """Return a session for one of Google's APIs, or for a local pod's at `endpoint`, and the login's project."""
    return _local_session(token) if endpoint else _session()


def _local_session(token: str | None) -> tuple[Any, None]:
    """Return a session that sends a local pod's token."""
    import requests

    session = requests.Session()
    session.trust_env = False  # no proxy gets the token, and .netrc does not replace it
    if token:
        session.headers["Authorization"] = f"Bearer {token}"
    return session, None


def _session() -> tuple[Any, str | None]:
    """Return a session with credentials, and their project."""
    from google.auth.transport.requests import AuthorizedSession

    found = find_credentials()
    return AuthorizedSession(found.credentials), found.project  # type: ignore[no-untyped-call]
