"""How far a login got, and when; importing it loads no SSH library."""

from __future__ import annotations

from dataclasses import dataclass

from tui.errors import WorkerError


@dataclass
class LoginTimings:
    """When each step of a login was reached, in seconds from its start; None: not reached."""

    connected: float | None = None
    logged_in: float | None = None


@dataclass(frozen=True)
class LoginResult:
    """How far a login from this machine got: `stage` is where it ended, `ready` when it succeeded.

    Stages: name, connect, greeting, host_key, login, ready. Times are seconds since the start, None if not reached.
    """

    worker: int
    stage: str
    connected: float | None = None
    logged_in: float | None = None
    error: WorkerError | None = None

    @property
    def ok(self) -> bool:
        """Return whether the login succeeded."""
        return self.stage == "ready"
