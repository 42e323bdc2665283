"""Documents of the Compute Engine API v1 as its reference describes them, for tests."""

from __future__ import annotations

from typing import Any

ROOT = "https://www.googleapis.com/compute/v1/projects/p"
ZONE = f"{ROOT}/zones/us-central1-a"


def manager(name: str = "tpus", size: int = 2, **fields: Any) -> dict[str, Any]:
    """Return an instance group manager."""
    return {
        "kind": "compute#instanceGroupManager",
        "id": "7001",
        "creationTimestamp": "2026-11-24T07:00:00.000-08:00",
        "name": name,
        "zone": ZONE,
        "instanceTemplate": f"{ROOT}/global/instanceTemplates/{name}-template",
        "versions": [{"instanceTemplate": f"{ROOT}/global/instanceTemplates/{name}-template"}],
        "targetSize": size,
        "status": {"isStable": True},
        **fields,
    }


def template(machine_type: str = "ct6e-standard-4t", metadata: dict[str, str] | None = None, **fields: Any) -> Any:
    """Return an instance template."""
    items = [{"key": key, "value": value} for key, value in (metadata or {}).items()]
    properties = {
        "machineType": machine_type,
        "networkInterfaces": [{"network": f"{ROOT}/global/networks/default"}],
        "metadata": {"kind": "compute#metadata", "items": items},
        **fields,
    }
    return {"kind": "compute#instanceTemplate", "name": "t", "properties": properties}


def managed(name: str, status: str | None = "RUNNING", action: str = "NONE", **fields: Any) -> dict[str, Any]:
    """Return a row of `listManagedInstances`; a VM without a status does not exist and has no ID."""
    there = {"id": str(abs(hash(name)) % 10**9), "instanceStatus": status} if status else {}
    return {"instance": f"{ZONE}/instances/{name}", "name": name, "currentAction": action, **there, **fields}


def instance(name: str, ip: str, external: str | None = None, **metadata: str) -> dict[str, Any]:
    """Return an instance."""
    access = {"accessConfigs": [{"type": "ONE_TO_ONE_NAT", "natIP": external}]} if external else {}
    items = [{"key": key.replace("_", "-"), "value": value} for key, value in metadata.items()]
    return {
        "kind": "compute#instance",
        "name": name,
        "status": "RUNNING",
        "networkInterfaces": [{"networkIP": ip, **access}],
        "metadata": {"items": items} if items else {"kind": "compute#metadata"},
    }


def operation(kind: str, target: str, time: str, **fields: Any) -> dict[str, Any]:
    """Return an operation of the zone; `target` is a path below the zone."""
    return {"operationType": kind, "targetLink": f"{ZONE}/{target}", "insertTime": time, "status": "DONE", **fields}
