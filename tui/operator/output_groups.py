"""What one command came to on many workers: the same outcome told once, with all of its workers. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from tui.ssh.exec.command_result import Completed
from tui.text.ranks import format_ranks


class Outcome(NamedTuple):
    """Output and ending that several workers share."""

    stdout: bytes
    stderr: bytes
    ending: str
    """What is to be said of how it ended; empty for exit code 0."""


def ending(answer: Completed) -> str:
    """How a command ended, where that is not with exit code 0."""
    if answer.timed_out:
        return "timed out"
    if answer.signal:
        return f"killed by SIG{answer.signal}"
    return "" if answer.exit_code == 0 else f"exit {answer.exit_code}"


def grouped(answers: Iterable[tuple[int, Outcome]]) -> list[tuple[Outcome, list[int]]]:
    """Each different outcome with its workers, ascending; the one of the lowest worker first."""
    groups: dict[Outcome, list[int]] = {}
    for rank, outcome in sorted(answers, key=lambda answer: answer[0]):
        groups.setdefault(outcome, []).append(rank)
    return list(groups.items())


def heading(outcome: Outcome, ranks: list[int]) -> str:
    """`workers 0-2,7 (4) · exit 1`."""
    told = f"worker{'s' * (len(ranks) > 1)} {format_ranks(ranks)} ({len(ranks)})"
    return f"{told} · {outcome.ending}" if outcome.ending else told
