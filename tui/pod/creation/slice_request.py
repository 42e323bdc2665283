"""The request for a new slice, or for several in the queue: gcloud's options as plain data. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from tui.pod import accelerator
from tui.pod.accelerator import Accelerator
from tui.pod.creation.machine_request import MachineRequest
from tui.pod.slice_commands import delete_command

VM, NODE = "vm", "node"
"""The architectures: TPU VMs, and the TPU Node, whose endpoints the user's VMs drive."""
READ_WRITE, READ_ONLY = "read-write", "read-only"


@dataclass(frozen=True, slots=True)
class DataDisk:
    """A disk to attach: its full path, and `read-write` or `read-only`."""

    source: str
    mode: str = READ_WRITE


@dataclass(frozen=True, slots=True)
class QueueRequest:
    """How a request waits for capacity, and how many slices it makes.

    With `nodes`, the slices are `<node_prefix>-0` and so on; without, there is one slice, `node_id`. The default of
    both names is the request's name.
    """

    valid_for_s: int | None = None
    valid_until: datetime | None = None
    nodes: int | None = None
    node_prefix: str = ""
    node_id: str = ""


@dataclass(frozen=True, slots=True)
class SliceRequest(MachineRequest):
    """A slice to create. Either `accelerator_type` is set, or `generation` and `topology`."""

    noun = "slice"
    architecture: str = VM
    accelerator_type: str = ""
    generation: str = ""
    topology: str = ""
    runtime_version: str = ""
    queue_count: int | None = None
    cidr_range: str = ""
    data_disks: tuple[DataDisk, ...] = ()
    preemptible: bool = False
    reserved: bool = False
    secure_boot: bool = False
    queue: QueueRequest | None = None

    @property
    def is_tpu_node(self) -> bool:
        """Return whether a TPU Node is requested, and not TPU VMs."""
        return self.architecture == NODE

    @property
    def type_name(self) -> str:
        """The accelerator type, given or implied by generation and topology; both as given if they are invalid."""
        name = self.accelerator_type or accelerator.type_of_topology(self.generation, self.topology)
        return name or f"{self.generation} {self.topology}"

    @property
    def accelerator(self) -> Accelerator | None:
        """The number of workers and chips of each slice, where the type is known."""
        return accelerator.parse(self.type_name)

    @property
    def slice_names(self) -> tuple[str, ...]:
        """The names of the slices to create: several for a request in the queue with `nodes`."""
        if self.queue is None:
            return (self.name,)
        if self.queue.nodes is None:
            return (self.queue.node_id or self.name,)
        return tuple(f"{self.queue.node_prefix or self.name}-{index}" for index in range(self.queue.nodes))

    @property
    def delete_command(self) -> str:
        """The command of tpu-tui that deletes the slice, or the request with its slices."""
        return delete_command(self.name, self.zone) + ("" if self.queue is None else " --queued --force")

    @property
    def summary(self) -> str:
        """What is requested, for one line: `pod: v3-32 with tpu-ubuntu2204-base in us-central1-a, spot`."""
        several = f"{len(self.slice_names)} × " if len(self.slice_names) > 1 else ""
        kinds = {"spot": self.spot, "preemptible": self.preemptible, "reserved": self.reserved}
        kind = "".join(f", {name}" for name, is_on in kinds.items() if is_on)
        node = " TPU Node" if self.is_tpu_node else ""
        return f"{self.name}: {several}{self.type_name}{node} with {self.runtime_version} in {self.zone}{kind}"


@dataclass(frozen=True, slots=True)
class WorkerStartup:
    """What is known of the startup script of one worker.

    `exit_code` is None until the script has ended, and after an end without one (a signal, a runner that failed).
    `detail` says what it waits for, or why it failed; `lines` are the last lines of its output. `is_reachable` says
    whether the worker answered the last query.
    """

    slice_name: str
    worker: int
    exit_code: int | None = None
    detail: str = ""
    lines: tuple[str, ...] = ()
    has_ended: bool = False
    is_reachable: bool = False

    @property
    def has_failed(self) -> bool:
        """Return whether the script has ended without exit code 0."""
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
    """One line of progress, with the operation's name and the seconds since its request.

    The first step has the document that is, or would be, sent as `request`. Once the workers exist, `startup` has the
    startup script of each; a step with an empty `text` only updates it.
    """

    text: str
    operation: str | None = None
    elapsed_s: float = 0.0
    request: dict[str, Any] | None = None
    startup: tuple[WorkerStartup, ...] = ()
