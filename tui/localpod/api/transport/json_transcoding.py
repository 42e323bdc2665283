"""Conversion of HTTP and JSON to messages and back, by google.api.http rules and Google's system parameters."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

from google.protobuf import json_format

from tui.localpod.api import rpc_errors
from tui.localpod.api.transport.messages import is_wrapper, plain

V1 = "v1"
V2 = "v2"
V2_ALPHA = "v2alpha1"

_SYSTEM_PARAMETERS = frozenset(
    {"alt", "$alt", "prettyPrint", "$prettyPrint", "key", "fields", "$fields", "access_token", "oauth_token"}
    | {"callback", "quotaUser", "userIp", "uploadType", "upload_protocol", "$.xgafv", "$userProject"}
)
"""Query parameters that every Google API accepts and that are not fields of request messages."""

_RENAMED = {"multiNodeParams": "multisliceParams"}
"""Fields of the alpha API with another name in v2."""
_FIELD_MASK = "google.protobuf.FieldMask"
_SNAKE = re.compile(r"_([a-z0-9])")
_ALPHA_PACKAGE, _PACKAGE = "google.cloud.tpu.v2alpha1.", "google.cloud.tpu.v2."


def read_request(
    kind: Any,
    version: str,
    path: Mapping[str, str],
    query: Iterable[tuple[str, str]],
    body: bytes,
    body_field: str | None,
) -> Any:
    """Return the request message of one HTTP call. Raises INVALID_ARGUMENT.

    `path` has the fields that the URL names, with their values. `body_field` is the field that the body fills,
    `*` for the whole message, None for no body.
    """
    document: dict[str, Any] = {}
    if body_field is not None:
        content = _parse(body)
        content = _rename(content, _RENAMED) if version == V2_ALPHA else content
        document = content if body_field == "*" else {body_field: content}
    message = plain(kind())
    for name, value in query:
        if name not in _SYSTEM_PARAMETERS:
            field = _field(message.DESCRIPTOR, name)
            _put(document, name, _json_value(field, value), repeated=field is not None and field.is_repeated)
    for name, value in path.items():
        _put(document, name, value)
    try:
        json_format.ParseDict(document, message, ignore_unknown_fields=version == V2_ALPHA)
    except (json_format.ParseError, ValueError, TypeError) as error:
        raise _invalid_payload(str(error)) from error
    return kind.wrap(message) if is_wrapper(kind) else message


def write_answer(message: Any, version: str) -> str:
    """Return the JSON document of an answer, with the names of enums."""
    document = json_format.MessageToDict(plain(message))
    if version == V2_ALPHA:
        document = _rename(document, {name: alpha for alpha, name in _RENAMED.items()})
    text = json.dumps(document, indent=2)
    if version == V2_ALPHA:
        text = text.replace(f"googleapis.com/{_PACKAGE}", f"googleapis.com/{_ALPHA_PACKAGE}")
    return text


def _parse(body: bytes) -> dict[str, Any]:
    try:
        content = json.loads(body or b"{}")
    except (ValueError, RecursionError) as error:
        raise _invalid_payload(str(error)) from error
    if not isinstance(content, dict):
        raise _invalid_payload("The root must be an object.")
    return content


def _invalid_payload(why: str) -> rpc_errors.ApiError:
    return rpc_errors.ApiError("INVALID_ARGUMENT", f"Invalid JSON payload received. {why}")


def _put(document: Any, name: str, value: Any, *, repeated: bool = False) -> None:
    """Set the field at a dotted path; a repeated field collects its values. Raises INVALID_ARGUMENT."""
    *parents, last = name.split(".")
    for parent in parents:
        document = document.setdefault(parent, {})
        if not isinstance(document, dict):
            raise _invalid_payload(f'"{parent}" must be an object.')
    if not repeated:
        document[last] = value
    elif isinstance(values := document.setdefault(last, []), list):
        values.append(value)
    else:
        raise _invalid_payload(f'"{last}" must be a list.')


def _field(descriptor: Any, name: str) -> Any:
    return next((field for field in descriptor.fields if name in (field.name, field.json_name)), None)


def _json_value(field: Any, text: str) -> Any:
    """Return a query parameter as a JSON value of its field; None is an unknown field. Numbers may stay text.

    Field masks are camelCase in JSON. gcloud writes the fields' names in snake case, which are accepted too.
    """
    if field is not None and field.cpp_type == field.CPPTYPE_BOOL and text.lower() in ("true", "false"):
        return text.lower() == "true"
    if field is not None and field.message_type and field.message_type.full_name == _FIELD_MASK:
        return _SNAKE.sub(lambda match: match[1].upper(), text)
    return text


def _rename(value: Any, names: Mapping[str, str]) -> Any:
    if isinstance(value, dict):
        return {names.get(key, key): _rename(item, names) for key, item in value.items()}
    if isinstance(value, list):
        return [_rename(item, names) for item in value]
    return value
