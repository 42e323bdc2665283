"""What the launch form shows beside its fields: scaled figures, warnings, results of checks. Pure functions."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import groupby
from typing import TYPE_CHECKING

from tui.errors import UsageError
from tui.operator import digest
from tui.planning.plan import make_plan
from tui.text.numbers import parse_number
from tui.text.printable import format_count
from tui.text.ranks import format_ranks

if TYPE_CHECKING:
    from tui.operator import CheckRow

_MOST_ALIKE = 2
"""Results of one check that are shown in full; of the others, only the workers."""
_SHELLS = frozenset({"sh", "bash", "dash", "zsh", "fish", "ksh"})
_SHELL_SIGNS = frozenset({"|", "||", "&&", "&", ";", ">", ">>", "<", "2>&1"})
_VARIABLE = re.compile(r"\$\w|\$\{\w|\$\(")
_MARKS = {"fail": "✗", "warn": "!", "unknown": "?"}


def format_scaling(source: str, target: str | None, written: str) -> str:
    """Return the figures of a training on `source` scaled to `target`; empty if there are none to scale.

    `written` holds the global batch, then optionally steps and learning rate. Raises UsageError.
    """
    numbers = written.replace(",", " ").split()
    if not source.strip() or not numbers:
        return ""
    plan = make_plan(
        source.strip(),
        target or "",
        batch_size=int(_number(numbers[0], "batch")),
        steps=int(_number(numbers[1], "number of steps")) if len(numbers) > 1 else None,
        lr=_number(numbers[2], "learning rate") if len(numbers) > 2 else None,
    )
    figures = [f"global batch {plan.global_batch:,} ({plan.batch_per_core:,} per core)"]
    if plan.steps is not None:
        figures.append(format_count(plan.steps, "step"))
    if plan.lr is not None:
        figures.append(f"learning rate {plan.lr:g}")
    lines = [f"{plan.source} → {plan.target}: " + ", ".join(figures)]
    return "\n".join([*lines, *(f"  {note}" for note in plan.notes), *(f"  ! {text}" for text in plan.warnings)])


def _number(text: str, name: str) -> float:
    value = parse_number(text)
    if not value > 0:
        remedy = "enter batch, steps and learning rate, e.g. 1024 5000 0.1"
        raise UsageError(f"{text!r} is not a {name}", remedy=remedy)
    return value


def warn_about_shell(argv: Sequence[str]) -> str:
    """Return a warning for a command that seems to need a shell; empty if it does not."""
    signs = [word for word in argv if word in _SHELL_SIGNS or word.endswith(";") or _VARIABLE.search(word)]
    if not signs or any(word.rpartition("/")[2] in _SHELLS for word in argv):
        return ""
    return f"! No shell interprets this command: {signs[0]} is passed on as it is. To use a shell, write sh -c '…'."


def format_checks(rows: Sequence[CheckRow], *, done: bool) -> str:
    """Return what the checks before a launch found: failures and warnings, worst first, and a count of the rest.

    Where a check differs on every worker, the first results are shown in full and the other workers by number.
    """
    checks = digest(rows)
    findings = [finding for finding in checks.findings if finding.status in _MARKS]
    lines = []
    for _, alike in groupby(findings, lambda finding: (finding.status, finding.check)):
        group = list(alike)
        for finding in group[:_MOST_ALIKE]:
            prefix = f"{finding.where}: " if finding.where else ""
            lines.append(f"{_MARKS[finding.status]} {prefix}{finding.check}: {finding.detail}")
            if finding.remedy:
                lines.append(f"  → {finding.remedy}")
        if rest := [worker for finding in group[_MOST_ALIKE:] for worker in finding.workers]:
            lines.append(f"  same on workers {format_ranks(rest)}")
    count = checks.counts["pass"]
    lines.append(f"{format_count(count, 'check')} passed" if done else f"checking the workers… {count} passed so far")
    return "\n".join(lines)
