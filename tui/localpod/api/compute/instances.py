"""The machines of the local pod's Compute Engine API: each has its own host, a boot disk and metadata."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tui.aio.background_tasks import BackgroundTasks
from tui.errors import TpuTuiError
from tui.localpod.api.compute.answers import ROOT, ComputeError, invalid_field, no_capacity, now
from tui.localpod.api.compute.documents import DISKS, INSTANCES, DocumentStore, fingerprint, with_fingerprint
from tui.localpod.api.compute.machine_types import MACHINE_TYPES, OfferedMachine
from tui.localpod.api.conditions import ServiceConditions
from tui.localpod.api.host_protocol import HostedWorker, WorkerHosts
from tui.localpod.api.resources.guest_attributes import matches
from tui.pod.api_paths import last_part, region_of
from tui.pod.creation.machine_request import STARTUP_SCRIPT
from tui.pod.slice import BLOCK_PROJECT_KEYS, SSH_KEYS
from tui.pod.worker import SSH_PORT_KEY

GUEST_ATTRIBUTES = "enable-guest-attributes"
"""The metadata key, of a machine or the project, that makes a machine publish guest attributes."""
RUNNING, TERMINATED = "RUNNING", "TERMINATED"
_VM_HOST = "vm@"
"""The prefix of the slice names of these machines in the pod; a node's ID has no @."""
_COPIED = ("description", "tags", "scheduling", "serviceAccounts", "resourcePolicies", "hostname")


@dataclass
class Vm:
    """One machine: its document in the store, and its host while it runs. `idle` is clear during an operation."""

    path: str
    zone: str
    document: dict[str, Any]
    machine: OfferedMachine
    worker: HostedWorker | None = None
    idle: asyncio.Event = field(default_factory=asyncio.Event)
    removal: asyncio.Lock = field(default_factory=asyncio.Lock)

    @property
    def name(self) -> str:
        """The name of the instance, which is the machine's host name."""
        return last_part(self.path)

    @property
    def host(self) -> str:
        """The name of its host among the pod's machines."""
        return f"{_VM_HOST}{self.name}@{self.zone}"

    @property
    def metadata(self) -> dict[str, str]:
        """The values of the metadata by key."""
        return {item["key"]: item["value"] for item in self.document["metadata"].get("items", ())}

    @property
    def is_spot(self) -> bool:
        """Return whether Compute Engine may end the machine at any time."""
        scheduling = self.document["scheduling"]
        return scheduling.get("provisioningModel") == "SPOT" or bool(scheduling.get("preemptible"))


