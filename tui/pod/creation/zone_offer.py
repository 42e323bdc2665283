"""What a zone offers: accelerator types and runtime versions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tui.errors import TpuTuiError


@dataclass(frozen=True, slots=True)
class ZoneOffer:
    """The accelerator types of one zone, each with its topologies, and the zone's runtime versions.

    `machine_types` are Compute Engine's with TPUs, of which instance groups are created.
    """

    zone: str
    types: Mapping[str, tuple[str, ...]]
    versions: tuple[str, ...] = ()
    machine_types: tuple[str, ...] = ()

    def to_json(self) -> list[dict[str, Any]]:
        """Return the rows that `slices types --json` prints (names are stable)."""
        types = [(name, list(topologies), list(self.versions)) for name, topologies in self.types.items()]
        machines: list[tuple[str, list[str], list[str]]] = [(name, [], []) for name in self.machine_types]
        return [
            {"zone": self.zone, "type": name, "topologies": topologies, "versions": versions}
            for name, topologies, versions in (*types, *machines)
        ]


@dataclass(frozen=True, slots=True)
class OfferListing:
    """The offers of several zones, and the problems of zones that are missing."""

    offers: tuple[ZoneOffer, ...] = ()
    problems: tuple[TpuTuiError, ...] = ()
