"""Group equal results of one command on many workers. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from tui.ssh.results import CommandResult
from tui.text.ranks import name_ranks


class SharedOutput(NamedTuple):
    """The output and ending that several workers have in common."""

    stdout: bytes
    stderr: bytes
    ending: str
    """How it ended; empty for exit code 0."""


def describe_ending(answer: CommandResult) -> str:
    """Return how a command ended; empty for exit code 0."""
    if answer.timed_out:
        return "timed out"
    if answer.signal:
        return f"killed by SIG{answer.signal}"
    return "" if answer.exit_code == 0 else f"exit {answer.exit_code}"


def group_outputs(outputs: Iterable[tuple[int, SharedOutput]]) -> list[tuple[SharedOutput, list[int]]]:
    """Return each distinct output with its workers, ascending; the lowest worker's first."""
    groups: dict[SharedOutput, list[int]] = {}
    for rank, output in sorted(outputs, key=lambda pair: pair[0]):
        groups.setdefault(output, []).append(rank)
    return list(groups.items())


def format_heading(output: SharedOutput, ranks: list[int]) -> str:
    """Return `workers 0-2,7 (4) · exit 1`."""
    heading = f"{name_ranks('worker', ranks)} ({len(ranks)})"
    return f"{heading} · {output.ending}" if output.ending else heading
