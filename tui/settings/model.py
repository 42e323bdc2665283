"""The settings: frozen values, each with its origin."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tui.pod.worker import RUN_ROOT


@dataclass(frozen=True)
class Setting:
    """One value and its origin, as `config show` prints them."""

    name: str
    value: Any
    origin: str
    """`flag`, `environment TPU_TUI_…`, `profile NAME (path)`, `gcloud configuration NAME` or `default`."""


@dataclass(frozen=True)
class Settings:
    """All settings of one invocation."""

    home: Path
    """Directory of runs, profiles and accepted host keys: `$TPU_TUI_HOME`, else the user data directory."""
    profile: str | None = None
    project: str | None = None
    zones: tuple[str, ...] = ()
    """Zones to look in; empty means every zone."""
    hosts: Path | None = None
    """A file of SSH hosts to use instead of the Cloud TPU API."""
    user: str | None = None
    identity: Path | None = None
    port: int | None = None
    known_hosts: tuple[Path, ...] = ()
    host_keys: str = "strict"
    """What to do with an unknown host key: `strict` refuses it, `accept-new` saves it."""
    route: str = "external"
    """How to reach workers: by `external` or `internal` address, or through an `iap` tunnel."""
    jump: str | None = None
    run_root: str = RUN_ROOT
    """Directory of the runs on a worker."""
    runtime: str = "pjrt"
    """The runtime that a job's environment is prepared for: `pjrt`, `cpu`, `xrt` or `none`."""
    dialects: Mapping[str, Any] = field(default_factory=dict)
    thresholds: Mapping[str, float] = field(default_factory=dict)
    endpoints: Mapping[str, str] = field(default_factory=dict)
    """Other addresses of the APIs: `tpu` (gRPC host:port), `compute`, `oslogin`, `storage` (URLs). Set by a pod."""
    token: str | None = field(default=None, repr=False)
    """The bearer token for a local pod's APIs; it is never sent beyond this machine."""
    read_only: bool = False
    account: str | None = None
    """The account that gcloud is logged in with, for messages, and for OS Login if the credentials name none."""
    origins: Mapping[str, Setting] = field(default_factory=dict)

    @property
    def runs_home(self) -> Path:
        """The directory of run directories."""
        return self.home / "runs"

    @property
    def own_known_hosts(self) -> Path:
        """The file of host keys accepted here."""
        return self.home / "known_hosts"