class Instances:
    """Every machine, by path. `lost` is called after a machine has ended, or was stopped or deleted by a request."""

    def __init__(
        self,
        store: DocumentStore,
        hosts: WorkerHosts,
        conditions: ServiceConditions,
        tasks: BackgroundTasks,
        project_metadata: Callable[[], Mapping[str, str]],
    ) -> None:
        self._store = store
        self._hosts = hosts
        self._conditions = conditions
        self._tasks = tasks
        self._project_metadata = project_metadata
        self._vms: dict[str, Vm] = {}
        self.os_logins: Callable[[Mapping[str, str]], Mapping[str, Sequence[str]] | None] = lambda _: None
        """Returns the keys of each OS Login user name for a machine with this metadata; None without OS Login."""
        self.lost: Callable[[Vm], None] = lambda _: None
        self.record_event: Callable[[str, str, str, str], None] = lambda *_: None
        """Records an operation of the system: its type, place, the machine's path and ID."""
        hosts.exited = self._host_exited
        store.users.append(self._machines_with)

    def get(self, path: str) -> Vm:
        """Return one machine. Raises ComputeError."""
        self._store.get(path)
        return self._vms[path]

    def find(self, path: str) -> Vm | None:
        """Return one machine, None if it does not exist."""
        return self._vms.get(path)

    def has_capacity(self, zone: str, more: int) -> bool:
        """Return whether the zone has room for this many more machines."""
        used = sum(vm.zone == zone and vm.document["status"] != TERMINATED for vm in self._vms.values())
        return self._conditions.worker_capacity is None or used + more <= self._conditions.worker_capacity

    def insert(self, zone: str, wanted: dict[str, Any], more_metadata: Mapping[str, str] | None = None) -> Vm:
        """Add a machine as PROVISIONING, with its boot disk; `boot` starts it."""
        place = f"zones/{zone}"
        path = self._store.check_new(INSTANCES, place, wanted)
        machine = _machine_type(wanted.get("machineType", ""))
        disks = self._attach_all(zone, wanted)
        items = [*wanted.get("metadata", {}).get("items", ())]
        items += [{"key": key, "value": value} for key, value in (more_metadata or {}).items()]
        document = self._store.add(
            path,
            {
                **{key: wanted[key] for key in _COPIED if key in wanted},
                "status": "PROVISIONING",
                "machineType": f"{ROOT}projects/{self._store.project}/{place}/machineTypes/{machine.name}",
                "disks": disks,
                "metadata": with_fingerprint({"items": items}),
                "scheduling": _scheduling(wanted.get("scheduling", {})),
                "networkInterfaces": [
                    self._interface(zone, interface) for interface in wanted.get("networkInterfaces") or [{}]
                ],
                "tags": {**wanted.get("tags", {}), "fingerprint": fingerprint(wanted.get("tags"))},
                "cpuPlatform": "Unknown CPU Platform",
                "deletionProtection": False,
                "startRestricted": False,
                "fingerprint": fingerprint(wanted),
            },
            wanted.get("labels"),
        )
        self._vms[path] = Vm(path, zone, document, machine)
        return self._vms[path]

    async def boot(self, vm: Vm) -> None:
        """Start a claimed machine's host, unless it runs. Raises ComputeError, after removing one that never ran."""
        if vm.worker is not None:
            vm.document["status"] = RUNNING
            vm.idle.set()
            return
        try:
            if not self.has_capacity(vm.zone, 0):
                raise no_capacity(self._store.project, vm.zone)
            vm.document["status"] = "STAGING"
            (vm.worker,) = await self._hosts.start(
                vm.host,
                1,
                max(1, vm.machine.chips),
                vm.machine.chips,
                vm.metadata.get(STARTUP_SCRIPT, ""),
                hostname=vm.name,
            )
        except BaseException as error:
            await self._undo_boot(vm)
            if isinstance(error, OSError | TpuTuiError):
                raise ComputeError(500, f"Internal error: {error}", "internalError", "INTERNAL_ERROR") from error
            raise
        interface = vm.document["networkInterfaces"][0]
        interface["networkIP"] = vm.worker.address
        for access in interface.get("accessConfigs", ()):
            access["natIP"] = vm.worker.address
        vm.document.update(status=RUNNING, lastStartTimestamp=now())
        self._set_metadata(vm, vm.document["metadata"].get("items", ()))
        vm.idle.set()
        self.authorize(vm)

    async def _undo_boot(self, vm: Vm) -> None:
        if "lastStartTimestamp" in vm.document:
            vm.document["status"] = TERMINATED
            vm.idle.set()
        else:
            await self.remove(vm)

    def claim(self, vm: Vm, status: str) -> None:
        """Reserve a machine for one operation. Raises ComputeError if its status does not allow that."""
        if not vm.idle.is_set():
            raise ComputeError(400, f"The resource '{vm.path}' is not ready", "resourceNotReady")
        if vm.document["status"] not in (RUNNING, TERMINATED):
            message = f"Instance '{vm.name}' is {vm.document['status']}; it must be {RUNNING} or {TERMINATED}."
            raise ComputeError(400, message, "invalid")
        vm.idle.clear()
        vm.document["status"] = status

    async def halt(self, vm: Vm) -> None:
        """Stop a claimed machine; its disk is kept."""
        await self._hosts.stop(vm.host)
        vm.worker = None
        vm.document.update(status=TERMINATED, lastStopTimestamp=now())
        vm.idle.set()
        self.lost(vm)

    async def remove(self, vm: Vm) -> None:
        """Delete a machine and its disks with `autoDelete`. A machine that is already gone is not an error.

        The lock keeps a second deletion from the host of a new machine of the same name.
        """
        async with vm.removal:
            if self._vms.get(vm.path) is not vm:
                return
            vm.idle.clear()
            vm.document["status"] = "STOPPING"
            await self._hosts.remove(vm.host)
            del self._vms[vm.path]
            self._store.delete(vm.path)
            self._delete_disks(vm.document["disks"])
            vm.idle.set()
        self.lost(vm)

    def _delete_disks(self, disks: Iterable[dict[str, Any]]) -> None:
        for disk in disks:
            if disk["autoDelete"]:
                with contextlib.suppress(ComputeError):
                    self._store.delete(disk["source"].removeprefix(ROOT))

    def preempt(self, vm: Vm) -> None:
        """End a machine's host, as Compute Engine does with a spot machine."""
        self._hosts.preempt(vm.host, 0)

    def _host_exited(self, host: str) -> None:
        for vm in self._vms.values():
            if vm.host == host and vm.document["status"] == RUNNING:
                vm.document["status"] = "STOPPING"
                self._tasks.start(self._end_preempted(vm))

    async def _end_preempted(self, vm: Vm) -> None:
        vm.idle.clear()
        kind = "preempted" if vm.is_spot else "hostError"
        self.record_event(f"compute.instances.{kind}", f"zones/{vm.zone}", vm.path, vm.document["id"])
        await self.halt(vm)

    def set_metadata(self, vm: Vm, wanted: dict[str, Any]) -> None:
        """Replace the metadata. Raises ComputeError if the request's fingerprint is outdated."""
        if wanted.get("fingerprint") != vm.document["metadata"]["fingerprint"]:
            raise ComputeError(412, "Supplied fingerprint does not match current metadata fingerprint.")
        self._set_metadata(vm, wanted.get("items", ()))
        self.authorize(vm)

    def _set_metadata(self, vm: Vm, items: Iterable[dict[str, str]]) -> None:
        """Replace the metadata, except the SSH port of a running machine."""
        others = [item for item in items if item.get("key") != SSH_PORT_KEY]
        port = [{"key": SSH_PORT_KEY, "value": str(vm.worker.port)}] if vm.worker is not None else []
        vm.document["metadata"] = with_fingerprint({"items": [*others, *port]})

    def authorize_all(self) -> None:
        """Update the keys that the machines accept, after a change of the project's metadata or of a profile."""
        for vm in self._vms.values():
            self.authorize(vm)

    def authorize(self, vm: Vm) -> None:
        """Let the machine accept the keys in its own metadata and in the project's."""
        metadata = vm.metadata
        own = metadata.get(SSH_KEYS, "")
        if metadata.get(BLOCK_PROJECT_KEYS, "").lower() != "true":
            own = f"{own}\n{self._project_metadata().get(SSH_KEYS, '')}"
        self._hosts.authorize(vm.host, own, self.os_logins(metadata))

    def guest_attributes(self, vm: Vm, query_path: str) -> list[dict[str, str]]:
        """Return the attributes under `namespace/` or `namespace/key`. Raises ComputeError if there are none."""
        enabled = vm.metadata.get(GUEST_ATTRIBUTES, self._project_metadata().get(GUEST_ATTRIBUTES, ""))
        attributes: list[dict[str, str]] = []
        if vm.worker is not None and enabled.lower() == "true":
            kind, key = vm.worker.host_key
            attributes = [
                {"namespace": "guest-agent", "key": "hostname", "value": vm.name},
                {"namespace": "hostkeys", "key": kind, "value": key},
            ]
        found = [item for item in attributes if matches(item["namespace"], item["key"], query_path)]
        if not found:
            raise ComputeError(404, f"The resource '{query_path}' of type 'Guest Attribute' was not found.")
        return found

    def _machines_with(self, path: str) -> list[str]:
        address = ROOT + path
        return [
            vm.path for vm in self._vms.values() if any(disk["source"] == address for disk in vm.document["disks"])
        ]

    def _attach_all(self, zone: str, instance: dict[str, Any]) -> list[dict[str, Any]]:
        disks: list[dict[str, Any]] = []
        try:
            for index, disk in enumerate(instance.get("disks") or [{}]):
                disks.append(self._attach(zone, instance, disk, index))
        except ComputeError:
            self._delete_disks(disks)
            raise
        return disks

    def _attach(self, zone: str, instance: dict[str, Any], disk: dict[str, Any], index: int) -> dict[str, Any]:
        """Return an attached disk. It is created unless the request names an existing disk."""
        place = f"zones/{zone}"
        if source := disk.get("source"):
            path = self._store.path(DISKS, place, last_part(source))
            self._store.get(path)
        else:
            initial = disk.get("initializeParams", {})
            name = initial.get("diskName") or (instance["name"] if index == 0 else f"{instance['name']}-{index}")
            fields = {"name": name, "sizeGb": initial.get("diskSizeGb"), "sourceImage": initial.get("sourceImage")}
            path = self._store.insert(DISKS, place, {key: value for key, value in fields.items() if value})
        return {
            "kind": "compute#attachedDisk",
            "type": "PERSISTENT",
            "mode": disk.get("mode", "READ_WRITE"),
            "source": ROOT + path,
            "deviceName": disk.get("deviceName") or last_part(path),
            "index": index,
            "boot": disk.get("boot", index == 0),
            "autoDelete": disk.get("autoDelete", not source),
            "interface": "SCSI",
            "diskSizeGb": self._store.get(path)["sizeGb"],
        }

    def _interface(self, zone: str, interface: dict[str, Any]) -> dict[str, Any]:
        project = f"{ROOT}projects/{self._store.project}"
        network = last_part(interface.get("network") or "default")
        subnetwork = last_part(interface.get("subnetwork") or network)
        configs = [
            {"kind": "compute#accessConfig", "type": "ONE_TO_ONE_NAT", "name": "external-nat", **config}
            for config in interface.get("accessConfigs", ())
        ]
        return {
            "kind": "compute#networkInterface",
            "name": "nic0",
            "network": f"{project}/global/networks/{network}",
            "subnetwork": f"{project}/regions/{region_of(zone)}/subnetworks/{subnetwork}",
            "stackType": "IPV4_ONLY",
            "fingerprint": fingerprint(interface),
            **({"accessConfigs": configs} if configs else {}),
        }


def _machine_type(address: str) -> OfferedMachine:
    """Return the machine type with this address or name. Raises ComputeError."""
    machine = MACHINE_TYPES.get(last_part(address))
    if machine is None:
        raise invalid_field("resource.machineType", address, "The referenced resource does not exist.")
    return machine


def _scheduling(scheduling: dict[str, Any]) -> dict[str, Any]:
    is_spot = scheduling.get("provisioningModel") == "SPOT" or scheduling.get("preemptible", False)
    return {
        "onHostMaintenance": "TERMINATE" if is_spot else "MIGRATE",
        "automaticRestart": not is_spot,
        "preemptible": is_spot,
        "provisioningModel": "SPOT" if is_spot else "STANDARD",
        **scheduling,
    }
