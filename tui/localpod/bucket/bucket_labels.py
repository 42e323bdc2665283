"""Labels of buckets. fake-gcs-server does not store them, so the proxy adds them to its answers about buckets.

The labels exist as long as the proxy, which runs as long as the buckets exist.
"""

from __future__ import annotations

import json
import re
from typing import Any

_BUCKET_PATH = re.compile(r"/storage/v1/b(?:/(?P<name>[^/?]+))?(?:\?.*)?")
_METHODS = ("GET", "POST", "PATCH", "PUT", "DELETE")


def is_about_buckets(method: str, target: str) -> bool:
    """Return whether a request lists, reads or changes buckets, not their contents."""
    return method in _METHODS and _BUCKET_PATH.fullmatch(target) is not None


class BucketLabels:
    """The labels by bucket."""

    def __init__(self) -> None:
        self._labels: dict[str, dict[str, str]] = {}

    def add_to(self, content: bytes, method: str, target: str, body: bytes) -> bytes:
        """Return the content of the answer to a successful request about buckets, with labels."""
        match = _BUCKET_PATH.fullmatch(target)
        if method == "DELETE" and match and match["name"]:
            self._labels.pop(match["name"], None)
        document = _parse(content)
        if document is None:
            return content
        if method in ("POST", "PATCH", "PUT"):
            self._take(document.get("name", ""), _parse(body) or {}, is_patch=method == "PATCH")
        for bucket in document.get("items", [document]):
            if labels := self._labels.get(bucket.get("name", "")):
                bucket["labels"] = labels
        return json.dumps(document).encode()

    def _take(self, name: str, document: dict[str, Any], *, is_patch: bool) -> None:
        """Set a bucket's labels from a request; a patch keeps the other labels and removes those that are null."""
        if is_patch and "labels" not in document:
            return
        before = self._labels.get(name, {}) if is_patch else {}
        after = before | (document.get("labels") or {})
        self._labels[name] = {key: value for key, value in after.items() if value is not None}


def _parse(body: bytes) -> dict[str, Any] | None:
    try:
        document = json.loads(body)
    except ValueError:
        return None
    return document if isinstance(document, dict) else None
