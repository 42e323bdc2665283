"""Wait until a group has as many VMs as it should, and all of them run; name the VM that cannot be created.

Source: Compute Engine API v1, `listManagedInstances` (`currentAction`, `lastAttempt`), the group's
`status.bulkInstanceOperation`, and the states of resize requests.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Mapping
from typing import Any

from tui.cloud.api_errors import is_missing, without_event_id
from tui.cloud.compute.compute_requests import ComputeRequests, is_outage
from tui.cloud.compute.operation_errors import explain_failure, is_stock_out
from tui.cloud.state_reports import StateReports
from tui.errors import CloudError, TpuTuiError
from tui.pod.api_paths import last_part
from tui.pod.instance_group import HARMLESS_ACTIONS, RUNNING
from tui.text.durations import format_duration

READ = "compute.instanceGroupManagers.get"
UPDATE = "compute.instanceGroupManagers.update"
_ENDED = ("FAILED", "CANCELLED")
"""States of a resize request that creates no more VMs."""


class VmWait:
    """Reads the VMs of one group until they are as they should be; `request` names a resize request for them."""

    def __init__(self, api: ComputeRequests, zone: str, name: str, request: str = "") -> None:
        self._api = api
        self._zone = zone
        self._name = name
        self._path = f"zones/{zone}/instanceGroupManagers/{name}"
        self._request = f"{self._path}/resizeRequests/{request}" if request else ""

    async def until_running(
        self, size: int, *, is_queued: bool = False, valid_for_s: float | None = None
    ) -> AsyncIterator[str]:
        """Yield how many VMs run until all do, and no others are left.

        With `is_queued`, a lack of capacity is not an error; after `valid_for_s`, the request is withdrawn. Raises
        CloudError or UsageError with the API's reason for the first VM that cannot be created.
        """
        what = f"group {self._name} is not complete"
        reports, started_at = StateReports(), time.monotonic()
        while True:
            try:
                path = f"{self._path}/listManagedInstances"
                vms = await self._api.items(what, READ, path, key="managedInstances", verb="POST")
                reason = await self._reason(what, vms, size, is_queued=is_queued)
            except TpuTuiError as error:
                if is_missing(error):
                    why = "it was deleted while its VMs were created"
                    raise CloudError(f"group {self._name} is gone", why=why) from error.__cause__
                if not is_outage(error):
                    raise
                line = reports.report_outage("Compute Engine", error)
            else:
                running = sum(_runs(vm) for vm in vms)
                if running == size == len(vms):
                    yield f"all {size} VMs of {self._name} run" if size != 1 else f"the VM of {self._name} runs"
                    return
                leaving = len(vms) - size
                also = f", {leaving} being deleted" if leaving > 0 else ""
                line = reports.report(f"{running} of {size} VMs run{also}", reason)
            if line:
                yield line
            if valid_for_s is not None and time.monotonic() - started_at > valid_for_s:
                await self._give_up(what)
                why = f"there was no capacity within {format_duration(int(valid_for_s))}"
                remedy = f"its VMs are no longer requested: tpu-tui groups delete {self._zone}/{self._name}"
                raise CloudError(what, why=why, remedy=remedy)
            await reports.pause()

    async def _reason(self, what: str, vms: list[dict[str, Any]], size: int, *, is_queued: bool) -> str:
        """Return why VMs are missing, empty if unknown. Raises the error of VMs that will not be created."""
        for vm in vms:
            errors = vm.get("lastAttempt", {}).get("errors", {}).get("errors", ())
            if not errors or _runs(vm):
                continue
            name = vm.get("name") or last_part(vm.get("instance", ""))
            if not (is_queued and is_stock_out(errors[0])):
                raise self._failure(f"VM {name} of group {self._name} cannot be created", errors[0])
            return _message(errors[0])
        if not is_queued or len(vms) >= size:
            return ""
        return await self._reason_of_queue(what)

    async def _reason_of_queue(self, what: str) -> str:
        """Return why a group or a resize request still waits. Raises the error of a request that has ended."""
        request = await self._api.get(what, READ, self._request) if self._request else None
        if request is None:
            group = await self._api.get(what, READ, self._path) or {}
            check = group.get("status", {}).get("bulkInstanceOperation", {}).get("lastProgressCheck", {})
            errors = check.get("error", {}).get("errors", ())
            return _message(errors[0]) if errors else "waits for capacity"
        state = request.get("state")
        status = request.get("status", {})
        failures = [*_errors(status), *_errors(status.get("lastAttempt", {}))]
        if state in _ENDED:
            described = f"the resize request of group {self._name} is {state}"
            raise self._failure(described, failures[0]) if failures else CloudError(described)
        return _message(failures[0]) if failures else f"its resize request is {state}"

    def _failure(self, what: str, error: Mapping[str, Any]) -> TpuTuiError:
        explained = explain_failure(error, what, self._api.project)
        group = f"{self._zone}/{self._name}"
        stays = f"the group stays, and keeps trying; delete it with tpu-tui groups delete {group}"
        explained.remedy = f"{explained.remedy}; {stays}" if explained.remedy else stays
        return explained

    async def _give_up(self, what: str) -> None:
        """Withdraw the request for VMs: cancel the resize request, or set the group's size to 0."""
        if self._request:
            operation = await self._api.post(what, UPDATE, f"{self._request}/cancel")
        else:
            operation = await self._api.post(what, UPDATE, f"{self._path}/resize", size="0")
        async for _ in self._api.finish(operation, what, UPDATE):
            pass


def _runs(vm: Mapping[str, Any]) -> bool:
    return vm.get("instanceStatus") == RUNNING and vm.get("currentAction") in HARMLESS_ACTIONS


def _errors(status: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return list(status.get("error", {}).get("errors", ()))


def _message(error: Mapping[str, Any]) -> str:
    return without_event_id(str(error.get("message") or error.get("code"))).rstrip(".")
