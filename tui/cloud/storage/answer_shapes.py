"""The shapes of Cloud Storage's answers, with the fields that this program and Google's client read (JSON API v1)."""

from __future__ import annotations

import re
from typing import Any

from tui.text.json_shapes import NAME, Text
from tui.text.timestamps import parse_time

_API = "/storage/v1/b"
_UTC = re.compile(r"(?P<second>[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:]{8})(\.[0-9]{1,9})?Z")
_TIME = Text("time", lambda text: (match := _UTC.fullmatch(text)) and parse_time(match["second"]))
_BUCKET = {
    "name": NAME,
    "labels": {str: str},
    "location": str,
    "timeCreated": _TIME,
    "customPlacementConfig": {"dataLocations": [str]},
    "softDeletePolicy": {"retentionDurationSeconds": int},
}
_OBJECT = {
    "name": NAME,
    "generation": int,
    "size": int,
    "updated": _TIME,
    "crc32c": str,
    "metadata": {str: str},
}


def shape_of(verb: str, path: str) -> Any:
    """Return the shape of a bucket, an object or a list of them; None for a deletion and an object's content."""
    if verb == "DELETE" or (verb == "GET" and not path.startswith(_API)):
        return None
    if verb != "GET":
        return {}
    places = path.removeprefix(_API).split("/")[1:]
    shape = _BUCKET if len(places) < 2 else _OBJECT
    return shape if len(places) in (1, 3) else {"items": [shape], "nextPageToken": str}
