"""Why a group lost a VM, from the operations of its zone. Pure.

Source: Compute Engine API v1, `zoneOperations`; Compute Engine documentation, "Spot VMs" and "About host events" for
the operations that the system starts (`compute.instances.preempted`, …).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta, timezone
from typing import Any

from tui.pod.api_paths import last_part
from tui.pod.worker import Worker
from tui.text.printable import one_line
from tui.text.timestamps import parse_time

Document = Mapping[str, Any]

CLOCK_TOLERANCE = timedelta(minutes=2)
"""How far this machine's clock may be ahead of the API's."""
_BY_SYSTEM = {
    "preempted": "was preempted",
    "hostError": "was lost with its host (host error)",
    "terminateOnHostMaintenance": "was terminated for the maintenance of its host",
    "guestTerminate": "was shut down from within",
    "recreateInstance": "was repaired by {group}, which recreated it",
}
_BY_REQUEST = {
    "stop": "was stopped",
    "suspend": "was suspended",
    "reset": "was reset",
    "delete": "was deleted",
}
"""What the operations on a VM mean for it, by the last part of their type."""
_REMOVED = {
    "resize": "was deleted by a resize of {group}",
    "deleteInstances": "was deleted from {group}",
    "abandonInstances": "was abandoned by {group}",
}
_REPLACED = {
    "recreateInstances": "was recreated by {group}",
    "applyUpdatesToInstances": "was replaced by an update of {group}",
    "patch": "was replaced by an update of {group}",
}
"""What the operations on a group mean for a VM that it no longer has, and for one that it recreated."""
_SERVICE_AGENT = "gserviceaccount.com"
_OF_GROUPS, _OF_VMS = "/instanceGroupManagers/", "/instances/"
_NEVER = datetime.min.replace(tzinfo=timezone.utc)


def explain_losses(
    operations: Iterable[Document], group: str, lost: Iterable[Worker], left: Iterable[Worker], since: str | None
) -> dict[int, str]:
    """Return why lost workers' VMs are gone, by worker: `was preempted`; workers without an explanation are left out.

    `left` are the workers that the group has now. A system event takes precedence over the request that followed it,
    and a request to the group over the deletion that carried it out.
    """
    earliest = (parse_time(since) or _NEVER) - (CLOCK_TOLERANCE if since else timedelta())
    recent = [operation for operation in operations if _time(operation) >= earliest]
    recent.sort(key=_time, reverse=True)
    remaining = {worker.hostname for worker in left}
    reasons: dict[int, str] = {}
    for worker in lost:
        of_vm = [operation for operation in recent if _is_about(operation, worker)]
        by_group = _REPLACED if worker.hostname in remaining else _REMOVED
        of_group = [
            operation for operation in recent if _OF_GROUPS in _link(operation) and _target(operation) == group
        ]
        for candidates, meanings in ((of_vm, _BY_SYSTEM), (of_group, by_group), (of_vm, _BY_REQUEST)):
            if text := _meaning(candidates, meanings, group):
                reasons[worker.index] = text
                break
    return reasons


def _meaning(operations: Sequence[Document], meanings: Mapping[str, str], group: str) -> str:
    """Return the meaning of the newest operation that has one, with the user who requested it; empty without one."""
    newest = next((operation for operation in operations if _verb(operation) in meanings), None)
    if newest is None:
        return ""
    user = one_line(newest.get("user", ""))
    requester = f" by {user}" if "@" in user and not user.endswith(_SERVICE_AGENT) else ""
    return meanings[_verb(newest)].format(group=group) + requester


def _is_about(operation: Document, worker: Worker) -> bool:
    """Return whether an operation is about a worker's VM, and not about a later VM of the same name."""
    is_same = str(operation.get("targetId", worker.machine_id)) == worker.machine_id
    return _OF_VMS in _link(operation) and _target(operation) == worker.hostname and is_same


def _verb(operation: Document) -> str:
    return str(operation.get("operationType", "")).rpartition(".")[2]


def _link(operation: Document) -> str:
    return str(operation.get("targetLink", ""))


def _target(operation: Document) -> str:
    return last_part(_link(operation))


def _time(operation: Document) -> datetime:
    moment = parse_time(operation.get("insertTime"))
    return moment if moment is not None and moment.tzinfo is not None else _NEVER
