"""The results of commands and of logins; importing this module loads no SSH library."""

from __future__ import annotations

from dataclasses import dataclass

from tui.errors import WorkerError


@dataclass(frozen=True)
class CommandResult:
    """The result of one command on one worker; after a timeout, the output up to then.

    `exit_code` is None when a `signal` ended it, when it timed out, or when the server did not report it.
    """

    worker: int
    exit_code: int | None
    signal: str | None
    stdout: bytes
    stderr: bytes
    timed_out: bool
    omitted: int = 0
    """Bytes of output that were dropped; a line in the output says where."""

    @property
    def ok(self) -> bool:
        """Return whether it ended by itself with exit code 0."""
        return self.exit_code == 0 and not self.timed_out


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
