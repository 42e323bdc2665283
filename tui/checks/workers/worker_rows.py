"""Rows about the facts of one worker."""

from __future__ import annotations

import shlex
from dataclasses import replace

from tui.checks.check_row import CheckRow, Report, error_row, make_row
from tui.checks.check_thresholds import CheckThresholds
from tui.checks.workers.check_facts import Ask, Disk, Facts, FactsQuery, Owner, ask_facts
from tui.errors import TpuTuiError
from tui.pod import accelerator
from tui.pod.slice import Slice
from tui.pod.slice_commands import restart_advice
from tui.ssh.exec.script_protocol import ScriptNotRunError
from tui.text.printable import format_count

GIB = 1024**3
_USUAL_PLACES = {"home": "home", "tmp": "/tmp"}
"""The places on every worker, and their names in messages."""
_WRITE_REMEDY = "check whether it was remounted read-only after a disk error (mount, dmesg), and its owner (ls -ld)"
_MIN_FREE_FILES = 1000
"""A disk with room for fewer files is full, however many bytes are free."""


def rows_of_facts(facts: Facts, slice_: Slice, limits: CheckThresholds) -> list[CheckRow]:
    """Return the rows of one worker; comparisons of workers are in `tui.checks.workers.consistency`."""
    return [
        *_disk_rows(facts, limits),
        *_memory_rows(facts, limits),
        *_load_rows(facts, limits),
        _chips_row(facts, slice_),
        *_device_rows(facts, slice_),
        *_lock_rows(facts, slice_),
        *_run_rows(facts),
    ]


def _row(check: str, facts: Facts, status: str, detail: str, remedy: str | None = None) -> CheckRow:
    return make_row(check, status, detail, remedy, worker=facts.worker)


def _on(facts: Facts, slice_: Slice, command: str) -> str:
    """Return the tpu-tui command that runs `command` on the worker of these facts."""
    return f"tpu-tui exec {slice_.path} --worker {facts.worker} -- {command}"


def _disk_rows(facts: Facts, limits: CheckThresholds) -> list[CheckRow]:
    places = {disk.place for disk in facts.disks}
    unknown = [name for place, name in _USUAL_PLACES.items() if place not in places]
    return [
        *(_disk_row(facts, disk, limits) for disk in facts.disks),
        *(_row("disk", facts, "unknown", f"could not read the free space on {name}") for name in unknown),
    ]


def _disk_row(facts: Facts, disk: Disk, limits: CheckThresholds) -> CheckRow:
    name = _USUAL_PLACES.get(disk.place, disk.place)
    text = f"{disk.free / GIB:.1f} of {disk.size / GIB:.1f} GiB free on {name}"
    if not disk.writable:
        not_needed = disk.place == "home" and any(other_disk.place == "run_root" for other_disk in facts.disks)
        return _row("disk", facts, "warn" if not_needed else "fail", f"{name} is not writable", _WRITE_REMEDY)
    lacks_files = disk.files_free is not None and disk.files_free < _MIN_FREE_FILES
    if lacks_files:
        text = f"room for {disk.files_free} more files on {name} ({text})"
    if lacks_files or disk.free < limits.disk_full_gib * GIB:
        return _row("disk", facts, "fail", text, _clear_remedy(disk))
    if disk.free < limits.disk_free_gib * GIB:
        return _row("disk", facts, "warn", text, _clear_remedy(disk))
    return _row("disk", facts, "pass", text)


def _clear_remedy(disk: Disk) -> str:
    if disk.place != "tmp":
        return "delete old logs (tpu-tui runs delete --on workers --older-than 7d) and old checkpoints"
    return "delete what old jobs left there: /tmp/tpu_logs, data sets, checkpoints"


def _memory_rows(facts: Facts, limits: CheckThresholds) -> list[CheckRow]:
    if facts.memory_free is None or not facts.memory_total:
        return [_row("memory", facts, "unknown", "could not read its memory")]
    text = f"{facts.memory_free / GIB:.1f} of {facts.memory_total / GIB:.1f} GiB free"
    if facts.memory_free < limits.memory_free_share * facts.memory_total:
        return [_row("memory", facts, "warn", text, "list the processes that use it: ps aux --sort=-rss")]
    return [_row("memory", facts, "pass", text)]


