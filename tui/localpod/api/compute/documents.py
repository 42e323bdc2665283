"""The resources of the pod's project as documents of the Compute Engine API v1, by their path."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import secrets
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from tui.localpod.api.compute.answers import IN_USE, ROOT, ComputeError, invalid_field, missing_path, now, relative
from tui.localpod.api.compute.guard import GLOBAL, place_field
from tui.pod.api_paths import last_part, region_of

DISKS, IMAGES, TEMPLATES, POLICIES = "disks", "images", "instanceTemplates", "resourcePolicies"
INSTANCES = "instances"
DEFAULT_SIZE_GB = 10
_NAME = re.compile(r"[a-z](?:[-a-z0-9]{0,61}[a-z0-9])?")
_TOPOLOGY = re.compile(r"[1-9][0-9]{0,3}(?:x[1-9][0-9]{0,3}){1,2}")
"""The numbers of chips along two or three sides of a slice."""
_LABELLED = (DISKS, IMAGES, INSTANCES)
_COPIED = {
    DISKS: ("description", "sourceImage", "type"),
    IMAGES: ("description", "sourceDisk", "family", "storageLocations"),
    POLICIES: ("description", "workloadPolicy", "groupPlacementPolicy"),
}
"""Fields that a new resource gets from the request unchanged."""
_LABELS = {"labels": {str: str}}
METADATA = {"items": [{"key": str, "value": str}], "fingerprint": str}
MACHINE = {
    "machineType": str,
    "disks": [
        {
            "source": str,
            "boot": bool,
            "autoDelete": bool,
            "initializeParams": {"diskName": str, "diskSizeGb": int, "sourceImage": str},
        }
    ],
    "metadata": METADATA,
    "networkInterfaces": [{"network": str, "subnetwork": str, "accessConfigs": [{}]}],
    "scheduling": {"provisioningModel": str, "preemptible": bool},
    "tags": {"items": [str]},
    **_LABELS,
}
SHAPES: Mapping[str, Mapping[str, Any]] = {
    DISKS: {"name": str, "sizeGb": int, "sourceImage": str, "type": str, **_LABELS},
    IMAGES: {"name": str, "sourceDisk": str, "family": str, "storageLocations": [str], **_LABELS},
    TEMPLATES: {"name": str, "properties": MACHINE},
    POLICIES: {"name": str, "workloadPolicy": {"acceleratorTopology": str}},
    INSTANCES: {"name": str, **MACHINE},
}
"""The shapes of requests for new resources (see `read_document`); above are those of their parts."""
_CAPITAL = re.compile(r"(?<=[a-z])([A-Z])")

UsersOf = Callable[[str], Iterable[str]]
"""Takes the path of a resource (`projects/…`) and returns the paths of the resources that use it."""


def singular(collection: str) -> str:
    """Return the name of one resource of a collection: `resourcePolicy` of `resourcePolicies`."""
    return f"{collection[:-3]}y" if collection.endswith("ies") else collection.removesuffix("s")


class DocumentStore:
    """Every stored resource, by its path (`projects/…`). Methods raise ComputeError where the API refuses."""

    def __init__(self, project: str) -> None:
        self.project = project
        self.users: list[UsersOf] = []
        self._documents: dict[str, dict[str, Any]] = {}

    def path(self, collection: str, place: str, name: str) -> str:
        """Return the path of a resource; `place` is `zones/Z`, `regions/R` or `global`."""
        return f"projects/{self.project}/{place}/{collection}/{name}"

    def exists(self, path: str) -> bool:
        """Return whether there is a resource at this path."""
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
        users = [ROOT + user for user in self._users_of(path)] if f"/{DISKS}/" in path else []
        return self._documents[path] | ({"users": users} if users else {})

    def insert(self, collection: str, place: str, wanted: dict[str, Any]) -> str:
        """Create a disk, image, template or policy and return its path."""
        path = self.check_new(collection, place, wanted)
        fields = {key: wanted[key] for key in _COPIED.get(collection, ()) if key in wanted}
        if collection == IMAGES:
            fields |= self._image_fields(wanted)
        elif collection == DISKS:
            fields |= self._disk_fields(place, wanted)
        elif collection == TEMPLATES:
            fields |= self._template_fields(wanted)
        else:
            _check_topology(wanted.get("workloadPolicy", {}).get("acceleratorTopology"))
        if collection != TEMPLATES:
            fields = {"status": "READY", **fields}
        self.add(path, fields, wanted.get("labels"))
        return path

    def check_new(self, collection: str, place: str, wanted: dict[str, Any]) -> str:
        """Return the path of a new resource. Raises ComputeError for an invalid name or one that is in use."""
        path = self.path(collection, place, name_in(wanted))
        if path in self._documents:
            raise ComputeError(409, f"The resource '{path}' already exists")
        return path

    def add(self, path: str, fields: dict[str, Any], labels: dict[str, str] | None = None) -> dict[str, Any]:
        """Add a resource with its own fields and those that every resource has; return its document."""
        _, _, *place, collection, name = path.split("/")
        document: dict[str, Any] = {
            "kind": f"compute#{singular(collection)}",
            "id": str(secrets.randbits(62) | 1),
            "creationTimestamp": now(),
            "name": name,
            "selfLink": ROOT + path,
            **fields,
            **place_field(self.project, "/".join(place)),
        }
        if labels and collection in _LABELLED:
            document["labels"] = labels
        self._documents[path] = document
        return document

    def _image_fields(self, image: dict[str, Any]) -> dict[str, Any]:
        source = relative(image.get("sourceDisk") or "")
        if not source:
            message = "Invalid value for field 'resource': ''. One of rawDisk, sourceDisk must be specified."
            raise ComputeError(400, message)
        if f"/{DISKS}/" not in source:
            raise invalid_field("resource.sourceDisk", image["sourceDisk"], "The URL is malformed.")
        disk = self.get(source)
        size = str(disk["sizeGb"])
        return {
            "sourceDisk": ROOT + source,
            "sourceDiskId": disk["id"],
            "sourceType": "RAW",
            "diskSizeGb": size,
            "archiveSizeBytes": str(int(size) << 30),
            "storageLocations": image.get("storageLocations") or [region_of(source.split("/")[3])],
        }

    def _disk_fields(self, place: str, disk: dict[str, Any]) -> dict[str, Any]:
        image = disk.get("sourceImage")
        size = disk.get("sizeGb") or (self.image(image).get("diskSizeGb") if image else 0) or DEFAULT_SIZE_GB
        kind = disk.get("type") or f"{ROOT}projects/{self.project}/{place}/diskTypes/pd-standard"
        return {"type": kind, "sizeGb": str(size), "physicalBlockSizeBytes": "4096"}

    def image(self, address: str) -> dict[str, Any]:
        """Return an image by name, or the newest of a family. Images of other projects are assumed to exist."""
        path = relative(address)
        path = path if path.startswith("projects/") else f"projects/{self.project}/{path}"
        family = path.partition(f"/{IMAGES}/family/")[2]
        if not path.startswith(f"projects/{self.project}/"):
            return _public_image(path, family)
        if not family:
            return self.get(path)
        images = [image for image in self.list_all(IMAGES, GLOBAL) if image.get("family") == family]
        if not images:
            raise missing_path(path)
        return max(images, key=lambda image: str(image["creationTimestamp"]))

    def _template_fields(self, template: dict[str, Any]) -> dict[str, Any]:
        properties = template.get("properties", {})
        if not properties.get("machineType"):
            raise ComputeError(400, "Required field 'resource.properties.machineType' not specified", "required")
        for disk in properties.get("disks", ()):
            if source := disk.get("initializeParams", {}).get("sourceImage"):
                self.image(source)
        metadata = with_fingerprint(properties.get("metadata", {}))
        described = {"description": template["description"]} if template.get("description") else {}
        return {**described, "properties": {**properties, "metadata": metadata}}

    def check_unused(self, path: str) -> None:
        """Raise ComputeError if the resource does not exist or is in use."""
        self.get(path)
        for user in self._users_of(path):
            noun = _CAPITAL.sub(r"_\1", singular(path.split("/")[-2])).lower()
            raise ComputeError(400, f"The {noun} resource '{path}' is already being used by '{user}'", IN_USE)

    def delete(self, path: str) -> None:
        """Delete an unused resource."""
        self.check_unused(path)
        del self._documents[path]

    def _users_of(self, path: str) -> list[str]:
        return [user for users in self.users for user in users(path)]


def name_in(wanted: Mapping[str, Any]) -> str:
    """Return the name that a request gives a new resource. Raises ComputeError for an invalid one."""
    name = str(wanted.get("name", ""))
    if not _NAME.fullmatch(name):
        raise invalid_field("resource.name", name, f"Must be a match of regex '{_NAME.pattern}'")
    return name


def _check_topology(topology: str | None) -> None:
    if topology is not None and not _TOPOLOGY.fullmatch(topology):
        field = "resource.workloadPolicy.acceleratorTopology"
        raise invalid_field(field, topology, f"Must be a match of regex '{_TOPOLOGY.pattern}'")


def _public_image(path: str, family: str) -> dict[str, Any]:
    """Make up an image of another project from its name."""
    path = path.replace("/family/", "/")
    name = last_part(path)
    return {
        "kind": "compute#image",
        "id": "1",
        "name": name,
        "family": family or name,
        "status": "READY",
        "diskSizeGb": str(DEFAULT_SIZE_GB),
        "selfLink": ROOT + path,
    }


def fingerprint(content: Any) -> str:
    """Return the fingerprint of metadata, tags or another part of a resource."""
    digest = hashlib.sha256(json.dumps(content, sort_keys=True).encode()).digest()
    return base64.urlsafe_b64encode(digest[:8]).decode()


def with_fingerprint(metadata: dict[str, Any]) -> dict[str, Any]:
    """Return metadata in the form of the API's answers. Raises ComputeError for an item without a key."""
    items = [{"key": item.get("key", ""), "value": item.get("value", "")} for item in metadata.get("items", ())]
    if not all(item["key"] for item in items):
        raise invalid_field("resource.metadata.items.key", "", "It must not be empty.")
    document = {"kind": "compute#metadata", "fingerprint": fingerprint(items)}
    return {**document, "items": items} if items else document
