"""What one worker's account of itself amounts to, a row each."""

from __future__ import annotations

from tui.checks.check_row import CheckRow
from tui.checks.check_thresholds import CheckThresholds
from tui.checks.merge_rows import Report
from tui.checks.workers.check_facts import Ask, Disk, Facts, FactsQuery, Owner, ask_facts
from tui.errors import TpuTuiError
from tui.pod import accelerator
from tui.pod.slice import Slice
from tui.pod.slice_commands import restart_advice
from tui.ssh.exec.script_protocol import ScriptNotRunError

GIB = 1024**3
_ALWAYS_TOLD = {"home": "home", "tmp": "/tmp"}
"""Places that every worker has, by what a person calls them."""
_WRITE_REMEDY = "see whether it is mounted read only after a disk's error (mount, dmesg), and whose it is (ls -ld)"
_LEAST_FILES = 1000
"""Room for fewer files than this is a full disk, whatever its bytes."""


def rows_of_facts(facts: Facts, slice_: Slice, limits: CheckThresholds) -> list[CheckRow]:
    """The rows of one worker; those that need the other workers are in `tui.checks.workers.consistency`."""
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
    return CheckRow(check, facts.worker, None, None, status, None, detail, remedy)


def _on(facts: Facts, slice_: Slice, command: str) -> str:
    """The command that does it on that worker."""
    return f"tpu-tui exec {slice_.path} --worker {facts.worker} -- {command}"


def _disk_rows(facts: Facts, limits: CheckThresholds) -> list[CheckRow]:
    told = {disk.place for disk in facts.disks}
    silent = [name for place, name in _ALWAYS_TOLD.items() if place not in told]
    return [
        *(_disk_row(facts, disk, limits) for disk in facts.disks),
        *(_row("disk", facts, "unknown", f"it does not tell the room on {name}") for name in silent),
    ]


def _disk_row(facts: Facts, disk: Disk, limits: CheckThresholds) -> CheckRow:
    where = _ALWAYS_TOLD.get(disk.place, disk.place)
    told = f"{disk.free / GIB:.1f} of {disk.size / GIB:.1f} GiB free on {where}"
    if not disk.writable:
        needless = disk.place == "home" and any(other.place == "run_root" for other in facts.disks)
        return _row("disk", facts, "warn" if needless else "fail", f"{where} cannot be written to", _WRITE_REMEDY)
    if disk.files_free is not None and disk.files_free < _LEAST_FILES:
        told = f"room for {disk.files_free} more files on {where} ({told})"
        return _row("disk", facts, "fail", told, _clear_remedy(disk))
    if disk.free < limits.disk_full_gib * GIB:
        return _row("disk", facts, "fail", told, _clear_remedy(disk))
    if disk.free < limits.disk_free_gib * GIB:
        return _row("disk", facts, "warn", told, _clear_remedy(disk))
    return _row("disk", facts, "pass", told)


def _clear_remedy(disk: Disk) -> str:
    if disk.place != "tmp":
        return "tpu-tui runs delete --on workers --older-than 7d frees old logs; see also old checkpoints"
    return "delete what old jobs left there: /tmp/tpu_logs, data sets, checkpoints"


def _memory_rows(facts: Facts, limits: CheckThresholds) -> list[CheckRow]:
    if facts.memory_free is None or not facts.memory_total:
        return [_row("memory", facts, "unknown", "it does not tell its memory")]
    told = f"{facts.memory_free / GIB:.1f} of {facts.memory_total / GIB:.1f} GiB free"
    if facts.memory_free < limits.memory_free_share * facts.memory_total:
        return [_row("memory", facts, "warn", told, "see who uses it: ps aux --sort=-rss")]
    return [_row("memory", facts, "pass", told)]


