"""Managed instance groups: they create, repair, recreate and delete their machines until the target size is met."""

from __future__ import annotations

import asyncio
import secrets
import string
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from tui.aio.background_tasks import BackgroundTasks
from tui.localpod.api.compute.answers import ROOT, ComputeError, no_capacity, now, relative
from tui.localpod.api.compute.documents import INSTANCES, DocumentStore
from tui.localpod.api.compute.instances import Instances, Vm
from tui.localpod.api.compute.machine_types import MACHINE_TYPES, tpu_env
from tui.localpod.api.conditions import ServiceConditions
from tui.pod.api_paths import last_part

MANAGERS = "instanceGroupManagers"
BULK = "BULK"
DO_NOTHING = "DO_NOTHING"
NONE, CREATING, RECREATING, DELETING = "NONE", "CREATING", "RECREATING", "DELETING"
_ACTIONS = {
    NONE: "none",
    CREATING: "creating",
    "CREATING_WITHOUT_RETRIES": "creatingWithoutRetries",
    RECREATING: "recreating",
    DELETING: "deleting",
    "ABANDONING": "abandoning",
    "RESTARTING": "restarting",
    "REFRESHING": "refreshing",
    "VERIFYING": "verifying",
}
"""The actions of a managed instance, and their counters in the group's `currentActions`."""
RETRY_INTERVAL_S = 0.2
"""The pause between two attempts to create machines."""
_SUFFIX = string.ascii_lowercase + string.digits
_SUFFIX_LENGTH = 4
"""The number of random characters after the group's base name in a machine's name."""


@dataclass
class Member:
    """A managed instance; `worker` is its index in the slice, `request` the name of its resize request."""

    name: str
    worker: int
    action: str = CREATING
    error: ComputeError | None = None
    request: str = ""
    task: asyncio.Task[None] | None = None


@dataclass
class Group:
    """A managed instance group; `document` has the fields that its creator set."""

    path: str
    zone: str
    document: dict[str, Any]
    target: int
    members: dict[str, Member] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The group's name."""
        return last_part(self.path)

    @property
    def is_bulk(self) -> bool:
        """Return whether the group creates all of its machines at once, or none."""
        return bool(self.document.get("targetSizePolicy", {}).get("mode") == BULK)

    @property
    def repairs(self) -> bool:
        """Return whether a machine that fails is created again."""
        return bool(self.document["instanceLifecyclePolicy"].get("defaultActionOnFailure") != DO_NOTHING)

    @property
    def template(self) -> str:
        """The path of the instance template."""
        return relative(self.document["instanceTemplate"])

    @property
    def policy(self) -> str:
        """The path of the workload policy; empty if there is none."""
        return relative(self.document.get("resourcePolicies", {}).get("workloadPolicy", ""))

    @property
    def is_stable(self) -> bool:
        """Return whether the group has its target size and changes none of its machines."""
        return len(self.members) == self.target and all(member.action == NONE for member in self.members.values())


