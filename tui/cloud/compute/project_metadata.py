"""What a project says to all its machines: its common instance metadata (Compute Engine API v1, projects.get)."""

from __future__ import annotations

import asyncio

from tui.settings import Settings

PATIENCE_SECONDS = 10.0


async def project_metadata(settings: Settings) -> dict[str, str] | None:
    """The metadata by name; None where it cannot be read, which takes compute.projects.get.

    Raises CloudError without credentials. Imports Google's libraries, in the thread that asks.
    """
    return await asyncio.to_thread(_read, settings)


def _read(settings: Settings) -> dict[str, str] | None:
    from google.api_core.exceptions import GoogleAPICallError
    from google.auth.exceptions import GoogleAuthError
    from requests.exceptions import RequestException

    from tui.cloud.compute.compute_client import ComputeClient

    with ComputeClient(settings) as compute:
        try:
            found = compute.get(compute.project, patience=PATIENCE_SECONDS, fields="commonInstanceMetadata")
        except (GoogleAPICallError, GoogleAuthError, RequestException):
            return None
    items = found.get("commonInstanceMetadata", {}).get("items", [])
    return {item["key"]: item.get("value", "") for item in items}
