"""The request for a managed instance group with its template, image and workload policy, as plain data. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from tui.pod import accelerator
from tui.pod.accelerator import Accelerator
from tui.pod.api_paths import region_of
from tui.pod.creation.machine_request import MachineRequest
from tui.pod.instance_group import TPU_NODE_KEY, chips_of_machine, is_tpu_machine
from tui.pod.resources import DESCRIPTION_PREFIX

_OWNER = f"{DESCRIPTION_PREFIX} for group "
MACHINE_TYPES = {"v5p": "ct5p-hightpu-4t", "v6e": "ct6e-standard-4t", "tpu7x": "tpu7x-standard-4t"}
"""The machine type of multi-host slices, by generation ("TPU instances in MIGs")."""
STANDARD, SPOT, FLEX_START, RESERVATION_BOUND = "STANDARD", "SPOT", "FLEX_START", "RESERVATION_BOUND"
"""`scheduling.provisioningModel` of a template."""


@dataclass(frozen=True, slots=True)
class GroupRequest(MachineRequest):
    """A group to create, with what it is made of.

    Either `template` names an existing one, or the template is made from the other fields. `image_from` is the VM
    whose boot disk, `source_disk`, becomes the image. A `topology` in chips makes the group one slice: a workload
    policy connects its VMs, and they are created all at once. `run_duration_s` ends the VMs, `valid_for_s` the wait
    for capacity.
    """

    noun = "group"
    size: int | None = None
    template: str = ""
    machine_type: str = ""
    accelerator_type: str = ""
    topology: str = ""
    image: str = ""
    image_family: str = ""
    image_project: str = ""
    image_from: str = ""
    source_disk: str = ""
    disk_size_gb: int | None = None
    disk_type: str = ""
    tpu_node: str = ""
    reservation: str = ""
    flex_start: bool = False
    run_duration_s: int | None = None
    valid_for_s: int | None = None

    @property
    def region(self) -> str:
        """The zone's region."""
        return region_of(self.zone)

    @property
    def template_name(self) -> str:
        """The template of the group: the given one, or the new one, which has the group's name."""
        return self.template or self.name

    @property
    def image_name(self) -> str:
        """The image that is made from a VM's disk, by default with the group's name; else the given one."""
        return self.image or (self.name if self.image_from else "")

    @property
    def machine(self) -> str:
        """The machine type, given or implied by the accelerator type; empty if neither is known."""
        return self.machine_type or MACHINE_TYPES.get(self.accelerator_type.partition("-")[0], "")

    @property
    def is_tpu(self) -> bool:
        """Return whether its machine type has TPUs."""
        return is_tpu_machine(self.machine)

    @property
    def is_bulk(self) -> bool:
        """Return whether its VMs form one slice and are created all at once."""
        return bool(self.topology)

    @property
    def waits_for_capacity(self) -> bool:
        """Return whether the group waits for capacity, so that a lack of it is not a failure."""
        return self.is_bulk or self.flex_start

    @property
    def has_resize_request(self) -> bool:
        """Return whether the VMs are requested after the group; bulk groups wait without resize requests."""
        return self.flex_start and not self.is_bulk

    @property
    def vms(self) -> int | None:
        """How many VMs the group gets: its size, else the number that its topology or type needs."""
        return self.size if self.size is not None else self.needed_vms

    @property
    def needed_vms(self) -> int | None:
        """How many VMs the topology, or else the accelerator type, needs; None if that is unknown."""
        chips = chips_of_machine(self.machine)
        if chips is None:
            return None
        if self.topology:
            needed_chips = accelerator.chips_of_topology(self.topology)
        else:
            needed_chips = self.accelerator.chips if self.accelerator else None
        return needed_chips // chips if needed_chips and needed_chips % chips == 0 else None

    @property
    def accelerator(self) -> Accelerator | None:
        """The accelerator type, where one was given and is known."""
        return accelerator.parse(self.accelerator_type)

    @property
    def provisioning(self) -> str:
        """The template's provisioning model, which is RESERVATION_BOUND only for one slice in a reservation."""
        if self.spot:
            return SPOT
        if self.flex_start:
            return FLEX_START
        return RESERVATION_BOUND if self.reservation and self.is_bulk else STANDARD

    @property
    def delete_command(self) -> str:
        """The command of tpu-tui that deletes the group with what was made for it."""
        return f"tpu-tui groups delete {self.path}"

    @property
    def all_metadata(self) -> dict[str, str]:
        """The metadata of each VM with the name of the TPU Node that it drives."""
        return {**self.metadata, **({TPU_NODE_KEY: self.tpu_node} if self.tpu_node else {})}

    @property
    def marker(self) -> str:
        """The description of every resource made for the group, by which `groups delete` finds it."""
        return marker_of(self.path, self.description)

    @property
    def summary(self) -> str:
        """What is requested, for one line: `pytorch: 4 × n1-standard-16 in europe-west4-a, spot`."""
        kinds = {"spot": self.spot, "flex-start": self.flex_start, f"from {self.reservation}": bool(self.reservation)}
        kind = "".join(f", {name}" for name, is_on in kinds.items() if is_on)
        of = self.machine or f"template {self.template}"
        shape = f", one slice of {self.topology}" if self.topology else ""
        return f"{self.name}: {self.vms} × {of} in {self.zone}{shape}{kind}"


def marker_of(group: str, text: str = "") -> str:
    """Return the description of a resource made for the group `zone/name`, with the user's text."""
    return f"{_OWNER}{group}" + (f". {text}" if text else "")


def group_in_marker(description: str) -> str | None:
    """Return `zone/name` of the group for which the resource with this description was made; None for others."""
    if not description.startswith(_OWNER):
        return None
    return description.removeprefix(_OWNER).partition(". ")[0]
