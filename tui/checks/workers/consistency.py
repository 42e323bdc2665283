"""Comparison of workers: versions, synced code and clocks."""

from __future__ import annotations

import re
import statistics
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from tui.checks.check_row import CheckRow, make_row
from tui.checks.check_thresholds import CheckThresholds
from tui.checks.workers.check_facts import Facts
from tui.text.durations import format_duration
from tui.text.printable import one_line
from tui.text.ranks import name_ranks

COMPARED = ("python", "torch", "torch_xla", "libtpu", "jax", "jaxlib")
_FRAMEWORKS = ("torch", "jax")
_ABSENT = "none"
_ENOUGH_TO_VOTE = 3
"""Fewer clocks have no majority and are compared with this machine's clock."""
_RELEASE = re.compile(r"\d+\.\d+")
_HASH_SHOWN = 12
"""Characters of a hash to show."""


def version_rows(all_facts: Sequence[Facts]) -> list[CheckRow]:
    """Return a row for each worker that differs from the majority; one row when all agree.

    Without a majority, one row lists the workers of each version.
    """
    answered = [facts for facts in all_facts if facts.versions or facts.python_missing]
    rows = [_version_unknown(facts) for facts in all_facts if not (facts.versions or facts.python_missing)]
    if not answered:
        return rows
    odd = [
        row
        for name in COMPARED
        for row in _differing(
            "versions",
            name,
            {facts.worker: facts.versions.get(name, _ABSENT) for facts in answered},
            _same_minor if name == "python" else lambda *_: False,
            f"install the same {name} on all workers: tpu-tui exec SLICE -- …",
        )
    ]
    rows += odd
    if not odd:
        rows.append(_same(answered))
    return [*rows, *(row for facts in answered for row in _misfit(facts))]


def _version_unknown(facts: Facts) -> CheckRow:
    why = f": {facts.python_fault}" if facts.python_fault else ""
    return make_row("versions", "unknown", f"its Python does not answer{why}", worker=facts.worker)


def _differing(
    check: str, name: str, having: Mapping[int, str], alike: Callable[[str, str], bool], remedy: str
) -> list[CheckRow]:
    """Return a failure for each differing value, or a warning if `alike` accepts it; nothing if all values agree."""
    workers: dict[str, list[int]] = {}
    for worker, value in having.items():
        workers.setdefault(value, []).append(worker)
    if len(workers) == 1:
        return []
    ranked = Counter({value: len(group) for value, group in workers.items()}).most_common()
    usual = ranked[0][0]
    if ranked[0][1] == ranked[1][1]:
        detail = "; ".join(f"{value} on {name_ranks('worker', workers[value])}" for value, _ in ranked)
        status = "warn" if all(alike(usual, value) for value in workers) else "fail"
        return [make_row(check, status, f"{name} differs: {detail}", remedy)]
    return [
        make_row(
            check,
            "warn" if alike(usual, value) else "fail",
            f"{name} {value} here, {usual} on {name_ranks('worker', workers[usual])}",
            remedy,
            worker=worker,
        )
        for value, _ in ranked[1:]
        for worker in workers[value]
    ]


def _same_minor(usual: str, value: str) -> bool:
    """Return whether two versions have the same minor release; patch releases are compatible (PEP 387)."""
    first, second = _RELEASE.match(usual), _RELEASE.match(value)
    return first is not None and second is not None and first[0] == second[0]


def _same(all_facts: Sequence[Facts]) -> CheckRow:
    scope = "" if len(all_facts) == 1 else f" on all {len(all_facts)} workers"
    if program := all_facts[0].python_missing:
        remedy = "install it, or launch with --conda-env or --venv"
        return make_row("versions", "warn", f"command not found{scope}: {program}", remedy)
    having = all_facts[0].versions
    versions = ", ".join(f"{name} {having[name]}" for name in COMPARED if name in having)
    missing = "" if any(name in having for name in _FRAMEWORKS) else "; no torch"
    return make_row("versions", "pass", f"{versions}{missing}{scope}")


