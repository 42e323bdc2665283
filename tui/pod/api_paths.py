"""Names in the paths and addresses of Google's APIs (`projects/P/zones/Z/disks/NAME`). Pure."""

from __future__ import annotations


def last_part(path: str) -> str:
    """Return the name at the end of a resource's path or address."""
    return path.rpartition("/")[2]


def region_of(zone: str) -> str:
    """Return the region of a zone."""
    return zone.rpartition("-")[0] or zone
