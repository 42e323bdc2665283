"""A project's common instance metadata (Compute Engine API v1, projects.get)."""

from __future__ import annotations

import asyncio
from contextlib import closing

from tui.cloud.compute.compute_client import ComputeClient
from tui.settings import Settings

TIMEOUT_S = 10.0


async def project_metadata(settings: Settings) -> dict[str, str] | None:
    """Return the metadata by name; None if it cannot be read, which requires compute.projects.get.

    Raises CloudError without credentials. Imports Google's libraries, in a thread.
    """
    return await asyncio.to_thread(_read, settings)


def _read(settings: Settings) -> dict[str, str] | None:
    from google.api_core.exceptions import GoogleAPICallError
    from google.auth.exceptions import GoogleAuthError
    from requests.exceptions import RequestException

    with closing(ComputeClient(settings, patience=TIMEOUT_S)) as compute:
        try:
            project = compute.get(compute.project, fields="commonInstanceMetadata")
        except (GoogleAPICallError, GoogleAuthError, RequestException):
            return None
    items = project.get("commonInstanceMetadata", {}).get("items", [])
    return {item["key"]: item.get("value", "") for item in items}