def code_rows(all_facts: Sequence[Facts]) -> list[CheckRow]:
    """Return whether every worker has the last synced tree, unchanged; nothing if no tree was ever synced."""
    synced = {facts.worker: facts.code for facts in all_facts}
    if not any(synced.values()):
        return []
    remedy = "copy it to all workers with tpu-tui sync SLICE DIR"
    rows = [
        make_row("code", "warn", f"{_short(code.hash)} was changed after it was synced", remedy, worker=worker)
        for worker, code in synced.items()
        if code is not None and code.state == "changed"
    ]
    having = {worker: _short(code.hash) if code else _ABSENT for worker, code in synced.items()}
    rows += _differing("code", "synced code", having, lambda *_: True, remedy)
    if rows:
        return rows
    scope = "" if len(synced) == 1 else f" on all {len(synced)} workers"
    return [make_row("code", "pass", f"{having[all_facts[0].worker]} was synced last{scope}")]


def _short(hash_: str) -> str:
    return one_line(hash_)[:_HASH_SHOWN]


def _misfit(facts: Facts) -> list[CheckRow]:
    """Return a failure if torch and torch_xla are not of the same release (PyTorch/XLA's installation notes)."""
    torch, xla = (_RELEASE.match(facts.versions.get(name, "")) for name in ("torch", "torch_xla"))
    if torch is None or xla is None or torch[0] == xla[0]:
        return []
    detail = f"torch {facts.versions['torch']} and torch_xla {facts.versions['torch_xla']} are different releases"
    remedy = f"pip install 'torch~={xla[0]}.0' 'torch_xla[tpu]~={xla[0]}.0'"
    return [make_row("versions", "fail", detail, remedy, worker=facts.worker)]


def clock_rows(all_facts: Sequence[Facts], limits: CheckThresholds) -> list[CheckRow]:
    """Return a row for each wrong clock, including this machine's; one row if all clocks agree."""
    clocks = {facts.worker: facts.clock for facts in all_facts if facts.clock is not None}
    rows = [
        make_row("clock", "unknown", "could not read its clock", worker=facts.worker)
        for facts in all_facts
        if facts.clock is None
    ]
    if not clocks:
        return rows
    voted = len(clocks) >= _ENOUGH_TO_VOTE
    usual = statistics.median(clock.ahead for clock in clocks.values()) if voted else 0.0
    reference = "the other workers'" if voted else "this machine's"
    odd = [
        _clock_row(worker, clock.ahead - usual, clock.error, reference, limits)
        for worker, clock in sorted(clocks.items())
        if _apart(clock.ahead - usual, clock.error) > limits.clock_skew_seconds
    ]
    error = max(clock.error for clock in clocks.values())
    if voted and _apart(usual, error) > limits.clock_skew_seconds:
        odd.append(_clock_row(None, -usual, error, "the workers'", limits))
    if odd:
        return [*rows, *odd]
    furthest = max(abs(clock.ahead) + clock.error for clock in clocks.values())
    detail = f"{'clock agrees' if len(clocks) == 1 else 'clocks agree'} with this machine to {furthest:.2f} s"
    return [*rows, make_row("clock", "pass", detail)]


def _apart(ahead: float, error: float) -> float:
    """Return the seconds by which two clocks certainly differ."""
    return max(0.0, abs(ahead) - error)


def _clock_row(worker: int | None, ahead: float, error: float, reference: str, limits: CheckThresholds) -> CheckRow:
    status = "fail" if _apart(ahead, error) > limits.clock_fail_seconds else "warn"
    clock = "this machine's clock" if worker is None else "its clock"
    detail = f"{clock} is {format_duration(abs(ahead))} {'ahead of' if ahead > 0 else 'behind'} {reference}"
    where = "here" if worker is None else "there"
    return make_row("clock", status, detail, f"set it {where}: sudo systemctl restart chrony", worker=worker)