def _load_rows(facts: Facts, limits: CheckThresholds) -> list[CheckRow]:
    if facts.load is None or not facts.cpus:
        return [_row("load", facts, "unknown", "it does not tell its load")]
    told = f"{facts.load:.1f} on {facts.cpus} CPUs"
    if facts.load > limits.load_per_cpu * facts.cpus:
        return [_row("load", facts, "warn", told, "see who is busy: top -b -n 1")]
    return [_row("load", facts, "pass", told)]


def _chips_row(facts: Facts, slice_: Slice) -> CheckRow:
    kind = accelerator.parse(slice_.accelerator_type or "")
    if facts.devices is None:
        return _row("chips", facts, "unknown", "it does not tell its chips")
    told = "no chip seen" if not facts.devices else f"{facts.devices} chip{'s' if facts.devices > 1 else ''} seen"
    if kind is None:
        detail = f"{told}; how many there should be is not known"
        return _row("chips", facts, "pass" if facts.devices else "unknown", detail)
    wanted = {kind.chips_per_worker} | ({kind.devices_per_worker} if facts.devices_named else set())
    if facts.devices in wanted:
        return _row("chips", facts, "pass", told)
    detail = f"{told}, {kind.chips_per_worker} should be there ({kind.name})"
    return _row("chips", facts, "fail", detail, restart_advice(slice_))


def _device_rows(facts: Facts, slice_: Slice) -> list[CheckRow]:
    if not facts.devices:
        return []
    owners = facts.owners_of(None)
    rows = [_owner_row(facts, owner, slice_) for owner in owners]
    if rows:
        return rows
    if facts.owners_hidden:
        detail = "nobody seen to hold a chip, but processes of other users could not be looked into"
        return [_row("device", facts, "unknown", detail, "allow sudo without a password there")]
    return [_row("device", facts, "pass", "nobody holds a chip")]


def _owner_row(facts: Facts, owner: Owner, slice_: Slice) -> CheckRow:
    if owner.run is not None:
        return _row("device", facts, "warn", f"held by run {owner.run}, pid {owner.pid}", f"tpu-tui stop {owner.run}")
    kill = _on(facts, slice_, f"kill {owner.pid}")
    return _row("device", facts, "fail", f"held by {owner}", f"{kill} (not -9 first: that leaves libtpu dirty)")


def _lock_rows(facts: Facts, slice_: Slice) -> list[CheckRow]:
    lock = facts.lock
    if lock is None:
        return []
    owners = facts.owners_of(lock.path) or facts.owners_of(None)
    if owners:
        return [_row("lockfile", facts, "pass", f"{lock.path}, in use by pid {owners[0].pid}")]
    if facts.owners_hidden:
        detail = f"{lock.path} of {lock.user}; whether somebody uses it could not be seen"
        return [_row("lockfile", facts, "unknown", detail, "allow sudo without a password there")]
    told = f"{lock.path} of {lock.user} was left behind: nobody holds it or a chip"
    remedy = _on(facts, slice_, f"sudo rm {lock.path}")
    return [_row("lockfile", facts, "warn" if lock.writable else "fail", told, remedy)]


def _run_rows(facts: Facts) -> list[CheckRow]:
    return [_row("runs", facts, "warn", f"{run} has not ended", f"tpu-tui stop {run}") for run in facts.runs]


async def report_facts(
    index: int, slice_: Slice, ask: Ask, asking: FactsQuery, limits: CheckThresholds, told: list[Facts], tell: Report
) -> None:
    """Ask one worker; `told` gets its account and `tell` the rows of it, or the row why there is none."""
    try:
        facts = await ask_facts(index, ask, asking)
    except TpuTuiError as error:
        detail = f"{error.what}: {error.why}" if error.why else error.what
        status = "fail" if isinstance(error, ScriptNotRunError) else "unknown"
        tell(CheckRow("worker", index, None, None, status, None, detail, error.remedy or None))
        return
    told.append(facts)
    for row in rows_of_facts(facts, slice_, limits):
        tell(row)
