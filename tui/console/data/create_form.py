"""The fields of the form that creates a slice, and the request that their texts make."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tui.pod.accelerator import TPU_API_GENERATIONS
from tui.pod.creation.gcloud_notation import parse_disk, parse_duration, parse_items, parse_pairs
from tui.pod.creation.machine_checks import MAX_METADATA_VALUE_BYTES
from tui.pod.creation.machine_request import STARTUP_SCRIPT
from tui.pod.creation.request_checks import list_objections
from tui.pod.creation.slice_request import QueueRequest, SliceRequest
from tui.pod.creation.zone_offer import ZoneOffer
from tui.text.numbers import parse_integer

MOST_NODES = 1_000


def _parse_count(text: str) -> int:
    count = parse_integer(text, MOST_NODES)
    if count is None:
        raise ValueError(f"must be a whole number up to {MOST_NODES:,}, not {text!r}")
    return count


def _parse_disks(text: str) -> tuple[Any, ...]:
    return tuple(parse_disk(disk) for disk in text.split())


@dataclass(frozen=True)
class CreateField:
    """A field of the form; its name is that of the option of `slices create`."""

    placeholder: str = ""
    """What the field shows while it is empty."""
    parse: Callable[[str], Any] = str
    """Parses the text; raises ValueError that says what it must be."""
    choices: Mapping[str, str] = field(default_factory=dict)
    """The only possible values, with their labels; the first is the default."""
    argument: str = ""
    """The argument of `SliceRequest` that has the value as it is; empty if it needs more than that."""


FREQUENT_FIELDS: Mapping[str, CreateField] = {
    "name": CreateField("of the new slice", argument="name"),
    "zone": CreateField("e.g. us-central1-a", argument="zone"),
    "type": CreateField("a type, e.g. v3-32; or a generation, e.g. v4", str.lower),
    "topology": CreateField("chips per side, e.g. 2x2x2", str.lower, argument="topology"),
    "version": CreateField("e.g. tpu-ubuntu2204-base", argument="runtime_version"),
    "capacity": CreateField(
        choices={
            "": "on demand",
            "spot": "spot: cheaper, can be preempted",
            "preemptible": "preemptible: at most 24 hours",
            "reserved": "reserved: use a reservation",
        }
    ),
    STARTUP_SCRIPT: CreateField("a local file that every worker runs"),
    "startup-timeout": CreateField("20m: how long it may take", parse_duration, argument="startup_timeout_s"),
    "queued": CreateField(choices={"": "create now", "yes": "wait in the queue for capacity"}),
    "valid-for": CreateField("leave the queue after, e.g. 6h", parse_duration),
    "nodes": CreateField("1: how many slices", _parse_count),
}
"""The fields that are always shown; topology, timeout and queue fields only where they apply."""
MORE_FIELDS: Mapping[str, CreateField] = {
    "network": CreateField("default: default", argument="network"),
    "subnetwork": CreateField("of the region", argument="subnetwork"),
    "internal-ips": CreateField(choices={"": "external addresses, too", "yes": "internal addresses only"}),
    "service-account": CreateField("an e-mail address", argument="service_account"),
    "scopes": CreateField("SCOPE,…", parse_items, argument="scopes"),
    "tags": CreateField("network tags: TAG,…", parse_items, argument="tags"),
    "labels": CreateField("K=V,…; created-by=tpu-tui is added", parse_pairs, argument="labels"),
    "metadata": CreateField("K=V,…", parse_pairs),
    "data-disk": CreateField("source=PATH,mode=read-only …", _parse_disks, argument="data_disks"),
    "description": CreateField(argument="description"),
}
"""The fields that are shown on demand."""
FIELDS: Mapping[str, CreateField] = {**FREQUENT_FIELDS, **MORE_FIELDS}
REQUIRED = ("name", "zone", "type", "version")
QUEUE_FIELDS = ("valid-for", "nodes")
_FIELD_OF_OPTION = {"spot": "capacity", "node-prefix": "name"}
"""Fields whose name differs from the option that an objection names."""


@dataclass(frozen=True)
class FormReading:
    """The request, once all required fields are filled in, and what is wrong, by field."""

    request: SliceRequest | None
    problems: Mapping[str, str]
    missing: tuple[str, ...]
    """Required fields that are empty."""

    @property
    def is_complete(self) -> bool:
        """Return whether the request can be sent."""
        return self.request is not None and not self.problems


def is_generation(type_text: str) -> bool:
    """Return whether the text in the type's field is a generation, which needs a topology."""
    return type_text.lower() in TPU_API_GENERATIONS


def _is_beginning(type_text: str) -> bool:
    """Return whether the text may become a generation: it is too early to object to it."""
    return not is_generation(type_text) and any(
        generation.startswith(type_text) for generation in TPU_API_GENERATIONS
    )


def is_shown(name: str, texts: Mapping[str, str]) -> bool:
    """Return whether a field applies, given the texts of all fields."""
    if name in QUEUE_FIELDS:
        return bool(texts["queued"])
    if name == "startup-timeout":
        return bool(texts[STARTUP_SCRIPT])
    return name != "topology" or is_generation(texts["type"])


