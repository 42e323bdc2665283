"""A slice: the TPU that a run is launched on, and its workers."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from tui.pod.worker import Worker

TPU_API, HOSTS_FILE, INSTANCE_GROUP = "tpu_api", "hosts_file", "instance_group"
"""The sources of slices."""
OS_LOGIN = "enable-oslogin"
"""The metadata key that enables OS Login for a machine, or for a project's machines."""
SSH_KEYS, BLOCK_PROJECT_KEYS = "ssh-keys", "block-project-ssh-keys"
"""Metadata keys of the SSH keys that machines accept (Compute Engine, "Add SSH keys to VMs")."""
CORES_PER_WORKER = "cores-per-worker"
"""Label or metadata key with the number of XLA devices per worker if the type does not define it (`local-N`)."""


@dataclass(frozen=True, slots=True)
class Symptom:
    """A problem of one worker: one of the Cloud TPU API's (`Node.symptoms`), or the state of a group's VM."""

    symptom_type: str
    worker_id: str
    details: str
    create_time: str | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the symptom as `slices --json` prints it (names are stable)."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Slice:
    """A slice as reported by its source; what the source does not report is None, never a guess.

    `state` and `health` are the Cloud TPU API's own names (`READY`, `PREEMPTED`, …; `HEALTHY`, …). `cores` counts the
    XLA devices of the whole slice. Times are RFC 3339.
    """

    name: str
    zone: str | None = None
    source: str = TPU_API
    project: str | None = None
    accelerator_type: str | None = None
    runtime_version: str | None = None
    state: str | None = None
    health: str | None = None
    health_description: str | None = None
    api_version: str | None = None
    """`V1` (TPU Node with its own user VMs) or `V2` (TPU VM)."""
    workers: tuple[Worker, ...] = ()
    cores: int | None = None
    created: str | None = None
    spot: bool | None = None
    preemptible: bool | None = None
    queued_resource: str | None = None
    network: str | None = None
    labels: dict[str, str] = field(default_factory=dict)
    symptoms: tuple[Symptom, ...] = ()
    data_disks: tuple[str, ...] = ()
    """Attached disks, as `projects/P/zones/Z/disks/NAME`."""
    os_login: str | None = None
    """The value of `enable-oslogin` in the slice's metadata; None if only the project's metadata decides."""
    tpu_node: str | None = None
    """Of a group of user VMs: the TPU Node that they drive."""
    node_endpoints: tuple[str, ...] = ()
    """`ip:port` of each endpoint of that TPU Node."""
    instance_group: str | None = None
    """Of a TPU Node: the group of user VMs that drives it, whose slice runs are launched on."""

    @property
    def path(self) -> str:
        """`zone/name`, or the bare name without a zone; SLICE arguments accept it."""
        return f"{self.zone}/{self.name}" if self.zone else self.name

    @property
    def is_in_cloud(self) -> bool:
        """Return whether its workers are VMs of Google Cloud, with its firewall, its metadata and OS Login."""
        return self.source != HOSTS_FILE

    @property
    def is_tpu_node(self) -> bool:
        """Return whether its endpoints are TPUs without SSH (API version V1), which a group of user VMs drives."""
        return self.api_version == "V1"

    @property
    def is_ready(self) -> bool:
        """Return whether its workers can be expected to answer."""
        return self.state in (None, "READY")

    @property
    def cores_per_worker(self) -> int | None:
        """XLA devices per worker; None where a count is unknown."""
        if not self.cores or not self.workers:
            return None
        return self.cores // len(self.workers)

    def to_json(self) -> dict[str, Any]:
        """Return the row that `slices --json` prints (names are stable)."""
        return {
            "name": self.name,
            "zone": self.zone,
            "source": self.source,
            "accelerator_type": self.accelerator_type,
            "runtime_version": self.runtime_version,
            "state": self.state,
            "health": self.health,
            "health_description": self.health_description,
            "api_version": self.api_version,
            "workers": len(self.workers),
            "cores": self.cores,
            "created": self.created,
            "spot": self.spot,
            "preemptible": self.preemptible,
            "queued_resource": self.queued_resource,
            "network": self.network,
            "labels": self.labels,
            "symptoms": [symptom.to_json() for symptom in self.symptoms],
            "tpu_node": self.tpu_node,
        }
