"""The choice between the sources of slices. Only those of a project load what speaks to Google Cloud."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tui.cloud.hosts_file import HostsFile
from tui.cloud.inventory import Inventory
from tui.pod.slice import TPU_API
from tui.settings import Settings

if TYPE_CHECKING:
    from tui.cloud.cloud_inventory import CloudInventory

CLOUD_MODULES = ("tui.cloud.cloud_inventory", "tui.cloud.instance_groups.instance_groups", "tui.cloud.tpu.tpu_api")
"""What the sources of a project are loaded from."""


def open_inventory(settings: Settings, source: str | None = None) -> Inventory:
    """Return what the settings name: a hosts file, else the project's sources, or only the Cloud TPU API's."""
    if settings.hosts is not None:
        return HostsFile(settings.hosts)
    if source == TPU_API:
        from tui.cloud.tpu.tpu_api import TpuApi

        return TpuApi(settings)
    return cloud_inventory(settings)


def cloud_inventory(settings: Settings, *, patience: float | None = None) -> CloudInventory:
    """Return the sources of a project; a local pod without a Compute Engine API has no groups."""
    from tui.cloud.cloud_inventory import CloudInventory
    from tui.cloud.instance_groups.instance_groups import InstanceGroups
    from tui.cloud.tpu.tpu_api import TpuApi

    endpoints = settings.endpoints
    has_groups = "compute" in endpoints or "tpu" not in endpoints
    groups = InstanceGroups(settings, patience=patience) if has_groups else None
    return CloudInventory(TpuApi(settings, patience=patience), groups)
