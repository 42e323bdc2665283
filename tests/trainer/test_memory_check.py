from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from trainer.distributed import memory_check
from trainer.distributed.memory_check import MachineMemory
from trainer.errors import TrainerError


def test_replicas_that_fit_are_accepted() -> None:
    memory_check.check_memory([MachineMemory("a", 4000)] * 4, 1000)


def test_replicas_of_several_workers_on_one_machine_are_counted_together() -> None:
    with pytest.raises(TrainerError, match=r"5 replicas on one machine would take 4.9 GiB, 3.9 GiB are available"):
        memory_check.check_memory([MachineMemory("a", 4000)] * 5, 1000)
    memory_check.check_memory([MachineMemory("a", 4000)] * 3 + [MachineMemory("b", 4000)] * 2, 1000)


def test_a_machine_with_unknown_memory_is_accepted() -> None:
    memory_check.check_memory([MachineMemory("", 0)] * 100, 1000)


def test_a_larger_model_batch_or_image_needs_more() -> None:
    small = memory_check.estimate_replica_mib("resnet10", 5_000_000, 32, 32)
    assert small < memory_check.estimate_replica_mib("resnet50", 25_000_000, 32, 32)
    assert small < memory_check.estimate_replica_mib("resnet10", 5_000_000, 320, 32)
    assert small < memory_check.estimate_replica_mib("resnet10", 5_000_000, 32, 224)


def test_the_memory_and_the_identity_of_this_machine_are_read() -> None:
    here = memory_check.read_machine_memory()
    assert here.available > 0
    assert here == MachineMemory(memory_check.read_machine_memory().boot, here.available)


def test_pages_of_files_that_the_kernel_can_reclaim_count_as_available(monkeypatch: pytest.MonkeyPatch) -> None:
    mib = memory_check.MIB
    files = {
        "/proc/meminfo": "MemTotal: 8192000 kB\nMemAvailable: 4096000 kB\n",
        "/sys/fs/cgroup/memory.max": f"{1000 * mib}\n",
        "/sys/fs/cgroup/memory.current": f"{900 * mib}\n",
        "/sys/fs/cgroup/memory.stat": f"anon {100 * mib}\nactive_file {200 * mib}\ninactive_file {600 * mib}\n",
    }
    monkeypatch.setattr(memory_check, "_text", lambda path: files.get(path, ""))
    assert memory_check.read_machine_memory().available == 700
    files["/sys/fs/cgroup/memory.max"] = "max\n"
    assert memory_check.read_machine_memory().available == 4000
