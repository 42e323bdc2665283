"""Check the JSON with which Google's REST APIs answer, before their libraries or this program read it."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from typing import Any

from tui.text.bounded_json import MOST_BYTES, parse_json
from tui.text.json_shapes import ShapeError, check_shape
from tui.text.printable import one_line

ShapeOf = Callable[[str, str], Any]
"""Returns the shape of a request's answer by its verb and path; None for an answer that is not read as JSON."""
_READ_BYTES = 1 << 20
_REFUSAL = {"error": {"message": str, "errors": [{"reason": str}], "details": [{}]}}


def check_answers(session: Any, shape_of: ShapeOf) -> None:
    """Make a `requests` session raise InvalidJSONError for an answer that is too large, or not of its shape.

    A refusal that is not JSON, e.g. a proxy's page, passes: its status says enough.
    """

    def check(answer: Any, **_: Any) -> None:
        from requests.exceptions import InvalidJSONError

        path, _, _ = answer.request.path_url.partition("?")
        shape = shape_of(answer.request.method, path)
        if shape is None or answer.is_redirect:
            return
        _read(answer)
        if not answer.content and answer.request.method != "GET":
            return
        try:
            check_shape(parse_json(answer.content), shape if answer.ok else _REFUSAL, "answer")
        except ShapeError as error:
            raise InvalidJSONError(one_line(str(error))) from None
        except (json.JSONDecodeError, UnicodeDecodeError) as error:
            if answer.ok:
                raise InvalidJSONError(f"answer is not JSON ({one_line(str(error))})") from None
        except ValueError as error:
            raise InvalidJSONError(f"answer has {error}") from None

    session.hooks["response"].append(check)


def _read(answer: Any) -> None:
    """Read an answer's content. Raises InvalidJSONError if it is too large, ConnectionError if it is incomplete."""
    from requests import exceptions
    from urllib3.exceptions import HTTPError

    content = bytearray()
    try:
        while len(content) <= MOST_BYTES and (part := answer.raw.read(_READ_BYTES, decode_content=True)):
            content += part
    except HTTPError as error:
        raise exceptions.ConnectionError(error) from error
    if len(content) > MOST_BYTES:
        answer.close()
        raise exceptions.InvalidJSONError(f"answer has more than {MOST_BYTES} bytes")
    answer.raw = io.BytesIO(content)
