"""Answers of the local pod's Compute Engine API: documents, pages and errors in the form of Google's JSON APIs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from aiohttp import web

ROOT = "https://www.googleapis.com/compute/v1/"
"""Begins the addresses of resources."""
PROJECT = "/compute/v1/projects/{project}"
DEFAULT_PAGE = 500
"""The size of a page, in items, where a request names none."""
_JSON = "application/json"
_REASONS = {400: "invalid", 403: "forbidden", 404: "notFound", 409: "alreadyExists", 412: "conditionNotMet"}


class ComputeError(Exception):
    """A refusal, by its HTTP status; `reason` is Google's word for it."""

    def __init__(self, status: int, message: str, reason: str = "") -> None:
        super().__init__(message)
        self.status = status
        self.reason = reason or _REASONS[status]

    def to_response(self) -> web.Response:
        """Return the answer."""
        message = str(self)
        errors = [{"domain": "global", "reason": self.reason, "message": message}]
        return answer({"error": {"code": self.status, "message": message, "errors": errors}}, self.status)


def answer(document: dict[str, Any], status: int = 200) -> web.Response:
    """Return a JSON document."""
    return web.Response(text=json.dumps(document) + "\n", status=status, content_type=_JSON)


def missing(request: web.Request) -> ComputeError:
    """Return the error of a resource that does not exist."""
    return missing_path(request.path[len("/compute/v1/") :])


def missing_path(path: str) -> ComputeError:
    """Return the error of a resource that does not exist, by its path from `projects/` on."""
    return ComputeError(404, f"The resource '{path}' was not found")


async def read_document(request: web.Request) -> dict[str, Any]:
    """Return the JSON object of a request's body. Raises ComputeError for anything else."""
    try:
        document = json.loads(await request.read())
    except ValueError:
        raise ComputeError(400, "Parse Error") from None
    if not isinstance(document, dict):
        raise ComputeError(400, "Parse Error")
    return document


def page_of(request: web.Request, rows: Sequence[dict[str, Any]]) -> tuple[list[dict[str, Any]], dict[str, str]]:
    """Return one page of the rows, which are in order, and its fields; a token is the place of the next row."""
    size, token = request.query.get("maxResults") or str(DEFAULT_PAGE), request.query.get("pageToken", "0") or "0"
    if not (size.isdecimal() and token.isdecimal()):
        raise ComputeError(400, f"Invalid value for field 'pageToken': '{token}'.")
    first, last = int(token), int(token) + int(size)
    return list(rows[first:last]), {"nextPageToken": str(last)} if last < len(rows) else {}
