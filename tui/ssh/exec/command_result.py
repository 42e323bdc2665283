"""The result of one command on one worker; importing it loads no SSH library."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class CommandResult:
    """What became of one command on one worker; after a timeout the output is what came until then.

    `exit_code` is None when a `signal` ended it, when it timed out, or when the server did not say.
    """

    worker: int
    exit_code: int | None
    signal: str | None
    stdout: bytes
    stderr: bytes
    timed_out: bool
    omitted: int = 0
    """Bytes of output that were not kept; a line in it says where they are missing."""

    @property
    def ok(self) -> bool:
        """Whether it ended by itself with exit code 0."""
        return self.exit_code == 0 and not self.timed_out
