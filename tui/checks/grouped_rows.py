"""Group check rows into findings, the worst first; a finding may be about several workers."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from tui.checks.check_row import SEVERITY, CheckRow
from tui.checks.port_matrix import Matrix, port_matrices
from tui.text.ranks import name_ranks

_COUNTED = {"fail": "failed", "unknown": "unknown", "warn": "warnings", "pass": "passed"}
_NUMBER = re.compile(r"(?<![^\s(])\d+(?:\.\d+)?(?=[\s,);%]|$)")
"""A number that is not part of an address, a version or a name."""
_NAMES_A_PROCESS = "pid "
"""The text before a number that identifies a process; a range of such numbers would be meaningless."""
MOST_TEXTS = 2
"""Most sentences that one finding joins, e.g. about the disks of home and /tmp."""
_STATES = {"fail": "filtered", "unknown": "unknown"}


@dataclass(frozen=True)
class CheckFinding:
    """Rows that share one sentence; `workers` is empty if it is about the slice."""

    status: str
    check: str
    workers: tuple[int, ...]
    detail: str
    remedy: str | None

    @property
    def where(self) -> str:
        """`worker 3`, `workers 0-3`, or nothing for the slice."""
        return name_ranks("worker", self.workers) if self.workers else ""

    @property
    def sentence(self) -> str:
        """The workers, the check and the finding."""
        prefix = f"{self.where}: " if self.where else ""
        return f"{prefix}{self.check}: {self.detail}"


@dataclass(frozen=True)
class Digest:
    """The result of all checks: findings, the worst first; their number by status; matrices of blocked ports."""

    counts: dict[str, int]
    """Number of findings by status; a check that passed counts once for all workers."""
    findings: tuple[CheckFinding, ...]
    matrices: tuple[Matrix, ...]

    @property
    def ok(self) -> bool:
        """Return whether nothing failed; findings may be unknown."""
        return not self.counts["fail"]

    @property
    def summary(self) -> str:
        """Return the counts in words, the worst first: `1 warning, 20 passed`."""
        counts = [_in_words(status, self.counts[status]) for status in _COUNTED if self.counts[status]]
        return ", ".join(counts) or "nothing was checked"


def _in_words(status: str, count: int) -> str:
    return f"{count} {_COUNTED[status].removesuffix('s' if count == 1 else '')}"


def digest(rows: Sequence[CheckRow]) -> Digest:
    """Group rows into findings; can be called repeatedly while rows arrive."""
    pairs: list[CheckRow] = []
    others: list[CheckRow] = []
    for row in rows:
        (pairs if row.check == "ports" and row.peer is not None else others).append(row)
    findings = [*_group_rows(others), *_port_findings(pairs)]
    findings.sort(key=lambda finding: SEVERITY[finding.status])
    counted = Counter(finding.status for finding in findings)
    matrices = tuple(matrix for matrix in port_matrices(rows) if matrix.filtered or matrix.unknown)
    return Digest({status: counted[status] for status in SEVERITY}, tuple(findings), matrices)


def _group_rows(rows: Iterable[CheckRow]) -> list[CheckFinding]:
    """Group the passed rows of workers by check, and all other rows by their text without numbers."""
    groups: dict[tuple[str, ...], list[CheckRow]] = {}
    for row in rows:
        passed = row.status == "pass" and row.worker is not None
        texts = () if passed else (_shape(row.detail), row.remedy or "")
        groups.setdefault((row.status, row.check, *texts), []).append(row)
    return [_finding(group) for group in groups.values()]


def _finding(group: Sequence[CheckRow]) -> CheckFinding:
    first = group[0]
    workers = tuple(sorted({row.worker for row in group if row.worker is not None}))
    detail = _together([row.detail for row in group], len(workers))
    return CheckFinding(first.status, first.check, workers, detail, first.remedy)


def _shape(text: str) -> str:
    return _NUMBER.sub("#", text)


def _together(details: Sequence[str], workers: int) -> str:
    """Return one text for all details, with a range for each number in which they differ.

    Two texts that every worker has are joined. The result is empty if the details differ in more than numbers.
    """
    alike: dict[str, list[str]] = {}
    for detail in details:
        alike.setdefault(_shape(detail), []).append(detail)
    of_each = len(alike) == 1 or (len(alike) <= MOST_TEXTS and {*map(len, alike.values())} == {workers})
    return "; ".join(map(_in_ranges, alike.values())) if of_each else ""


def _in_ranges(details: Sequence[str]) -> str:
    columns = zip(*(_NUMBER.findall(detail) for detail in details), strict=True)

    def combined(match: re.Match[str]) -> str:
        is_a_name = match.string.endswith(_NAMES_A_PROCESS, 0, match.start())
        return (_one_of if is_a_name else _range)(next(columns))

    return _NUMBER.sub(combined, details[0])


def _one_of(names: Sequence[str]) -> str:
    more = len({*names}) - 1
    return f"{names[0]} and {more} more" if more else names[0]


def _range(numbers: Collection[str]) -> str:
    low, high = min(numbers, key=float), max(numbers, key=float)
    return low if float(low) == float(high) else f"{low}–{high}"


def _port_findings(pairs: Sequence[CheckRow]) -> list[CheckFinding]:
    totals = Counter(row.port for row in pairs)
    troubled: dict[tuple[str, int | None, str, str | None], list[CheckRow]] = {}
    through: Counter[int | None] = Counter()
    for row in pairs:
        if row.status == "pass":
            through[row.port] += 1
        else:
            troubled.setdefault((row.status, row.port, row.detail, row.remedy), []).append(row)
    findings = [
        CheckFinding(status, "ports", (), f"tcp:{port} {_pairs(group, totals[port])}: {detail}", remedy)
        for (status, port, detail, remedy), group in troubled.items()
    ]
    by_share: dict[tuple[int, int], list[int]] = {}
    for port, count in sorted(through.items(), key=lambda item: item[0] or 0):
        by_share.setdefault((count, totals[port]), []).append(port or 0)
    return findings + [
        CheckFinding("pass", "ports", (), f"tcp:{','.join(map(str, ports))} {_share(*share)} get through", None)
        for share, ports in by_share.items()
    ]


def _share(count: int, total: int) -> str:
    return f"all {total} pairs" if count == total else f"{count} of {total} pairs"


def _pairs(group: Sequence[CheckRow], total: int) -> str:
    """Describe how many pairs are affected, and the worker that all of them have in common."""
    state = _STATES.get(group[0].status, group[0].status)
    if len(group) == 1:
        return f"{state} from worker {group[0].worker} to worker {group[0].peer}"
    text = f"{state} for {_share(len(group), total)}"
    common = set.intersection(*({row.worker, row.peer} for row in group))
    if len(common) != 1 or len(group) == total:
        return text
    culprit = common.pop()
    ends = {"from" if row.worker == culprit else "to" for row in group}
    return f"{text}, each {' or '.join(sorted(ends))} worker {culprit}"
