"""What requests for slices and for instance groups have in common: name, place, and settings of the VMs. Pure."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field
from typing import ClassVar

CREATED_BY = ("created-by", "tpu-tui")
"""The label of everything that tpu-tui creates."""
STARTUP_SCRIPT = "startup-script"
"""The metadata key of the text that every worker runs when it starts (Compute Engine, "Use startup scripts")."""
STARTUP_TIMEOUT_S = 1200.0


@dataclass(frozen=True, slots=True)
class MachineRequest(ABC):
    """The common part; empty texts leave the choice to the API.

    `metadata` has all values; `metadata_files` names the files from which some of them were read. A startup script,
    which is metadata too, may run for `startup_timeout_s`.
    """

    noun: ClassVar[str]
    name: str
    zone: str
    _: KW_ONLY
    description: str = ""
    network: str = ""
    subnetwork: str = ""
    internal_ips: bool = False
    service_account: str = ""
    scopes: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    metadata: Mapping[str, str] = field(default_factory=dict)
    metadata_files: Mapping[str, str] = field(default_factory=dict)
    spot: bool = False
    startup_timeout_s: float = STARTUP_TIMEOUT_S

    @property
    def path(self) -> str:
        """`zone/name`."""
        return f"{self.zone}/{self.name}"

    @property
    def failure(self) -> str:
        """What could not be done where the creation fails: `slice pod cannot be created in us-central1-a`."""
        return f"{self.noun} {self.name} cannot be created in {self.zone}"

    @property
    def slice_names(self) -> tuple[str, ...]:
        """The names of the slices to create."""
        return (self.name,)

    @property
    @abstractmethod
    def delete_command(self) -> str:
        """The command of tpu-tui that deletes everything that was created."""

    @property
    def has_startup_script(self) -> bool:
        """Return whether the workers run a script when they start."""
        return bool(self.metadata.get(STARTUP_SCRIPT))

    @property
    def all_labels(self) -> dict[str, str]:
        """The labels, with the label that names tpu-tui."""
        return {**self.labels, CREATED_BY[0]: CREATED_BY[1]}

    @property
    def all_metadata(self) -> dict[str, str]:
        """The metadata of each VM."""
        return dict(self.metadata)
