"""What a project says to all its machines: its common instance metadata (Compute Engine API v1, projects.get).

One request by google-auth's own session: the generated client takes seconds to import.
"""

from __future__ import annotations

import asyncio
from typing import Any

from tui.settings import Settings

PATIENCE_SECONDS = 10.0
_COMPUTE = "https://compute.googleapis.com"
_HTTP_OK = 200


async def project_metadata(settings: Settings) -> dict[str, str] | None:
    """The metadata by name; None where it cannot be read, which takes compute.projects.get.

    Raises CloudError without credentials. Imports Google's libraries, in the thread that asks.
    """
    return await asyncio.to_thread(_read, settings)


def _read(settings: Settings) -> dict[str, str] | None:
    from google.auth.exceptions import GoogleAuthError
    from requests.exceptions import RequestException

    endpoint = settings.endpoints.get("compute")
    session, project = _session(local=bool(endpoint))
    try:
        with session:
            name = settings.project or project or "local"
            url = f"{endpoint or _COMPUTE}/compute/v1/projects/{name}"
            answer = session.get(url, params={"fields": "commonInstanceMetadata"}, timeout=PATIENCE_SECONDS)
            document = answer.json() if answer.status_code == _HTTP_OK else None
    except (GoogleAuthError, RequestException, ValueError):
        return None
    return None if document is None else _items(document)


def _session(*, local: bool) -> tuple[Any, str | None]:
    """A session that is logged in, and the project that the login comes with."""
    import requests

    if local:
        return requests.Session(), None
    from google.auth.transport.requests import AuthorizedSession

    from tui.cloud.credentials import find_credentials

    found = find_credentials()
    return AuthorizedSession(found.credentials), found.project  # type: ignore[no-untyped-call]


def _items(document: Any) -> dict[str, str]:
    items = document.get("commonInstanceMetadata", {}).get("items", [])
    return {item["key"]: item.get("value", "") for item in items}
