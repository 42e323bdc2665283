"""The choice between the sources of slices."""

from __future__ import annotations

from tui.cloud.cloud_inventory import CloudInventory
from tui.cloud.hosts_file import HostsFile
from tui.cloud.instance_groups.instance_groups import InstanceGroups
from tui.cloud.inventory import Inventory
from tui.cloud.tpu.tpu_api import TpuApi
from tui.pod.slice import TPU_API
from tui.settings import Settings


def open_inventory(settings: Settings, source: str | None = None) -> Inventory:
    """Return what the settings name: a hosts file, else the project's sources, or only the Cloud TPU API's."""
    if settings.hosts is not None:
        return HostsFile(settings.hosts)
    return TpuApi(settings) if source == TPU_API else cloud_inventory(settings)


def cloud_inventory(settings: Settings, *, patience: float | None = None) -> CloudInventory:
    """Return the sources of a project; a local pod without a Compute Engine API has no groups."""
    endpoints = settings.endpoints
    has_groups = "compute" in endpoints or "tpu" not in endpoints
    groups = InstanceGroups(settings, patience=patience) if has_groups else None
    return CloudInventory(TpuApi(settings, patience=patience), groups)
