"""The accelerator types and runtime versions of zones, and which zones have a type."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from tui.aio.timeouts import within
from tui.cloud.inventory import gather_answers, join_some
from tui.cloud.tpu.tpu_client import ApiConnection, TpuNodeConnection
from tui.errors import TpuTuiError, did_you_mean, near_matches
from tui.pod.creation.zone_offer import OfferListing, ZoneOffer
from tui.text.numbers import parse_integer

MAX_REQUESTS = 16
"""Zones that are read at the same time; Cloud TPU has some 40."""
SEARCH_S = 15.0
"""Time limit of the search for other zones that have a type, for a remedy."""


class ZoneOffers:
    """Reads what zones offer for TPU VMs, or over a connection for TPU Nodes what they offer for those."""

    def __init__(self, api: ApiConnection) -> None:
        self._api = api
        is_for_nodes = isinstance(api, TpuNodeConnection)
        self._list_versions = "list_tensor_flow_versions" if is_for_nodes else "list_runtime_versions"
        self._versions = "tensorflow_versions" if is_for_nodes else "runtime_versions"

    async def zones(self) -> list[str]:
        """Return the zones of the project, sorted."""
        project = {"name": f"projects/{self._api.project}"}
        pages = await self._api.pages("zones cannot be listed", "list_locations", project)
        return sorted(location.location_id for page in pages for location in page.locations)

    async def of_zone(self, zone: str) -> ZoneOffer:
        """Return what one zone offers."""
        what, parent = f"types of {zone} cannot be listed", {"parent": self._api.parent(zone)}
        types, versions = await asyncio.gather(
            self._api.pages(what, "list_accelerator_types", parent),
            self._api.pages(what, self._list_versions, parent),
        )
        topologies = {
            item.type_: tuple(config.topology for config in getattr(item, "accelerator_configs", ()))
            for page in types
            for item in page.accelerator_types
        }
        return ZoneOffer(
            zone,
            dict(sorted(topologies.items(), key=_by_size)),
            tuple(item.version for page in versions for item in getattr(page, self._versions)),
        )

    async def of_zones(self, zones: Sequence[str]) -> OfferListing:
        """Return what the zones offer, by default all of the project; a zone that fails becomes a problem."""
        slots = asyncio.Semaphore(MAX_REQUESTS)

        async def read(zone: str) -> ZoneOffer:
            async with slots:
                return await self.of_zone(zone)

        offers, problems = await gather_answers(map(read, zones or await self.zones()))
        return OfferListing(tuple(offers), tuple(problems))

    async def zones_with(self, type_name: str, besides: str) -> list[str]:
        """Return the other zones that have a type; none if the search fails or takes too long."""
        try:
            listing = await within(self.of_zones(()), SEARCH_S)
        except (TpuTuiError, asyncio.TimeoutError):
            return []
        return [offer.zone for offer in listing.offers if type_name in offer.types and offer.zone != besides]

    async def missing(self, zone: str, type_name: str, version: str) -> tuple[str, str] | None:
        """Return why a zone cannot create such a slice, and the remedy; None if it can, or if that is unknown."""
        try:
            offer = await self.of_zone(zone)
        except TpuTuiError:
            return None
        if offer.types and type_name not in offer.types:
            elsewhere = await self.zones_with(type_name, zone)
            remedy = _choices(type_name, list(offer.types))
            if elsewhere:
                remedy = f"{type_name} is in {join_some(elsewhere)}"
            return f"there is no accelerator type {type_name} in {zone}", remedy
        if offer.versions and version not in offer.versions:
            return f"there is no runtime version {version} in {zone}", _choices(version, offer.versions)
        return None


def _by_size(item: tuple[str, object]) -> tuple[str, int]:
    """Sort v3-8 before v3-32."""
    generation, _, size = item[0].rpartition("-")
    return generation, parse_integer(size) or 0


def _choices(name: str, choices: Sequence[str]) -> str:
    near = near_matches(name, choices)
    return did_you_mean(near) if near else f"use one of {', '.join(choices)}"
