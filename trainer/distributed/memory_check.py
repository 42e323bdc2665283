"""Check that the replicas fit into memory, before they grow and the kernel kills one."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from trainer.errors import TrainerError
from trainer.progress import format_count

MIB = 1024 * 1024
RUNTIME_MIB = 500  # compiler, compiled code and runtime of a process, beyond the shared imports: measured
BYTES_PER_PARAMETER = 4 * 6  # weights, gradients, momentum, the flat bucket on either side, one spare copy
# Output values of all layers per input pixel, counted by forward hooks at 224 pixels
VALUES_PER_PIXEL = {
    "tiny": 13,
    "tiny-batchnorm": 20,
    "resnet10": 105,
    "resnet18": 150,
    "resnet34": 225,
    "resnet50": 640,
    "resnet101": 945,
    "resnet152": 1325,
}


@dataclass(frozen=True)
class MachineMemory:
    """A rank's machine: its boot id, which ranks of several workers may share, and the available MiB."""

    boot: str
    available: int


def read_machine_memory() -> MachineMemory:
    """Read the available memory from /proc and, if a limit is set, from the control group."""
    boot = _text("/proc/sys/kernel/random/boot_id").strip()
    available = _number("/proc/meminfo", "MemAvailable:") // 1024
    limit, used = _text("/sys/fs/cgroup/memory.max").strip(), _text("/sys/fs/cgroup/memory.current").strip()
    if limit.isdigit() and used.isdigit():
        reclaimable = _number("/sys/fs/cgroup/memory.stat", "inactive_file")  # e.g. of shards that were read
        available = min(available, max(0, int(limit) - int(used) + reclaimable) // MIB)
    return MachineMemory(boot, available)


def estimate_replica_mib(model: str, parameters: int, batch: int, size: int) -> int:
    """Estimate the MiB that a replica on a CPU device takes: runtime, parameters, activations."""
    activations = VALUES_PER_PIXEL[model] * 4 * batch * size * size
    return RUNTIME_MIB + (parameters * BYTES_PER_PARAMETER + activations) // MIB


def check_memory(machines: list[MachineMemory], each: int) -> None:
    """Raise TrainerError when the ranks that share a machine need more than it has."""
    for boot in dict.fromkeys(machine.boot for machine in machines):
        sharing = [machine for machine in machines if machine.boot == boot]
        available = min(machine.available for machine in sharing)
        if available and len(sharing) * each > available:
            every_replica = format_count(len(sharing), "replica")
            raise TrainerError(
                "Too little memory",
                why=f"{every_replica} on one machine would take {len(sharing) * each / 1024:.1f} GiB, "
                f"{available / 1024:.1f} GiB are available",
                remedy="Use fewer cores, a smaller --model or --batch-size, or --no-memory-check",
            )


def _number(path: str, name: str) -> int:
    """Return the number beside a name in a file of /proc or /sys; 0 if there is none."""
    lines = (line.split() for line in _text(path).splitlines() if line)
    return next((int(fields[1]) for fields in lines if fields[0] == name), 0)


def _text(path: str) -> str:
    try:
        return Path(path).read_text()
    except OSError:
        return ""
