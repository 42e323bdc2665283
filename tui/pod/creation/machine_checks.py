"""Checks of what slices and instance groups have in common in a request. Pure.

Sources: Compute Engine documentation, "Requirements for labels", "Limits" of custom metadata, and "Network tags".
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from tui.pod.creation.machine_request import CREATED_BY, STARTUP_SCRIPT, MachineRequest

MAX_LABELS = 64
MAX_TAGS = 64
MAX_METADATA_VALUE_BYTES = 256 * 1024
MAX_METADATA_BYTES = 512 * 1024
MAX_DESCRIPTION = 512

_LABEL_KEY = re.compile(r"[^\W\d_A-Z][\w-]{0,62}")
_LABEL_VALUE = re.compile(r"[\w-]{0,63}")
_METADATA_KEY = re.compile(r"[A-Za-z0-9_-]{1,128}")
_TAG = re.compile(r"[a-z](?:[a-z0-9-]{0,61}[a-z0-9])?")
_ACCOUNT = re.compile(r"[^@\s]+@[^@\s]+")

Objection = tuple[str, str, str]
"""The option for which a request is refused, why, and the remedy."""


def options_of(*fields: str) -> dict[str, str]:
    """Return the options that are called like their fields of a request: `--machine-type` by `machine_type`."""
    return {field: f"--{field.replace('_', '-')}" for field in fields}


def list_machine_objections(request: MachineRequest) -> Iterator[Objection]:
    """Yield why the settings of a request's machines cannot be sent."""
    if request.startup_timeout_s <= 0:
        yield "startup-timeout", "--startup-timeout is 0", "give a duration, e.g. 20m"
    for checks in (_of_labels, _of_metadata, _of_identity):
        yield from checks(request)


def _of_labels(request: MachineRequest) -> Iterator[Objection]:
    labels, (key, value) = request.labels, CREATED_BY
    if labels.get(key, value) != value:
        yield "labels", f"the label {key} is set by tpu-tui", "use another label"
    if len(request.all_labels) > MAX_LABELS:
        yield "labels", f"there are more than {MAX_LABELS} labels", f"{key} is one of them"
    for key, value in labels.items():
        if not _LABEL_KEY.fullmatch(key) or key != key.lower():
            yield (
                "labels",
                f"{key!r} cannot be the key of a label",
                "a key has up to 63 lower-case letters, digits, - and _, and begins with a letter",
            )
        if not _LABEL_VALUE.fullmatch(value) or value != value.lower():
            yield (
                "labels",
                f"{value!r} cannot be the value of label {key}",
                "a value has up to 63 lower-case letters, digits, - and _",
            )


def _of_metadata(request: MachineRequest) -> Iterator[Objection]:
    total = 0
    for key, value in request.all_metadata.items():
        option = STARTUP_SCRIPT if key == STARTUP_SCRIPT else "metadata"
        if not _METADATA_KEY.fullmatch(key):
            yield option, f"{key!r} cannot be a metadata key", "a key has up to 128 letters, digits, - and _"
        size = len(value.encode())
        total += len(key) + size
        if size > MAX_METADATA_VALUE_BYTES:
            yield (
                option,
                f"the value of metadata {key} has {size:,} bytes, and {MAX_METADATA_VALUE_BYTES:,} are allowed",
                "put it into a bucket, and read it from there with a short script",
            )
    if total > MAX_METADATA_BYTES:
        yield "metadata", f"the metadata has {total:,} bytes, and {MAX_METADATA_BYTES:,} are allowed", "shorten it"


def _of_identity(request: MachineRequest) -> Iterator[Objection]:
    account, tags = request.service_account, request.tags
    if len(request.description) > MAX_DESCRIPTION:
        yield "description", f"the description has more than {MAX_DESCRIPTION} characters", "shorten it"
    if account and not _ACCOUNT.fullmatch(account):
        yield (
            "service-account",
            f"{account} is not an e-mail address",
            "give the e-mail of the service account",
        )
    if len(tags) > MAX_TAGS:
        yield "tags", f"there are more than {MAX_TAGS} tags", "use fewer"
    for tag in tags:
        if not _TAG.fullmatch(tag):
            yield (
                "tags",
                f"{tag!r} cannot be a network tag",
                "a tag has up to 63 lower-case letters, digits and dashes, begins with a letter, ends with no dash",
            )
