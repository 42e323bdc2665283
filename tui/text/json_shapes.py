"""Check the types of the fields that are used in an untrusted JSON document.

A shape is `str`, `int`, `bool`, a `Text`, `[shape of each item]`, `{field: shape}` or, where every field is like the
others, `{str: shape}`. Other fields may be anything.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tui.text.numbers import parse_integer

_TYPES = {str: "string", int: "integer", bool: "boolean", list: "array", dict: "object"}
"""The names of JSON types (Google's discovery documents)."""
_SURROGATE = re.compile("[\ud800-\udfff]")
"""Half a character, which JSON can escape but neither a request nor a file can contain."""


@dataclass(frozen=True)
class Text:
    """The shape of a string that passes a test. An object may lack the field unless it is required."""

    expected: str
    accepts: Callable[[str], object]
    is_required: bool = False


NAME = Text("name", bool, is_required=True)


class ShapeError(ValueError):
    """A value is not of its shape."""

    def __init__(self, path: str, expected: str, value: Any) -> None:
        super().__init__(f"{path} should be of type {expected}")
        self.path = path
        self.expected = expected
        self.value = value


def check_shape(value: Any, shape: Any, path: str) -> None:
    """Raise ShapeError for a value at `path` of another type than its shape's. A text of digits is an integer too."""
    kind = str if isinstance(shape, Text) else shape if isinstance(shape, type) else type(shape)
    is_digits = kind is int and isinstance(value, str) and parse_integer(value) is not None
    is_right = is_digits or (isinstance(value, kind) and isinstance(value, bool) == (kind is bool))
    if not is_right or (kind is str and _SURROGATE.search(value)):
        raise ShapeError(path, _TYPES[kind], value)
    if isinstance(shape, Text) and not shape.accepts(value):
        raise ShapeError(path, shape.expected, value)
    if isinstance(shape, list):
        for number, item in enumerate(value):
            check_shape(item, shape[0], f"{path}[{number}]")
    elif isinstance(shape, dict):
        for name, item in value.items():
            if (inner := shape.get(name, shape.get(str))) is not None:
                check_shape(item, inner, f"{path}.{name}")
        for name, inner in shape.items():
            if isinstance(inner, Text) and inner.is_required and name not in value:
                raise ShapeError(f"{path}.{name}", inner.expected, None)
