"""The Compute Engine API v1 over google-auth's own session: the generated client takes seconds to import.

It blocks, so it is for a thread. Google's libraries are imported when a session is opened.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tui.settings import Settings

_COMPUTE = "https://compute.googleapis.com"


class ComputeClient:
    """One login's session with the API, or with that of a local pod, which takes its token; `with` closes it.

    Opening one raises CloudError without credentials. `project` is that of the settings, else the login's.
    """

    def __init__(self, settings: Settings) -> None:
        self.endpoint = settings.endpoints.get("compute", "")
        self._session, its_project = _local_session(settings.token) if self.endpoint else _session()
        self.project = settings.project or its_project or ("local" if self.endpoint else "")

    def get(self, path: str, *, patience: float, **query: str) -> dict[str, Any]:
        """What the API tells of `path`, which begins behind `projects/`; asked once, `patience` seconds at most.

        Raises GoogleAPICallError for a refusal, RequestException where there is no answer, GoogleAuthError.
        """
        from google.api_core.exceptions import from_http_response
        from requests.exceptions import InvalidJSONError

        url = f"{self.endpoint or _COMPUTE}/compute/v1/projects/{path}"
        answer = self._session.get(url, params=query, timeout=patience)
        if not answer.ok:
            raise from_http_response(answer)  # type: ignore[no-untyped-call]
        document = answer.json()
        if not isinstance(document, dict):
            raise InvalidJSONError(f"{url} answers something else")
        return document

    def items(self, path: str, *, patience: float) -> Iterator[dict[str, Any]]:
        """The items of a list, page by page."""
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


def _local_session(token: str | None) -> tuple[Any, None]:
    """Return a session that bears a local pod's token."""
    import requests

    session = requests.Session()
    session.trust_env = False  # neither a proxy of the network gets the token, nor .netrc a word in it
    if token:
        session.headers["Authorization"] = f"Bearer {token}"
    return session, None


def _session() -> tuple[Any, str | None]:
    """Return a session that is logged in, and the project that the login comes with."""
    from google.auth.transport.requests import AuthorizedSession

    from tui.cloud.credentials import find_credentials

    found = find_credentials()
    return AuthorizedSession(found.credentials), found.project  # type: ignore[no-untyped-call]
