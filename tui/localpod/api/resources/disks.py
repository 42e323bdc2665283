"""The disks and images of the pod's project, as documents of the Compute Engine API v1."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import secrets
from collections.abc import Callable, Iterable
from datetime import datetime, timezone
from typing import Any

from tui.localpod.api.compute_answers import ROOT, ComputeError, missing_path

DISKS, IMAGES = "disks", "images"
GLOBAL = "global"
"""The place of images."""
DEFAULT_SIZE_GB = 10
_NAME = re.compile(r"[a-z](?:[-a-z0-9]{0,61}[a-z0-9])?")
_ALSO_SET = ("description", "sourceImage", "sourceDisk", "family", "type")

UsersOf = Callable[[str], Iterable[str]]
"""Returns the paths of what a disk is attached to, by the disk's path from `projects/` on."""


class DisksAndImagesStore:
    """Disks by zone and images, by path from `projects/` on. Raises ComputeError as the API refuses."""

    def __init__(self, project: str) -> None:
        self.project = project
        self.users_of: UsersOf = lambda _: ()
        self._documents: dict[str, dict[str, Any]] = {}

    def path(self, collection: str, place: str, name: str) -> str:
        """Return the path of a resource; `place` is `zones/Z` or `global`."""
        return f"projects/{self.project}/{place}/{collection}/{name}"

    def exists(self, path: str) -> bool:
        """Return whether there is a disk or image at this path."""
        return path in self._documents

    def list_all(self, collection: str, place: str) -> list[dict[str, Any]]:
        """Return the resources of a place in order of their names."""
        prefix = self.path(collection, place, "")
        return [self.get(path) for path in sorted(self._documents) if path.startswith(prefix)]

    def places(self, collection: str) -> list[str]:
        """Return the places that have resources of this collection."""
        pattern = re.compile(rf"projects/[^/]+/(.+)/{collection}/[^/]+")
        return sorted({match[1] for path in self._documents if (match := pattern.fullmatch(path))})

    def get(self, path: str) -> dict[str, Any]:
        """Return one resource as it is now."""
        if path not in self._documents:
            raise missing_path(path)
        users = [ROOT + user for user in self.users_of(path)]
        return self._documents[path] | ({"users": users} if users else {})

    def insert(self, collection: str, place: str, wanted: dict[str, Any]) -> str:
        """Create a resource and return its path."""
        name = wanted.get("name")
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise ComputeError(
                400, f"Invalid value for field 'resource.name': '{name}'. Must be a match of regex '{_NAME.pattern}'"
            )
        path = self.path(collection, place, name)
        if path in self._documents:
            raise ComputeError(409, f"The resource '{path}' already exists")
        source = wanted.get("sourceDisk")
        if source:
            wanted = wanted | {"sourceDisk": ROOT + _relative(source)}
        if collection == IMAGES and not self.exists(_relative(source or "")):
            raise (
                missing_path(_relative(source))
                if source
                else ComputeError(
                    400, "Invalid value for field 'resource': ''. One of rawDisk, sourceDisk must be specified."
                )
            )
        document = self._new(collection, place, path, name, wanted)
        self._documents[path] = document
        return path

    def _new(self, collection: str, place: str, path: str, name: str, wanted: dict[str, Any]) -> dict[str, Any]:
        labels = wanted.get("labels") or {}
        document = {
            "kind": f"compute#{collection.removesuffix('s')}",
            "id": str(secrets.randbits(62) | 1),
            "creationTimestamp": datetime.now(timezone.utc).isoformat(timespec="milliseconds"),
            "name": name,
            "status": "READY",
            "selfLink": ROOT + path,
            **{key: wanted[key] for key in _ALSO_SET if key in wanted},
            **({"labels": labels} if labels else {}),
            "labelFingerprint": _fingerprint(labels),
        }
        if collection == DISKS:
            zone = f"{ROOT}projects/{self.project}/{place}"
            size = str(wanted.get("sizeGb") or DEFAULT_SIZE_GB)
            document.setdefault("type", f"{zone}/diskTypes/pd-standard")
            return document | {"zone": zone, "sizeGb": size, "physicalBlockSizeBytes": "4096"}
        size = self._documents[_relative(wanted["sourceDisk"])]["sizeGb"]
        archive = str(int(size) << 30)
        return document | {"sourceType": "RAW", "diskSizeGb": size, "archiveSizeBytes": archive}

    def set_labels(self, path: str, wanted: dict[str, Any]) -> None:
        """Replace a resource's labels; the request must have the fingerprint of the present ones."""
        document = self.get(path)
        if wanted.get("labelFingerprint") != document["labelFingerprint"]:
            raise ComputeError(412, "Labels fingerprint either invalid or resource labels have changed")
        labels = wanted.get("labels") or {}
        self._documents[path].update(labels=labels, labelFingerprint=_fingerprint(labels))

    def delete(self, path: str) -> None:
        """Delete a resource that nothing uses."""
        users = self.get(path).get("users")
        if users:
            user = users[0].removeprefix(ROOT)
            message = f"The disk resource '{path}' is already being used by '{user}'"
            raise ComputeError(400, message, "resourceInUseByAnotherResource")
        del self._documents[path]


def _relative(address: str) -> str:
    """Return the path from `projects/` on of an address or a path."""
    return address[address.find("projects/") :] if "projects/" in address else address


def _fingerprint(labels: dict[str, str]) -> str:
    digest = hashlib.sha256(json.dumps(labels, sort_keys=True).encode()).digest()
    return base64.urlsafe_b64encode(digest[:8]).decode()