def read_form(texts: Mapping[str, str], taken: Iterable[str] = ()) -> FormReading:
    """Return the request that the texts make, and every problem at its field; `taken` are `zone/name` of slices."""
    entries = {name: text.strip() for name, text in texts.items()}
    entries = {name: text if is_shown(name, entries) else "" for name, text in entries.items()}
    values: dict[str, Any] = {}
    problems: dict[str, str] = {}
    for name, text in entries.items():
        if text:
            try:
                values[name] = _read_script(text) if name == STARTUP_SCRIPT else FIELDS[name].parse(text)
            except ValueError as error:
                problems[name] = str(error)
    if STARTUP_SCRIPT in values and STARTUP_SCRIPT in values.get("metadata", {}):
        problems["metadata"] = f"{STARTUP_SCRIPT} is given as a file already"
    if _is_beginning(entries["type"].lower()):
        values.pop("type", None)
        entries["type"] = ""
    missing = tuple(name for name in REQUIRED if not entries[name])
    if "topology" not in values and is_generation(entries["type"]):
        missing += ("topology",)
    request = _make_request(values, entries)
    for option, why, remedy in list_objections(request):
        name = _FIELD_OF_OPTION.get(option, option)
        if name not in missing and is_shown(name, entries):
            problems.setdefault(name, f"{why}; {remedy}")
    for path in (f"{request.zone}/{node}" for node in request.slice_names):
        if path in set(taken):
            problems.setdefault("name", f"a slice {path} exists already")
    return FormReading(None if missing else request, problems, missing)


def _make_request(values: Mapping[str, Any], entries: Mapping[str, str]) -> SliceRequest:
    """Return the request; what is not given or cannot be parsed is left out."""
    arguments = {
        form_field.argument: values[name]
        for name, form_field in FIELDS.items()
        if form_field.argument and name in values
    }
    metadata = dict(values.get("metadata", {}))
    files = {}
    if STARTUP_SCRIPT in values:
        metadata[STARTUP_SCRIPT] = values[STARTUP_SCRIPT]
        files[STARTUP_SCRIPT] = entries[STARTUP_SCRIPT]
    kind = "accelerator_type" if "-" in entries["type"] else "generation"
    nodes = None if values.get("nodes") == 1 else values.get("nodes")
    queue = QueueRequest(valid_for_s=values.get("valid-for"), nodes=nodes) if entries["queued"] else None
    return SliceRequest(
        **{"name": "", "zone": "", **arguments, kind: values.get("type", "")},
        metadata=metadata,
        metadata_files=files,
        internal_ips=bool(entries["internal-ips"]),
        queue=queue,
        spot=entries["capacity"] == "spot",
        preemptible=entries["capacity"] == "preemptible",
        reserved=entries["capacity"] == "reserved",
    )


def _read_script(text: str) -> str:
    """Return the text of a file. Raises ValueError for what cannot be metadata."""
    try:
        path = Path(text).expanduser()
        if not path.is_file():
            raise ValueError(f"{text} is not a file" if path.exists() else f"there is no file {text}")
        if (size := path.stat().st_size) > MAX_METADATA_VALUE_BYTES:
            raise ValueError(f"{text} has {size:,} bytes, and {MAX_METADATA_VALUE_BYTES:,} are allowed")
        script = path.read_bytes().decode()
    except UnicodeDecodeError:
        raise ValueError(f"{text} is not UTF-8 text") from None
    except RuntimeError:
        raise ValueError(f"there is no user {text.partition('/')[0]}") from None
    except OSError as error:
        raise ValueError(f"{text} cannot be read: {os.strerror(error.errno or 0)}") from None
    if not script.strip():
        raise ValueError(f"{text} is empty")
    return script


def list_choices(
    name: str, texts: Mapping[str, str], zones: Sequence[str], offers: Iterable[ZoneOffer]
) -> tuple[str, ...]:
    """Return what is offered for a field: zones, and types, topologies and versions of the zone."""
    offer = next((zone_offer for zone_offer in offers if zone_offer.zone == texts["zone"].strip()), None)
    if name == "zone":
        return tuple(dict.fromkeys((*zones, *(zone_offer.zone for zone_offer in offers))))
    if offer is None:
        return ()
    if name == "topology":
        generation = texts["type"].strip().lower()
        offered = (topologies for kind, topologies in offer.types.items() if kind.rpartition("-")[0] == generation)
        return tuple(dict.fromkeys(topology for topologies in offered for topology in topologies))
    return {"type": tuple(offer.types), "version": offer.versions}.get(name, ())


def warn_about_offer(request: SliceRequest, offers: Iterable[ZoneOffer]) -> dict[str, str]:
    """Return by field what the zone does not offer: the API would refuse it."""
    offer = next((zone_offer for zone_offer in offers if zone_offer.zone == request.zone), None)
    if offer is None:
        return {}
    warnings = {}
    if offer.types and request.type_name not in offer.types:
        warnings["topology" if request.topology else "type"] = f"{request.zone} does not offer {request.type_name}"
    if offer.versions and request.runtime_version not in offer.versions:
        warnings["version"] = f"{request.zone} does not offer {request.runtime_version}"
    return warnings