def _load_rows(facts: Facts, limits: CheckThresholds) -> list[CheckRow]:
    if facts.load is None or not facts.cpus:
        return [_row("load", facts, "unknown", "could not read its load")]
    text = f"{facts.load:.1f} on {facts.cpus} CPUs"
    if facts.load > limits.load_per_cpu * facts.cpus:
        return [_row("load", facts, "warn", text, "list the busy processes: top -b -n 1")]
    return [_row("load", facts, "pass", text)]


def _chips_row(facts: Facts, slice_: Slice) -> CheckRow:
    if slice_.tpu_node:
        return _row("chips", facts, "pass", f"none needed: they are in TPU Node {slice_.tpu_node}")
    kind = accelerator.parse(slice_.accelerator_type or "")
    if facts.devices is None:
        return _row("chips", facts, "unknown", "could not read its chips")
    text = f"{format_count(facts.devices, 'chip')} found" if facts.devices else "no chip found"
    if kind is None:
        detail = f"{text}; the expected number is not known"
        return _row("chips", facts, "pass" if facts.devices else "unknown", detail)
    if slice_.source == "instance_group":  # a v6e-8 may be two machines of four chips
        kind = replace(kind, workers=max(1, len(slice_.workers)))
    expected = {kind.chips_per_worker} | ({kind.devices_per_worker} if facts.devices_named else set())
    if facts.devices in expected:
        return _row("chips", facts, "pass", text)
    detail = f"{text}, expected {kind.chips_per_worker} ({kind.name})"
    return _row("chips", facts, "fail", detail, restart_advice(slice_, facts.worker))


def _device_rows(facts: Facts, slice_: Slice) -> list[CheckRow]:
    if not facts.devices:
        return []
    if owners := facts.owners_of(None):
        return [_owner_row(facts, owner, slice_) for owner in owners]
    if facts.owners_hidden:
        detail = "no process found that uses a chip, but processes of other users could not be inspected"
        return [_row("device", facts, "unknown", detail, "allow sudo without a password there")]
    return [_row("device", facts, "pass", "no process uses a chip")]


def _owner_row(facts: Facts, owner: Owner, slice_: Slice) -> CheckRow:
    if owner.run is not None:
        return _row(
            "device", facts, "warn", f"in use by run {owner.run} (pid {owner.pid})", f"tpu-tui stop {owner.run}"
        )
    kill = _on(facts, slice_, f"kill {owner.pid}")
    return _row(
        "device", facts, "fail", f"in use by {owner}", f"{kill} (not -9 at first, which leaves libtpu's lock behind)"
    )


def _lock_rows(facts: Facts, slice_: Slice) -> list[CheckRow]:
    lock = facts.lock
    if lock is None:
        return []
    owners = facts.owners_of(lock.path) or facts.owners_of(None)
    if owners:
        return [_row("lockfile", facts, "pass", f"{lock.path}, in use by pid {owners[0].pid}")]
    if facts.owners_hidden:
        detail = f"{lock.path} of {lock.user}; it is not known whether a process uses it"
        return [_row("lockfile", facts, "unknown", detail, "allow sudo without a password there")]
    detail = f"{lock.path} of {lock.user} was left behind: no process uses it or a chip"
    remedy = _on(facts, slice_, f"sudo rm {shlex.quote(lock.path)}")
    return [_row("lockfile", facts, "warn" if lock.writable else "fail", detail, remedy)]


def _run_rows(facts: Facts) -> list[CheckRow]:
    return [_row("runs", facts, "warn", f"{run} has not ended", f"tpu-tui stop {run}") for run in facts.runs]


async def report_facts(
    index: int,
    slice_: Slice,
    ask: Ask,
    query: FactsQuery,
    limits: CheckThresholds,
    collected: list[Facts],
    report: Report,
) -> None:
    """Read one worker's facts into `collected` and pass their rows, or the row of the error, to `report`."""
    try:
        facts = await ask_facts(index, ask, query)
    except TpuTuiError as error:
        status = "fail" if isinstance(error, ScriptNotRunError) else "unknown"
        report(error_row("worker", status, error, worker=index))
        return
    collected.append(facts)
    for row in rows_of_facts(facts, slice_, limits):
        report(row)
