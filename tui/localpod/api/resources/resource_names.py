"""Resource names: `projects/P/locations/Z/nodes/N` parsed and built."""

from __future__ import annotations

import re
from dataclasses import dataclass

from tui.localpod.api import rpc_errors

ANY_ZONE = "-"
"""The location that stands for every zone (lists only)."""
MAX_ID_LENGTH = 63

_PLACE = re.compile(r"projects/(?P<project>[^/]+)/locations/(?P<zone>[^/]+)(?:/(?P<collection>[^/]+)/[^/]+)?")
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.~+%-]*")
"""The documented characters of a queued resource's ID, but no leading dot: the ID is also a directory's name."""


@dataclass(frozen=True)
class ResourceLocation:
    """A project's zone."""

    project: str
    zone: str

    def __str__(self) -> str:
        return f"projects/{self.project}/locations/{self.zone}"

    def child(self, collection: str, resource_id: str) -> str:
        """Return the full name of a resource in this place."""
        return f"{self}/{collection}/{resource_id}"


def parse_place(text: str) -> ResourceLocation:
    """Return the place of a parent or of a resource's full name. Raises INVALID_ARGUMENT."""
    match = _PLACE.fullmatch(text)
    if match is None:
        raise rpc_errors.invalid(f"the resource name '{text}' is malformed", "name")
    return ResourceLocation(match["project"], match["zone"])


def check_name(name: str, collection: str) -> None:
    """Raise INVALID_ARGUMENT unless this is the full name of a resource in this collection."""
    match = _PLACE.fullmatch(name)
    if match is None or match["collection"] != collection:
        raise rpc_errors.invalid(f"the resource name '{name}' is malformed", "name")


def check_id(resource_id: str, field: str) -> None:
    """Raise INVALID_ARGUMENT unless the ID is valid for a new resource."""
    if not _ID.fullmatch(resource_id):
        raise rpc_errors.invalid(f"'{resource_id}' is not a valid id: it must match ^{_ID.pattern}$", field)
    if len(resource_id) > MAX_ID_LENGTH:
        raise rpc_errors.invalid(f"'{resource_id}' is not a valid id: it is longer than {MAX_ID_LENGTH}", field)
