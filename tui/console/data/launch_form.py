"""What the launch dialog begins with, and what it says beside its fields. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import TYPE_CHECKING

from tui.checks.grouped_rows import digest
from tui.errors import UsageError
from tui.pod.slice import Slice
from tui.text.ranks import format_ranks

if TYPE_CHECKING:
    from tui.checks.check_row import CheckRow

_MOST_ALIKE = 2
"""Accounts of one check that are told whole; the other workers' are named only."""
_SHELLS = frozenset({"sh", "bash", "dash", "zsh", "fish", "ksh"})
_SHELL_SIGNS = frozenset({"|", "||", "&&", "&", ";", ">", ">>", "<", "2>&1"})
_VARIABLE = re.compile(r"\$\w|\$\{\w|\$\(")
_MARKS = {"fail": "✗", "warn": "!", "unknown": "?"}


@dataclass(frozen=True)
class Draft:
    """What the dialog begins with."""

    slices: tuple[Slice, ...]
    chosen: str = ""
    """A slice's path."""
    command: str = ""
    name: str = ""
    env: Mapping[str, str] = field(default_factory=dict)
    runtime: str = "pjrt"
    sync: str = ""
    workdir: str = ""
    venv: str = ""
    conda_env: str = ""
    on_failure: str = "stop"
    restarts: int = 0
    on_end: tuple[str, ...] = ()
    earlier: tuple[str, ...] = ()
    """Commands that were launched before, newest first."""
    had_code: bool = False
    """Whether code was copied for the run that this repeats: without it the command finds no file of its own."""
    scale_from: str = ""
    """An accelerator type: where this was trained before."""


def parse_env(text: str) -> dict[str, str]:
    """Rows of `NAME=value`; blank rows are left out. Raises UsageError naming the row."""
    env: dict[str, str] = {}
    for number, row in enumerate(text.splitlines(), 1):
        if not row.strip():
            continue
        name, equals, value = row.partition("=")
        if not equals or not name.strip():
            raise UsageError(f"row {number} of the environment is not NAME=value: {row.strip()!r}")
        env[name.strip()] = value
    return env


def parse_restarts(text: str) -> int:
    """How many times to launch again; none where nothing is written. Raises UsageError."""
    if not text.strip():
        return 0
    if not text.strip().isdecimal():
        raise UsageError(f"{text.strip()!r} is no number of restarts", remedy="0, 1, 2 …")
    return int(text)


def scaled(source: str, target: str | None, written: str) -> str:
    """What a training on `source` becomes on `target`, a figure a line; empty where nothing was asked.

    `written` is its global batch, then steps and learning rate where they shall be scaled too. Raises UsageError.
    """
    words = written.replace(",", " ").split()
    if not source.strip() or not words:
        return ""
    from tui.planning.plan import make_plan

    plan = make_plan(
        source.strip(),
        target or "",
        batch_size=int(_number(words[0], "batch")),
        steps=int(_number(words[1], "number of steps")) if len(words) > 1 else None,
        lr=_number(words[2], "learning rate") if len(words) > 2 else None,
    )
    figures = [f"global batch {plan.global_batch:,} ({plan.batch_per_core:,} a core)"]
    figures += [f"{plan.steps:,} steps"] * (plan.steps is not None)
    figures += [f"learning rate {plan.lr:g}"] * (plan.lr is not None)
    lines = [f"{plan.source} → {plan.target}: " + ", ".join(figures)]
    return "\n".join([*lines, *(f"  {note}" for note in plan.notes), *(f"  ! {text}" for text in plan.warnings)])


def _number(word: str, what: str) -> float:
    try:
        return float(word)
    except ValueError:
        raise UsageError(
            f"{word!r} is no {what}", remedy="batch, then steps, then learning rate: 1024 5000 0.1"
        ) from None


def shell_note(argv: Sequence[str]) -> str:
    """What to know of a command that looks as if a shell were to read it; empty where it does not."""
    signs = [word for word in argv if word in _SHELL_SIGNS or word.endswith(";") or _VARIABLE.search(word)]
    if not signs or any(word.rpartition("/")[2] in _SHELLS for word in argv):
        return ""
    return f"! no shell reads this: {signs[0]} stays as it is; sh -c '…' around the command makes one read it"


def check_lines(rows: Sequence[CheckRow], *, done: bool) -> str:
    """What the checks before a launch found: what hinders or warns, worst first, and a count of the rest.

    Of a check that says something else of every worker the first accounts are told, and the other workers named.
    """
    found = digest(rows)
    told = [finding for finding in found.findings if finding.status in _MARKS]
    lines = []
    for _, alike in groupby(told, lambda finding: (finding.status, finding.check)):
        accounts = list(alike)
        for finding in accounts[:_MOST_ALIKE]:
            where = f"{finding.where}: " if finding.where else ""
            lines.append(f"{_MARKS[finding.status]} {where}{finding.check}: {finding.detail}")
            lines += [f"  → {finding.remedy}"] * bool(finding.remedy)
        if rest := [worker for finding in accounts[_MOST_ALIKE:] for worker in finding.workers]:
            lines.append(f"  and likewise workers {format_ranks(rest)}")
    passed = found.counts["pass"]
    lines.append(
        f"{passed} check{'s' * (passed != 1)} passed" if done else f"checking the workers… {passed} passed so far"
    )
    return "\n".join(lines)
