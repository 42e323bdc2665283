"""Hold samples of shards in memory for later epochs, while there is room.

A set as small as CIFAR-10 is then fetched, checked and unpacked once, not in each epoch.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence

from trainer.data.tar_samples import Sample
from trainer.distributed import memory_check
from trainer.distributed.memory_check import MIB

SPARED_MIB = 2048  # of the machine's memory that are left free
SAMPLE_OVERHEAD_BYTES = 700  # of memory per sample in addition to its fields


class SampleCache:
    """The samples of whole shards by URL; the first shards stay when there is no more room.

    Replacing shards would be useless: each would be replaced before the next epoch reads it.
    """

    def __init__(self, mib: int) -> None:
        """Set up for at most `mib` MiB, 0 for none."""
        self._room = mib * MIB
        self._shards: dict[str, Sequence[Sample]] = {}
        self._is_full = not mib
        self._one_at_a_time = threading.Lock()  # the next epoch begins while this one is still being read

    def get(self, url: str) -> Sequence[Sample] | None:
        """Return a shard's samples in order; None if they are not held."""
        return self._shards.get(url)

    def record(self, url: str, count: int, samples: Iterator[Sample]) -> Iterator[Sample]:
        """Yield the samples of a shard, and hold them when all `count` have come."""
        collected: list[Sample] = []
        for sample in samples:
            if not self._is_full:
                collected.append(sample)
                if len(collected) == count:  # the caller may stop at the last one
                    self._store(url, collected)
            yield sample

    def _store(self, url: str, samples: list[Sample]) -> None:
        size = sum(SAMPLE_OVERHEAD_BYTES + sum(map(len, sample.values())) for sample in samples)
        with self._one_at_a_time:
            if url in self._shards:
                return
            available = memory_check.read_machine_memory().available
            if size > self._room or 0 < available <= SPARED_MIB + size // MIB:  # 0 if unknown
                self._is_full = True
                return
            self._shards[url] = samples
            self._room -= size
