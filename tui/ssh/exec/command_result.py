"""The result of one command on one worker; importing it loads no SSH library."""

from __future__ import annotations

from dataclasses import dataclass


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
