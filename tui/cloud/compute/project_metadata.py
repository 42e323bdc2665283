"""A project's common instance metadata (Compute Engine API v1, projects.get and setCommonInstanceMetadata)."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import closing
from typing import Any

from tui.cloud.compute.compute_client import ComputeClient
from tui.cloud.compute.compute_requests import ComputeRequests
from tui.errors import TpuTuiError
from tui.settings import Settings

TIMEOUT_S = 10.0
_MOST_TRIES = 5
"""How often a change is made if others change the metadata at the same time."""


async def project_metadata(settings: Settings) -> dict[str, str] | None:
    """Return the metadata by name; None if it cannot be read, which requires compute.projects.get.

    Raises CloudError without credentials. Imports Google's libraries, in a thread.
    """
    return await asyncio.to_thread(_read, settings)


def _read(settings: Settings) -> dict[str, str] | None:
    with closing(ComputeClient(settings, patience=TIMEOUT_S)) as compute:
        from google.api_core.exceptions import GoogleAPICallError
        from google.auth.exceptions import GoogleAuthError
        from requests.exceptions import RequestException

        try:
            return _values(_get(compute))
        except (GoogleAPICallError, GoogleAuthError, RequestException):
            return None


async def change_project_metadata(
    settings: Settings, change: Callable[[dict[str, str]], dict[str, str]]
) -> AsyncIterator[str]:
    """Change the metadata: `change` gets the present metadata and returns all of the new. Yields the progress.

    If it was changed in between, the change is made again to what that has left. Raises CloudError, UsageError.
    """
    from google.api_core.exceptions import PreconditionFailed

    what, permission = "the project's metadata cannot be changed", "compute.projects.setCommonInstanceMetadata"
    async with ComputeRequests(settings) as requests:
        for number in itertools.count(1):
            present = await requests.ask(what, "compute.projects.get", _get)
            items = [{"key": key, "value": value} for key, value in change(_values(present)).items()]
            body = {"fingerprint": present.get("fingerprint"), "items": items}
            try:
                operation = await requests.post(what, permission, "setCommonInstanceMetadata", body)
                break
            except TpuTuiError as error:
                if number == _MOST_TRIES or not isinstance(error.__cause__, PreconditionFailed):
                    raise
        async for progress in requests.finish(operation, what, permission):
            yield progress


def _get(compute: ComputeClient) -> dict[str, Any]:
    project = compute.get(compute.project, fields="commonInstanceMetadata")
    return dict(project.get("commonInstanceMetadata", {}))


def _values(metadata: Mapping[str, Any]) -> dict[str, str]:
    return {item["key"]: item.get("value", "") for item in metadata.get("items", [])}
