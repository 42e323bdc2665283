"""Requests and answers of the local pod's Compute Engine API: documents, pages, errors, as in Google's JSON APIs."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timezone
from typing import Any

from aiohttp import web

from tui.localpod.api.rpc_errors import ApiError
from tui.text.json_shapes import ShapeError, check_shape
from tui.text.numbers import parse_integer

ROOT = "https://www.googleapis.com/compute/v1/"
"""The prefix of the addresses of resources."""
PROJECT = "/compute/v1/projects/{project}"
DEFAULT_PAGE = 500
"""The size of a page, in items, unless the request sets another."""
_JSON = "application/json"
_REASONS = {400: "invalid", 404: "notFound", 409: "alreadyExists", 412: "conditionNotMet"}
IN_USE = "resourceInUseByAnotherResource"
_CODES = {IN_USE: "RESOURCE_IN_USE_BY_ANOTHER_RESOURCE", "notFound": "RESOURCE_NOT_FOUND"}
_TERM = re.compile(
    r"""\s* \(? \s* (?P<field>[A-Za-z][\w.-]*) \s* (?P<verb>!=|=|:|\bne\b|\beq\b) \s*
    (?P<value>"[^"]*" | '[^']*' | [^\s()]+) \s* \)? (?: \s+AND\b | \s*$ | \s*(?=\() )""",
    re.VERBOSE,
)
"""A term of a filter, with the `AND` after it (Compute Engine API v1, `filter`)."""


class ComputeError(Exception):
    """A refusal with its HTTP status. `reason` is for the answer to a request, `code` for an operation's errors."""

    def __init__(self, status: int, message: str, reason: str = "", code: str = "") -> None:
        super().__init__(message)
        self.status = status
        self.reason = reason or _REASONS[status]
        self.code = code or _CODES.get(self.reason, "INVALID_USAGE")

    def to_response(self) -> web.Response:
        """Return the answer."""
        message = str(self)
        errors = [{"domain": "global", "reason": self.reason, "message": message}]
        return answer({"error": {"code": self.status, "message": message, "errors": errors}}, self.status)

    def to_errors(self) -> dict[str, Any]:
        """Return the error as the list of errors of an operation, or of the last attempt to create a machine."""
        return {"errors": [{"code": self.code, "message": str(self)}]}


def no_capacity(project: str, zone: str) -> ComputeError:
    """Return the error of a machine that the zone has no capacity for."""
    message = (
        f"The zone 'projects/{project}/zones/{zone}' does not have enough resources available to fulfill the "
        "request.  Try a different zone, or try again later."
    )
    return ComputeError(400, message, code="ZONE_RESOURCE_POOL_EXHAUSTED")


def answer(document: dict[str, Any], status: int = 200) -> web.Response:
    """Return a JSON document."""
    return web.Response(text=json.dumps(document) + "\n", status=status, content_type=_JSON)


def missing(request: web.Request) -> ComputeError:
    """Return the error of a resource that does not exist."""
    return missing_path(relative(request.path))


def missing_path(path: str) -> ComputeError:
    """Return the error of a resource that does not exist, by its path from `projects/` on."""
    return ComputeError(404, f"The resource '{path}' was not found")


def invalid_field(field: str, value: object, why: str) -> ComputeError:
    """Return the error of a field's value."""
    return ComputeError(400, f"Invalid value for field '{field}': '{value}'. {why}")


async def read_document(request: web.Request, shape: Mapping[Any, Any]) -> dict[str, Any]:
    """Return the JSON object of a request's body, without the fields that are null: Google's APIs ignore them.

    `shape` has the types of the fields that are used (see `tui.text.json_shapes`). Raises ComputeError for other
    content, ApiError for a field of another type.
    """
    try:
        document = json.loads(await request.read() or b"{}", object_hook=_without_nulls)
    except (ValueError, RecursionError):
        raise ComputeError(400, "Parse Error") from None
    if not isinstance(document, dict):
        raise ComputeError(400, "Parse Error")
    try:
        check_shape(document, shape, "resource")
    except ShapeError as error:
        message = f"Invalid value at '{error.path}' (expected type: {error.expected}), {json.dumps(error.value)}"
        raise ApiError("INVALID_ARGUMENT", message) from None
    return document


def _without_nulls(fields: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}


def page_of(
    request: web.Request, rows: Sequence[dict[str, Any]], key: str = ""
) -> tuple[list[dict[str, Any]], dict[str, str]]:
    """Return one page of the rows that pass the request's filter, and the list's field `nextPageToken` if needed.

    A token is the index of the page's first row. The filter applies to `row[key]`, or to the row without a key.
    """
    size, token = _number(request, "maxResults") or DEFAULT_PAGE, _number(request, "pageToken")
    if request.query.get("orderBy", "name") != "name":
        raise ComputeError(400, f"Invalid value for field 'orderBy': '{request.query['orderBy']}'.")
    wanted = request.query.get("filter", "")
    terms = _terms(wanted)
    try:
        rows = [row for row in rows if _passes(row[key] if key else row, terms)]
    except re.error:
        raise _invalid_filter(wanted) from None
    end = token + size
    return list(rows[token:end]), {"nextPageToken": str(end)} if end < len(rows) else {}


def _number(request: web.Request, field: str) -> int:
    """Return a field of the query; 0 if it is empty or absent. Raises ComputeError."""
    text = request.query.get(field) or "0"
    if (number := parse_integer(text)) is None:
        raise ComputeError(400, f"Invalid value for field '{field}': '{text}'.")
    return number


def _terms(text: str) -> list[tuple[str, str, str]]:
    """Return the field, operator and value of each term of a filter; `AND` joins terms. Raises ComputeError."""
    terms: list[tuple[str, str, str]] = []
    position = 0
    while position < len(text):
        match = _TERM.match(text, position)
        if match is None:
            raise _invalid_filter(text)
        terms.append((match["field"], match["verb"], match["value"].strip("\"'")))
        position = match.end()
    return terms


def _invalid_filter(text: str) -> ComputeError:
    return ComputeError(400, f"Invalid value for field 'filter': '{text}'. Invalid list filter expression.")


def _passes(row: Mapping[str, Any], terms: Iterable[tuple[str, str, str]]) -> bool:
    for field, verb, value in terms:
        actual: Any = row
        for name in field.split("."):
            actual = actual.get(name) if isinstance(actual, Mapping) else None
        text = "" if actual is None else str(actual)
        if verb in ("eq", "ne"):
            is_equal = re.fullmatch(value, text) is not None
        else:
            is_equal = bool(text) if value == "*" else value in text if verb == ":" else text == value
        if is_equal == (verb in ("ne", "!=")):
            return False
    return True


def list_answer(request: web.Request, singular: str, rows: Sequence[dict[str, Any]]) -> web.Response:
    """Return one page of a list of resources: disks are `compute#diskList`, where `disk` is the singular."""
    page, more = page_of(request, rows)
    return answer({"kind": f"compute#{singular}List", **({"items": page} if page else {}), **more})


def now() -> str:
    """Return the present time as the API writes it."""
    return datetime.now(timezone.utc).isoformat(timespec="milliseconds")


def relative(address: str) -> str:
    """Return the part of an address or path that begins with `projects/`; unchanged if it has no such part."""
    _, separator, rest = address.partition("projects/")
    return separator + rest if separator else address
