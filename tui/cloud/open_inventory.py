"""The choice between the sources of slices."""

from __future__ import annotations

from tui.cloud.hosts_file import HostsFile
from tui.cloud.inventory import Inventory
from tui.cloud.tpu.tpu_api import TpuApi
from tui.settings import Settings


def open_inventory(settings: Settings) -> Inventory:
    """Return the source that the settings name: a hosts file, else the Cloud TPU API."""
    return TpuApi(settings) if settings.hosts is None else HostsFile(settings.hosts)
