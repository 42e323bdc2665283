"""What one worker is made of, as plain data: the parent writes it, the process that becomes the worker reads it."""

from __future__ import annotations

import getpass
import json
from dataclasses import asdict, dataclass, field
from datetime import datetime, timezone
from pathlib import Path

from tui.cloud.compute.ssh_key_metadata import entries
from tui.localpod.cleanup.process_sweep import Mark

TOKEN_FILE = "token"
"""In the pod's directory, next to the login key: what its owner's requests bear."""


@dataclass(frozen=True)
class HostSpec:
    """What one worker is made of. `directory` holds `home`, `etc` (host key) and `dev` (stand-in devices)."""

    pod: str
    slice_name: str
    index: int
    serial: int
    address: str
    hostname: str
    directory: str
    chips: int
    authorized_key: str
    environment: dict[str, str] = field(default_factory=dict)

    @property
    def mark(self) -> Mark:
        """What every process of this worker carries."""
        return Mark(self.pod, f"{self.slice_name}/{self.index}", self.serial)

    @property
    def home(self) -> Path:
        """The home directory of the one user."""
        return Path(self.directory) / "home"

    @property
    def devices(self) -> tuple[Path, ...]:
        """The stand-ins for /dev/accel*."""
        return tuple(Path(self.directory) / "dev" / f"accel{chip}" for chip in range(self.chips))

    @property
    def metadata_keys(self) -> Path:
        """The keys that the node's metadata lets in, as lines of authorized_keys; absent until it names one."""
        return Path(self.directory) / "etc" / "metadata_keys"

    def to_bytes(self) -> bytes:
        """The spec as the nursery is handed it."""
        return json.dumps(asdict(self)).encode()

    @classmethod
    def from_bytes(cls, data: bytes) -> HostSpec:
        """Read what `to_bytes` made."""
        return cls(**json.loads(data))


def write_metadata_keys(spec: HostSpec, ssh_keys: str) -> None:
    """What a machine's guest agent does with `ssh-keys`: the unexpired keys of its one user are let in."""
    user, now = getpass.getuser(), datetime.now(timezone.utc)
    mine = [one for one in entries(ssh_keys) if one.user == user and (one.expires is None or one.expires > now)]
    spec.metadata_keys.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    temporary = spec.metadata_keys.with_suffix(".new")
    temporary.write_text("".join(f"{one.key}\n" for one in mine))
    temporary.replace(spec.metadata_keys)
