"""What settings are: frozen values, each with its origin."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Setting:
    """One value and where it came from: what `config show` prints."""

    name: str
    value: Any
    origin: str
    """`flag`, `environment TPU_TUI_…`, `profile NAME (path)`, `gcloud configuration NAME` or `default`."""


@dataclass(frozen=True)
class Settings:
    """Everything that was configured for one invocation."""

    home: Path
    """Holds runs, profiles and accepted host keys: `$TPU_TUI_HOME`, else the platform's user data directory."""
    profile: str | None = None
    project: str | None = None
    zones: tuple[str, ...] = ()
    """Zones to look in; empty means every zone."""
    hosts: Path | None = None
    """A file of SSH machines instead of the Cloud TPU API."""
    user: str | None = None
    identity: Path | None = None
    port: int | None = None
    known_hosts: tuple[Path, ...] = ()
    host_keys: str = "strict"
    """What to do with a host key not seen before: `strict` refuses, `accept-new` keeps it."""
    route: str = "external"
    """How workers are reached: `external` or `internal` address, or `iap` tunnel."""
    jump: str | None = None
    run_root: str = "~/.tpu-tui"
    """Where runs are kept on a worker."""
    runtime: str = "pjrt"
    """What a job's environment is prepared for: `pjrt`, `cpu`, `xrt` or `none`."""
    dialects: Mapping[str, Any] = field(default_factory=dict)
    thresholds: Mapping[str, float] = field(default_factory=dict)
    endpoints: Mapping[str, str] = field(default_factory=dict)
    """Other places of the APIs: `tpu` (gRPC host:port), `compute` and `storage` (URLs). Set on a local pod."""
    token: str | None = field(default=None, repr=False)
    """The bearer token that a local pod's APIs ask for; it is never sent beyond this machine."""
    read_only: bool = False
    account: str | None = None
    """The account that gcloud is logged in with; only for messages."""
    origins: Mapping[str, Setting] = field(default_factory=dict)

    @property
    def runs_home(self) -> Path:
        """Where run directories are."""
        return self.home / "runs"

    @property
    def own_known_hosts(self) -> Path:
        """The file of host keys accepted here."""
        return self.home / "known_hosts"