class ManagedGroups:
    """Every managed instance group, by path."""

    def __init__(
        self, store: DocumentStore, instances: Instances, conditions: ServiceConditions, tasks: BackgroundTasks
    ) -> None:
        self._store = store
        self._instances = instances
        self._conditions = conditions
        self._tasks = tasks
        self._groups: dict[str, Group] = {}
        instances.lost = self._machine_lost
        store.users.append(self._groups_with)

    def all(self) -> list[Group]:
        """Return the groups in order of their paths."""
        return [self._groups[path] for path in sorted(self._groups)]

    def get(self, path: str) -> Group:
        """Return one group. Raises ComputeError."""
        self._store.get(path)
        return self._groups[path]

    def add(self, path: str, zone: str, document: dict[str, Any], size: int) -> None:
        """Add a group and begin to create its machines."""
        self._groups[path] = Group(path, zone, document, 0)
        self.grow(self._groups[path], size)

    def vm(self, group: Group, member: Member) -> Vm | None:
        """Return a member's machine, None while it has none."""
        return self._instances.find(self.vm_path(group, member))

    def vm_path(self, group: Group, member: Member) -> str:
        """Return the path of a member's machine, which may not exist yet."""
        return self._store.path(INSTANCES, f"zones/{group.zone}", member.name)

    def resize(self, group: Group, size: int) -> None:
        """Set the target size and begin to create or delete machines. Raises ComputeError."""
        more = size - group.target
        if group.is_bulk and more > 0 and group.target:
            message = f"Cannot increase the target size of '{group.path}': the target size policy mode is BULK."
            raise ComputeError(400, message)
        if group.is_bulk and more < 0 < size and not group.is_stable:
            raise ComputeError(400, f"A bulk instance operation of '{group.path}' is in progress.")
        if more > 0:
            self.grow(group, more)
            return
        staying = [member for member in group.members.values() if member.action != DELETING]
        staying.sort(
            key=lambda member: (
                bool(member.request and member.action == CREATING),
                member.action == NONE,
                -member.worker,
            )
        )
        leaving = staying[: len(staying) - size]
        if size and not group.is_bulk:
            self.check_apart(group, leaving)
        self.delete_members(group, leaving)

    def check_apart(self, group: Group, members: Iterable[Member]) -> None:
        """Raise ComputeError if a member is being created together with others."""
        for member in members:
            if member.action == CREATING and (member.request or group.is_bulk):
                raise ComputeError(400, f"Instance '{member.name}' is being created together with others.")

    def grow(self, group: Group, more: int, request: str = "") -> list[Member]:
        """Add members and begin to create their machines; for a request, the caller calls `create_together`."""
        used = {member.worker for member in group.members.values()}
        free = [number for number in range(len(used) + more) if number not in used]
        members = [Member(self._new_name(group), worker, request=request) for worker in free[:more]]
        group.target += more
        group.members |= {member.name: member for member in members}
        if not request:
            for together in [members] if group.is_bulk else [[member] for member in members]:
                task = self._tasks.start(self.create_together(group, together))
                for member in together:
                    member.task = task
        return members

    def recreate(self, group: Group, members: Iterable[Member]) -> None:
        """Begin to replace machines with new ones of the same names."""
        for member in members:
            if member.action != DELETING:
                self._begin(group, member, RECREATING)

    def delete_members(self, group: Group, members: Collection[Member]) -> None:
        """Begin to delete machines; the target size shrinks with them."""
        for member in members:
            if member.action != DELETING:
                group.target -= 1
                self._begin(group, member, DELETING)

    def _begin(self, group: Group, member: Member, action: str) -> None:
        before, member.action = member.task, action
        member.task = self._tasks.start(self._act(group, member, before))

    async def delete(self, group: Group) -> None:
        """Delete the group with all of its machines."""
        self.delete_members(group, list(group.members.values()))
        await asyncio.gather(*(member.task for member in group.members.values() if member.task))
        self._groups.pop(group.path, None)
        with suppress(ComputeError):
            self._store.delete(group.path)

    async def create_together(self, group: Group, members: Sequence[Member]) -> None:
        """Create the machines of all members, all or none; repeat it until they run."""
        await self._conditions.operation_delay()
        while not await self._try_together(group, members):
            await self._conditions.pause(RETRY_INTERVAL_S)

    async def _try_together(self, group: Group, members: Sequence[Member]) -> bool:
        waiting = [member for member in members if member.action in (CREATING, RECREATING)]
        if not self._instances.has_capacity(group.zone, len(waiting)):
            _fail(waiting, no_capacity(self._store.project, group.zone))
            return False
        vms: list[Vm] = []
        try:
            for member in waiting:
                vms.append(self._new_vm(group, member))  # noqa: PERF401 - after an error, `vms` has those before it
            results = await asyncio.gather(*map(self._instances.boot, vms), return_exceptions=True)
            for result in results:
                if isinstance(result, BaseException):
                    raise result
        except BaseException as error:
            await asyncio.gather(*map(self._instances.remove, vms))
            if not isinstance(error, ComputeError):
                raise
            _fail(waiting, error)
            return False
        for member in waiting:
            member.action, member.error = NONE, None
        return True

    async def _act(self, group: Group, member: Member, before: asyncio.Task[None] | None) -> None:
        """Delete a member's machine, once its former task has stopped; then create it again or drop the member."""
        if before is not None and not before.done():
            before.cancel()
            await asyncio.wait({before})
        await self._conditions.operation_delay()
        if vm := self.vm(group, member):
            await self._instances.remove(vm)
        if member.action == DELETING:
            group.members.pop(member.name, None)
        else:
            await self.create_together(group, [member])

    def _new_vm(self, group: Group, member: Member) -> Vm:
        """Add a member's machine according to the group's template. Raises ComputeError."""
        properties = self._store.get(group.template)["properties"]
        machine = MACHINE_TYPES.get(last_part(properties["machineType"]))
        metadata = {"instance-template": group.template, "created-by": group.path}
        if machine is not None and machine.chips:
            metadata["tpu-env"] = tpu_env(machine, self._topology(group), member.worker, group.zone)
        return self._instances.insert(group.zone, {**properties, "name": member.name}, metadata)

    def _topology(self, group: Group) -> str:
        """Return the topology in chips of the group's workload policy, or an empty string without a policy."""
        if not self._store.exists(group.policy):
            return ""
        return str(self._store.get(group.policy).get("workloadPolicy", {}).get("acceleratorTopology", ""))

    def _machine_lost(self, vm: Vm) -> None:
        """Recreate a group's machine that was preempted, or that was stopped or deleted outside the group."""
        for group in self._groups.values():
            member = group.members.get(vm.name)
            if member is not None and group.zone == vm.zone and member.action == NONE and group.repairs:
                self.recreate(group, [member])

    def _groups_with(self, path: str) -> list[str]:
        return [group.path for group in self._groups.values() if path in (group.template, group.policy)]

    def _new_name(self, group: Group) -> str:
        base = group.document["baseInstanceName"]
        while True:
            name = f"{base}-{''.join(secrets.choice(_SUFFIX) for _ in range(_SUFFIX_LENGTH))}"
            if name not in group.members:
                return name

    def to_document(self, group: Group) -> dict[str, Any]:
        """Return a group in the form of the API's answers."""
        counts = Counter(member.action for member in group.members.values())
        status: dict[str, Any] = {
            "isStable": group.is_stable,
            "versionTarget": {"isReached": True},
            "allInstancesConfig": {"effective": True},
            "stateful": {"hasStatefulConfig": False, "perInstanceConfigs": {"allEffective": True}},
        }
        if group.is_bulk:
            failed = next((member.error for member in group.members.values() if member.error), None)
            progress: dict[str, Any] = {"timestamp": now(), **({"error": failed.to_errors()} if failed else {})}
            is_busy = counts[CREATING] > 0
            status["bulkInstanceOperation"] = {"inProgress": is_busy} | (
                {"lastProgressCheck": progress} if is_busy else {}
            )
        return {
            **group.document,
            "targetSize": group.target,
            "versions": [{"instanceTemplate": ROOT + group.template, "targetSize": {"calculated": group.target}}],
            "currentActions": {field_name: counts[action] for action, field_name in _ACTIONS.items()},
            "status": status,
        }

    def managed_instance(self, group: Group, member: Member) -> dict[str, Any]:
        """Return a member in the form of the answers of listManagedInstances."""
        vm = self.vm(group, member)
        document: dict[str, Any] = {
            "instance": ROOT + self.vm_path(group, member),
            "name": member.name,
            "currentAction": member.action,
            "version": {"instanceTemplate": group.document["instanceTemplate"]},
        }
        if vm is not None:
            document |= {"id": vm.document["id"], "instanceStatus": vm.document["status"]}
        if member.error is not None:
            document["lastAttempt"] = {"errors": member.error.to_errors()}
        return document


def _fail(members: Iterable[Member], error: ComputeError) -> None:
    for member in members:
        member.error = error
