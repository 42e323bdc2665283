"""Parse facts that jobs and xla_dist print: time spans and the cluster."""

from __future__ import annotations

import re
from typing import Any

_SPAN = re.compile(r"(?:(?P<days>-?\d{1,9}) days?, )?(?P<hours>\d+):(?P<minutes>\d\d):(?P<seconds>\d\d(?:\.\d+)?)")
_MEMBER = re.compile(r"\{([^{}]*)\}")


def read_span(text: str) -> float | None:
    """Return the seconds of `0:00:28` or `1 day, 1:01:01`."""
    match = _SPAN.fullmatch(text)
    if match is None:
        return None
    return (
        int(match["days"] or 0) * 86_400
        + int(match["hours"]) * 3_600
        + int(match["minutes"]) * 60
        + float(match["seconds"])
    )


def read_cluster(text: str) -> dict[str, Any]:
    """Parse xla_dist's `Cluster configuration`: machines by address, and the TPU they drive."""
    clients_text, _, services_text = text.partition("service_workers:")
    clients = [[field.strip() for field in member.split(",")] for member in _MEMBER.findall(clients_text.lstrip("{"))]
    services = [[field.strip() for field in member.split(",")] for member in _MEMBER.findall(services_text)]
    first = services[0] if services and len(services[0]) >= 6 else [None] * 6
    return {
        "clients": [
            {"address": client[0], "machine_type": client[1], "zone": client[2], "hostname": client[3]}
            for client in clients
            if len(client) >= 4
        ],
        "accelerator_type": first[2],
        "zone": first[3],
        "runtime_version": first[4],
        "tpu": first[5],
        "service_workers": len(services),
    }
