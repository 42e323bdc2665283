"""Memory: whether the replicas fit, asked before they grow and the kernel just kills one; what is freed, kept."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import math
import mmap
import weakref
from collections import deque
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from trainer.errors import TrainerError
from trainer.progress import counted

MIB = 1024 * 1024
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # glibc's mallopt(3)
KEPT, LARGEST_KEPT = 128 * MIB, 32 * MIB  # the latter is the most that glibc takes
RUNTIME_MIB = 500  # compiler, compiled code and runtime of a process, beyond the shared imports: measured
BYTES_PER_PARAMETER = 4 * 6  # weights, gradients, momentum, the flat bucket on either side, one spare copy
# What all layers put out, in values a pixel of input: counted by forward hooks at 224 pixels
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

Pixels = np.ndarray[Any, np.dtype[np.uint8]]

SPARE = 4  # large batches' worth of memory that is kept: as many are on their way at once
_spare: deque[mmap.mmap] = deque(maxlen=SPARE)


@dataclass(frozen=True)
class Machine:
    """What one rank sees of its machine: boot id (ranks of several workers may share one) and MiB available."""

    boot: str
    available: int


def this_machine() -> Machine:
    """Read from /proc and, where a limit is set, from the control group."""
    boot = _text("/proc/sys/kernel/random/boot_id").strip()
    available = next(
        (int(line.split()[1]) // 1024 for line in _text("/proc/meminfo").splitlines() if "MemAvailable" in line), 0
    )
    limit, used = _text("/sys/fs/cgroup/memory.max").strip(), _text("/sys/fs/cgroup/memory.current").strip()
    if limit.isdigit() and used.isdigit():
        available = min(available, max(0, int(limit) - int(used)) // MIB)
    return Machine(boot, available)


def needed(model: str, parameters: int, batch: int, size: int) -> int:
    """MiB that a replica on a CPU device is about to take: runtime, parameters, activations. An estimate."""
    activations = VALUES_PER_PIXEL[model] * 4 * batch * size * size
    return RUNTIME_MIB + (parameters * BYTES_PER_PARAMETER + activations) // MIB


def check(machines: list[Machine], each: int) -> None:
    """Raise TrainerError when the ranks that share a machine need more than it has."""
    for boot in dict.fromkeys(machine.boot for machine in machines):
        sharing = [machine for machine in machines if machine.boot == boot]
        available = min(machine.available for machine in sharing)
        if available and len(sharing) * each > available:
            every_replica = counted(len(sharing), "replica")
            raise TrainerError(
                "Too little memory",
                why=f"{every_replica} on one machine would take {len(sharing) * each / 1024:.1f} GiB, "
                f"{available / 1024:.1f} GiB are available",
                remedy="Use fewer cores, a smaller --model or --batch-size, or --no-memory-check",
            )


@functools.cache
def keep_freed() -> None:
    """Have this process use memory again that it freed, as the pixels and the batch of each step.

    glibc gives such large pieces back to the kernel, which then clears every page of the next ones anew: with images
    of 224 pixels that was 2 to 3 % of the input's time. Where there is another C library, nothing changes.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(M_MMAP_THRESHOLD, LARGEST_KEPT)
        mallopt(M_TRIM_THRESHOLD, KEPT)


def pixels(*shape: int) -> Pixels:
    """An array whose values do not matter yet. Where it is too large for `keep_freed`, memory of earlier ones.

    That is lent until nobody refers to the array or a part of it any more, as malloc's is: who copies it to a device
    meanwhile, holds on to it.
    """
    size = math.prod(shape)
    if size <= LARGEST_KEPT:
        return np.empty(shape, np.uint8)
    block = _spare_block(size)
    lent = np.frombuffer(block, np.uint8)
    weakref.finalize(lent, _spare.append, block).atexit = False
    return lent.reshape(shape)


def _spare_block(size: int) -> mmap.mmap:
    with contextlib.suppress(IndexError):  # there is none
        block = _spare.pop()
        if len(block) == size:
            return block
    return mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)


def _text(path: str) -> str:
    try:
        return Path(path).read_text()
    except OSError:
        return ""
