"""Many rows as few findings: what says the same of several workers is said once, the worst first."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from tui.checks.check_row import CheckRow
from tui.checks.port_matrix import SEVERITY, Matrix, port_matrices
from tui.text.ranks import format_ranks

STATUSES = tuple(SEVERITY)
"""From the worst to the best."""
_COUNTED = {"fail": "failed", "unknown": "unknown", "warn": "warnings", "pass": "passed"}
_NUMBER = re.compile(r"(?<![^\s(])\d+(?:\.\d+)?(?=[\s,);%]|$)")
"""A number that stands by itself: no part of an address, a version or a name."""
_A_NAME_FOLLOWS = "pid "
"""A number after this names something: from the least to the greatest of them would say nothing."""
MOST_TEXTS = 2
"""Sentences that a finding holds side by side, as of the disks of home and /tmp."""
_STATES = {"fail": "filtered", "unknown": "not told"}


@dataclass(frozen=True)
class CheckFinding:
    """Rows that amount to one sentence; `workers` is empty where it is about the slice."""

    status: str
    check: str
    workers: tuple[int, ...]
    detail: str
    remedy: str | None
    rows: int

    @property
    def where(self) -> str:
        """`worker 3`, `workers 0-3`, or nothing for the slice."""
        if not self.workers:
            return ""
        return f"worker{'s' * (len(self.workers) > 1)} {format_ranks(self.workers)}"

    @property
    def sentence(self) -> str:
        """Where, by which check, what."""
        where = f"{self.where}: " if self.where else ""
        return f"{where}{self.check}: {self.detail}"


@dataclass(frozen=True)
class Digest:
    """All that was checked: findings with the worst first, how many by status, ports with trouble as squares."""

    counts: dict[str, int]
    """Findings, not rows: a check counts once, however many workers there are."""
    findings: tuple[CheckFinding, ...]
    matrices: tuple[Matrix, ...]

    @property
    def ok(self) -> bool:
        """Whether nothing failed; what is unknown did not fail, and is not fine."""
        return not self.counts["fail"]

    @property
    def summary(self) -> str:
        """Return the counts in words, the worst first: `1 warning, 20 passed`."""
        told = [_in_words(status, self.counts[status]) for status in _COUNTED if self.counts[status]]
        return ", ".join(told) or "nothing was checked"


def _in_words(status: str, count: int) -> str:
    return f"{count} {_COUNTED[status].removesuffix('s' if count == 1 else '')}"


def digest(rows: Sequence[CheckRow]) -> Digest:
    """Gather rows, finished or not: a stream can be digested again whenever more of it has come."""
    pairs = [row for row in rows if row.check == "ports" and row.peer is not None]
    others = [row for row in rows if not (row.check == "ports" and row.peer is not None)]
    findings = [*_alike(others), *_of_ports(pairs)]
    findings.sort(key=lambda finding: SEVERITY.get(finding.status, 0))
    counted = Counter(finding.status for finding in findings)
    matrices = tuple(matrix for matrix in port_matrices(rows) if matrix.filtered or matrix.unknown)
    return Digest({status: counted[status] for status in STATUSES}, tuple(findings), matrices)


def _alike(rows: Iterable[CheckRow]) -> list[CheckFinding]:
    """What workers passed is one finding a check; of all else what says the same but for numbers."""
    groups: dict[tuple[str, ...], list[CheckRow]] = {}
    for row in rows:
        passed = row.status == "pass" and row.worker is not None
        words = () if passed else (_shape(row.detail), row.remedy or "")
        groups.setdefault((row.status, row.check, *words), []).append(row)
    return [_finding(group) for group in groups.values()]


def _finding(group: Sequence[CheckRow]) -> CheckFinding:
    first = group[0]
    workers = tuple(sorted({row.worker for row in group if row.worker is not None}))
    detail = _together([row.detail for row in group], len(workers))
    return CheckFinding(first.status, first.check, workers, detail, first.remedy, len(group))


def _shape(text: str) -> str:
    return _NUMBER.sub("#", text)


def _together(details: Sequence[str], workers: int) -> str:
    """One text for all, a number in which they differ as its range.

    Where every worker says the same two things, both; nothing where workers differ in more than numbers.
    """
    alike: dict[str, list[str]] = {}
    for detail in details:
        alike.setdefault(_shape(detail), []).append(detail)
    of_each = len(alike) == 1 or (len(alike) <= MOST_TEXTS and {*map(len, alike.values())} == {workers})
    return "; ".join(map(_in_ranges, alike.values())) if of_each else ""


def _in_ranges(details: Sequence[str]) -> str:
    columns = zip(*(_NUMBER.findall(detail) for detail in details), strict=True)

    def told(match: re.Match[str]) -> str:
        is_a_name = match.string.endswith(_A_NAME_FOLLOWS, 0, match.start())
        return (_one_of if is_a_name else _range)(next(columns))

    return _NUMBER.sub(told, details[0])


def _one_of(names: Sequence[str]) -> str:
    others = len({*names}) - 1
    return f"{names[0]} and {others} more" if others else names[0]


def _range(numbers: Collection[str]) -> str:
    low, high = min(numbers, key=float), max(numbers, key=float)
    return low if float(low) == float(high) else f"{low}–{high}"


def _of_ports(pairs: Sequence[CheckRow]) -> list[CheckFinding]:
    tried = Counter(row.port for row in pairs)
    troubled: dict[tuple[str, int | None, str, str | None], list[CheckRow]] = {}
    for row in pairs:
        if row.status != "pass":
            troubled.setdefault((row.status, row.port, row.detail, row.remedy), []).append(row)
    found = [
        CheckFinding(status, "ports", (), f"tcp:{port} {_pairs(group, tried[port])}: {detail}", remedy, len(group))
        for (status, port, detail, remedy), group in troubled.items()
    ]
    through = Counter(row.port for row in pairs if row.status == "pass")
    by_share: dict[tuple[int, int], list[int]] = {}
    for port, count in sorted(through.items(), key=lambda item: item[0] or 0):
        by_share.setdefault((count, tried[port]), []).append(port or 0)
    return found + [
        CheckFinding(
            "pass", "ports", (), f"tcp:{','.join(map(str, ports))} {_share(*share)} get through", None, share[0]
        )
        for share, ports in by_share.items()
    ]


def _share(count: int, total: int) -> str:
    return f"all {total} pairs" if count == total else f"{count} of {total} pairs"


def _pairs(group: Sequence[CheckRow], total: int) -> str:
    """How many of the pairs, and whose they all are when one worker is at the end of each."""
    state = _STATES.get(group[0].status, group[0].status)
    told = f"{state} for {_share(len(group), total)}"
    if len(group) == 1:
        return f"{state} from worker {group[0].worker} to worker {group[0].peer}"
    common = set.intersection(*({row.worker, row.peer} for row in group))
    if len(common) != 1 or len(group) == total:
        return told
    culprit = common.pop()
    ends = {"from" if row.worker == culprit else "to" for row in group}
    return f"{told}, each {' or '.join(sorted(ends))} worker {culprit}"
