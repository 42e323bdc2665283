"""Change the size of a managed instance group, and wait until it has its VMs."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator, Mapping
from typing import Any

from tui.cloud.compute.compute_requests import ComputeRequests
from tui.cloud.compute.groups.vm_wait import READ, UPDATE, VmWait
from tui.errors import NoSuchResourceError, UsageError
from tui.pod.groups.group_request import FLEX_START
from tui.settings import Settings

_LONGEST_PREFIX = 56
"""Characters of a resize request's name before its random suffix; the whole has at most 63."""


class GroupResizing:
    """Resizes one group of a zone."""

    def __init__(self, settings: Settings, zone: str, name: str) -> None:
        self._settings = settings
        self._zone = zone
        self._name = name
        self._path = f"zones/{zone}/instanceGroupManagers/{name}"
        self._what = f"group {name} cannot be resized"

    async def resize(self, size: int, *, dry_run: bool = False, waits: bool = True) -> AsyncIterator[str]:
        """Resize the group and yield the progress until all VMs run; without `waits`, until that is requested.

        Additional flex-start VMs need a resize request. Raises UsageError, CloudError.
        """
        async with ComputeRequests(self._settings) as api:
            group = await api.get(self._what, READ, self._path)
            if group is None:
                why, remedy = f"there is no group {self._name} in {self._zone}", "tpu-tui groups list lists them"
                raise NoSuchResourceError(self._what, why=why, remedy=remedy)
            present = int(group.get("targetSize", 0))
            is_bulk = group.get("targetSizePolicy", {}).get("mode") == "BULK"
            if is_bulk and 0 < present < size:
                why = f"its {present} VMs are one slice, which is created all at once"
                remedy = f"resize it to 0 first, or create another group of {size}"
                raise UsageError(self._what, why=why, remedy=remedy)
            if dry_run:
                yield f"would resize group {self._name} in {self._zone} from {present} to {size} VMs"
                return
            is_flex = await self._is_flex_start(api, group)
            request = ""
            if is_flex and not is_bulk and size > present:
                request = f"{self._name[:_LONGEST_PREFIX]}-{secrets.token_hex(3)}"
                document = {"name": request, "resizeBy": size - present}
                operation = await api.post(self._what, UPDATE, f"{self._path}/resizeRequests", document)
            else:
                operation = await api.post(self._what, UPDATE, f"{self._path}/resize", size=str(size))
            yield f"requested the resize of group {self._name} from {present} to {size}"
            async for line in api.finish(operation, self._what, UPDATE):
                yield line
            if waits:
                wait = VmWait(api, self._zone, self._name, request)
                async for line in wait.until_running(size, is_queued=is_flex or is_bulk):
                    yield line

    async def _is_flex_start(self, api: ComputeRequests, group: Mapping[str, Any]) -> bool:
        """Return whether the group's VMs are flex-start VMs, by its template."""
        link = str(group.get("instanceTemplate", ""))
        template = await api.get(self._what, "compute.instanceTemplates.get", link)
        scheduling = (template or {}).get("properties", {}).get("scheduling", {})
        return bool(scheduling.get("provisioningModel") == FLEX_START)
