"""The request for a new slice, or for several in the queue: gcloud's options as plain data. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from tui.pod import accelerator
from tui.pod.accelerator import Accelerator

CREATED_BY = ("created-by", "tpu-tui")
"""The label of every slice that tpu-tui creates."""
VM, NODE = "vm", "node"
"""The architectures: TPU VMs, and the TPU Node with endpoints that VMs of one's own drive."""
READ_WRITE, READ_ONLY = "read-write", "read-only"
STARTUP_SCRIPT = "startup-script"
"""The metadata key of the text that every worker runs when it starts (Compute Engine, "Use startup scripts")."""
STARTUP_TIMEOUT_S = 1200.0


@dataclass(frozen=True, slots=True)
class DataDisk:
    """A disk to attach: its full path, and `read-write` or `read-only`."""

    source: str
    mode: str = READ_WRITE


@dataclass(frozen=True, slots=True)
class QueueRequest:
    """How a request waits for capacity, and how many slices it makes.

    `nodes` slices are called `<node_prefix>-0` and so on, by default after the request; without `nodes` there is one
    slice, `node_id`, by default also called like the request.
    """

    valid_for_s: int | None = None
    valid_until: datetime | None = None
    nodes: int | None = None
    node_prefix: str = ""
    node_id: str = ""


@dataclass(frozen=True, slots=True)
class SliceRequest:
    """A slice to create. Either `accelerator_type` is set, or `generation` and `topology`.

    Empty texts leave the choice to the API. `metadata_files` are the keys whose values were read from files, with
    the files' names; their values are in `metadata`. A startup script, in the metadata too, may take
    `startup_timeout_s` after the slice is READY.
    """

    name: str
    zone: str
    architecture: str = VM
    accelerator_type: str = ""
    generation: str = ""
    topology: str = ""
    runtime_version: str = ""
    description: str = ""
    network: str = ""
    subnetwork: str = ""
    internal_ips: bool = False
    queue_count: int | None = None
    cidr_range: str = ""
    service_account: str = ""
    scopes: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    metadata: Mapping[str, str] = field(default_factory=dict)
    metadata_files: Mapping[str, str] = field(default_factory=dict)
    data_disks: tuple[DataDisk, ...] = ()
    spot: bool = False
    preemptible: bool = False
    reserved: bool = False
    secure_boot: bool = False
    queue: QueueRequest | None = None
    startup_timeout_s: float = STARTUP_TIMEOUT_S

    @property
    def is_tpu_node(self) -> bool:
        """Whether a TPU Node is requested, and not TPU VMs."""
        return self.architecture == NODE

    @property
    def all_labels(self) -> dict[str, str]:
        """The labels with the one that names tpu-tui."""
        return {**self.labels, CREATED_BY[0]: CREATED_BY[1]}

    @property
    def type_name(self) -> str:
        """The accelerator type, also of a topology; a topology that is none stays as it is."""
        name = self.accelerator_type or accelerator.type_of_topology(self.generation, self.topology)
        return name or f"{self.generation} {self.topology}"

    @property
    def accelerator(self) -> Accelerator | None:
        """The number of workers and chips of each slice, where the type is known."""
        return accelerator.parse(self.type_name)

    @property
    def node_ids(self) -> tuple[str, ...]:
        """The names of the slices to create."""
        if self.queue is None:
            return (self.name,)
        if self.queue.nodes is None:
            return (self.queue.node_id or self.name,)
        return tuple(f"{self.queue.node_prefix or self.name}-{index}" for index in range(self.queue.nodes))

    @property
    def summary(self) -> str:
        """What is requested, for one line: `pod: v3-32 with tpu-ubuntu2204-base in us-central1-a, spot`."""
        several = f"{len(self.node_ids)} × " if len(self.node_ids) > 1 else ""
        kinds = {"spot": self.spot, "preemptible": self.preemptible, "reserved": self.reserved}
        kind = "".join(f", {name}" for name, is_on in kinds.items() if is_on)
        node = " TPU Node" if self.is_tpu_node else ""
        return f"{self.name}: {several}{self.type_name}{node} with {self.runtime_version} in {self.zone}{kind}"


@dataclass(frozen=True, slots=True)
class WorkerStartup:
    """The startup script of one worker, as far as it is known.

    `exit_code` is None until the script has ended, and for one that ended without an exit code (a signal, a runner
    that failed); `detail` says what it waits for, or why it failed; `lines` are the last lines of its output.
    """

    slice_name: str
    worker: int
    exit_code: int | None = None
    detail: str = ""
    lines: tuple[str, ...] = ()
    has_ended: bool = False

    @property
    def has_failed(self) -> bool:
        """Whether the script has ended with anything but 0."""
        return self.has_ended and self.exit_code != 0

    def to_json(self) -> dict[str, Any]:
        """Return the row of `slices create --json`."""
        return {
            "slice": self.slice_name,
            "worker": self.worker,
            "exit_code": self.exit_code,
            "detail": self.detail,
        }


@dataclass(frozen=True, slots=True)
class CreationStep:
    """One line of progress, with what is known by then: the operation's name and the seconds since its request.

    `request` is the document that is, or would be, sent; the first step has it. `startup` has every worker's startup
    script, once the workers exist; a step whose `text` is empty only renews it.
    """

    text: str
    operation: str | None = None
    elapsed_s: float = 0.0
    request: dict[str, Any] | None = None
    startup: tuple[WorkerStartup, ...] = ()
