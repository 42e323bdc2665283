"""The accelerator types that the pod offers, with the workers, devices and topology of each."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass

from tui.pod import accelerator

MAX_WORKERS = 64
"""The largest slice that is listed, in workers."""
MAX_CORES = 512
"""The maximum number of devices per worker of a `local-N` slice."""

_2D_CORES = {8: "2x2", 32: "4x4", 64: "4x8", 128: "8x8", 256: "8x16", 512: "16x16"}
_3D_CORES = {8: "2x2x1", 16: "2x2x2", 32: "2x2x4", 64: "2x4x4", 128: "4x4x4", 256: "4x4x8", 512: "4x8x8"}
_2D_CHIPS = {1: "1x1", 4: "2x2", 8: "2x4", 16: "4x4", 32: "4x8", 64: "8x8", 128: "8x16", 256: "16x16"}

_TOPOLOGIES: Mapping[str, Mapping[int, str]] = {
    "v2": {size: _2D_CORES[size] for size in (8, 32, 128, 256, 512)},
    "v3": _2D_CORES,
    "v4": _3D_CORES,
    "v5litepod": _2D_CHIPS,
    "v5p": _3D_CORES,
    "v6e": _2D_CHIPS,
}
"""Topology in chips by the number in the type's name (Cloud TPU documentation, TPU versions)."""

_PREFERRED = ("v3", "v4", "v6e")
"""The generations that `accelerator_type_for` chooses from; the others have the same shapes."""


@dataclass(frozen=True)
class SliceShape:
    """An accelerator type as the pod builds it.

    `cores` is the number of XLA devices per worker; None for `local-N`, where the creator or the pod decides.
    `local-N`, which the real API does not have, has no topology.
    """

    name: str
    generation: str
    workers: int
    cores: int | None
    topology: str | None = None


@functools.lru_cache(maxsize=1)
def shapes() -> Mapping[str, SliceShape]:
    """Return every accelerator type on offer, by name."""
    real = [
        _real(f"{generation}-{number}", topology)
        for generation, table in _TOPOLOGIES.items()
        for number, topology in table.items()
    ]
    local = [SliceShape(f"local-{workers}", "local", workers, None) for workers in range(1, MAX_WORKERS + 1)]
    return {shape.name: shape for shape in [*real, *local]}


def accelerator_type_for(workers: int, cores: int) -> str:
    """Return a real type with this many workers and devices per worker, else `local-<workers>`."""
    for generation in _PREFERRED:
        for shape in shapes().values():
            if (shape.generation, shape.workers, shape.cores) == (generation, workers, cores):
                return shape.name
    return f"local-{workers}"


def _real(name: str, topology: str) -> SliceShape:
    kind = accelerator.parse(name)
    assert kind is not None, name
    return SliceShape(name, kind.generation, kind.workers, kind.devices_per_worker, topology)
