"""The description of one worker as plain data, which the parent writes and the worker's host process reads."""

from __future__ import annotations

import getpass
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from tui.cloud.compute.ssh_key_metadata import valid_keys
from tui.localpod.cleanup.process_sweep import Mark

TOKEN_FILE = "token"
"""The file of the owner's token, in the pod's directory next to the login key."""


@dataclass(frozen=True)
class HostSpec:
    """One worker. `directory` has `home`, `etc` (host key) and `dev` (files that stand for devices)."""

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
        """The mark of every process of this worker."""
        return Mark(self.pod, f"{self.slice_name}/{self.index}", self.serial)

    @property
    def home(self) -> Path:
        """The home directory of the worker's only user."""
        return Path(self.directory) / "home"

    @property
    def devices(self) -> tuple[Path, ...]:
        """The files that stand for /dev/accel*."""
        return tuple(Path(self.directory) / "dev" / f"accel{chip}" for chip in range(self.chips))

    @property
    def metadata_keys(self) -> Path:
        """The authorized_keys file of the keys in the node's metadata; absent until there is a key."""
        return Path(self.directory) / "etc" / "metadata_keys"

    @property
    def startup_script(self) -> Path:
        """The file of the startup script from the node's metadata; absent if there is none."""
        return Path(self.directory) / "etc" / "startup-script"

    @property
    def programs(self) -> Path:
        """The directory of the worker's own programs, which precede the machine's programs on the PATH."""
        return Path(self.directory) / "startup" / "bin"

    @property
    def os_login_keys(self) -> Path:
        """The directory with an authorized_keys file for each OS Login user name; absent until there is one."""
        return Path(self.directory) / "etc" / "os_login_keys"

    def to_bytes(self) -> bytes:
        """Return the spec in the form that the fork server receives."""
        return json.dumps(asdict(self)).encode()

    @classmethod
    def from_bytes(cls, data: bytes) -> HostSpec:
        """Parse the bytes that `to_bytes` returned."""
        return cls(**json.loads(data))


def write_startup_script(spec: HostSpec, text: str) -> None:
    """Write the script that the worker runs when it starts, or remove it if `text` is empty."""
    spec.startup_script.unlink(missing_ok=True)
    if text:
        spec.startup_script.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        spec.startup_script.write_bytes(text.encode())


def write_login_keys(spec: HostSpec, ssh_keys: str, os_login: Mapping[str, Sequence[str]] | None) -> None:
    """Write the unexpired keys of the worker's user, as a machine's guest agent does with `ssh-keys`.

    With OS Login, `os_login` has the keys of each user name, and the keys in the metadata are ignored.
    """
    spec.metadata_keys.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    _write_lines(spec.metadata_keys, valid_keys(ssh_keys, getpass.getuser()) if os_login is None else [])
    spec.os_login_keys.mkdir(mode=0o700, exist_ok=True)
    for file in spec.os_login_keys.iterdir():
        if file.name not in (os_login or {}):
            file.unlink()
    for name, keys in (os_login or {}).items():
        _write_lines(spec.os_login_keys / name, keys)


def _write_lines(path: Path, lines: Sequence[str]) -> None:
    temporary = path.with_name(f"{path.name}.new")
    temporary.write_text("".join(f"{line}\n" for line in lines))
    temporary.replace(path)
