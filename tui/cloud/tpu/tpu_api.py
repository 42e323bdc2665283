"""The Cloud TPU API as an inventory: nodes and queued resources of every configured zone, in parallel.

Google's libraries are imported by the first request.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from tui.cloud.api_errors import did_not_answer
from tui.cloud.inventory import Inventory, Listing, gather_answers, join_some, no_such_slice, or_error, pick_slice
from tui.cloud.tpu import tpu_messages
from tui.cloud.tpu.queue_lifecycle import QueueLifecycle
from tui.cloud.tpu.slice_creation import SliceCreation
from tui.cloud.tpu.slice_lifecycle import SliceLifecycle
from tui.cloud.tpu.tpu_client import TpuConnection, TpuNodeConnection
from tui.cloud.tpu.zone_offers import ZoneOffers
from tui.errors import (
    CloudError,
    OutOfReachError,
    TpuTuiError,
    UnknownZone,
    UsageError,
    did_you_mean,
    near_matches,
)
from tui.pod.api_paths import last_part, region_of
from tui.pod.creation.queued_request import QueuedListing
from tui.pod.creation.request_checks import check_slice_request
from tui.pod.creation.slice_request import CreationStep, SliceRequest
from tui.pod.creation.zone_offer import OfferListing
from tui.pod.slice import Slice
from tui.settings import Settings

if TYPE_CHECKING:
    from google.cloud import tpu_v2

Row = TypeVar("Row")

EVERY_ZONE = "-"


class TpuApi(Inventory):
    """The slices of a project. Requests are repeated for `patience` seconds while the API is unavailable."""

    def __init__(self, settings: Settings, *, patience: float | None = None) -> None:
        self.zones = settings.zones
        """The configured zones; none means that all are listed."""
        self._api = TpuConnection(settings, patience)
        self._node_api = TpuNodeConnection(settings, patience)
        self.lifecycle = SliceLifecycle(self._api, self._node_api)
        """Deletes, starts and stops slices, and changes their metadata."""
        self.queue = QueueLifecycle(self._api)
        """Deletes and resets queued resources."""
        self._creation = SliceCreation(self._api)
        self._node_creation = SliceCreation(self._node_api)
        self._offers = ZoneOffers(self._api)

    async def slices(self) -> Listing:
        """Return the slices of the configured zones, or of all. Raises CloudError only without a connection."""
        await self._api.open()
        return await self._list(self.zones or (EVERY_ZONE,))

    async def get(self, name: str, zone: str | None) -> Slice:
        """Return one slice. Raises UsageError for none or several of that name, CloudError when the API fails."""
        await self._api.open()
        if zone is None:
            return await self._pick(name)
        try:
            node = await self._node(name, zone)
        except UnknownZone as error:
            raise await self._with_near_zones(error, zone) from None
        if node is not None:
            return tpu_messages.slice_of_node(node, local=self._api.is_local)
        listing = await self._list((zone,))
        queued = [slice_ for slice_ in listing.slices if slice_.name == name]
        if queued:
            return queued[0]
        everywhere = await self._list((EVERY_ZONE,))
        raise no_such_slice(name, zone, everywhere.slices)

    async def find(self, name: str, zone: str) -> Slice | None:
        """Return a slice, or what is requested of it; None if its zone has none. Raises CloudError where it fails."""
        await self._api.open()
        listing = await self._list((zone,))
        slice_ = next((slice_ for slice_ in listing.slices if slice_.name == name), None)
        if slice_ is None and listing.problems:
            raise listing.problems[0]
        return slice_

    async def identity(self, slice_: Slice) -> tuple[tuple[str, ...], str | None]:
        """Return the network tags and service account of the slice's workers, which firewall rules may name.

        Empty for a slice that has no node yet. Raises CloudError when the API fails.
        """
        if slice_.zone is None:
            return (), None
        await self._api.open()
        node = await self._node(slice_.name, slice_.zone)
        if node is None:
            return (), None
        return tuple(node.tags), node.service_account.email or None

    async def host_keys(self, slice_: Slice) -> Slice:
        """Return the slice with its workers' guest attributes; unchanged if there are none.

        Raises CloudError when the API cannot be reached or the login has expired.
        """
        if not slice_.workers or slice_.zone is None:
            return slice_
        what, path = f"host keys of {slice_.name} cannot be read", self._api.node_path(slice_.zone, slice_.name)
        try:
            answer = await self._api.ask(what, "get_guest_attributes", {"name": path})
        except TpuTuiError as error:
            if _has_none(error):
                return slice_
            raise
        return tpu_messages.with_guest_attributes(slice_, list(answer.guest_attributes))

    async def create(
        self, request: SliceRequest, *, dry_run: bool = False, waits: bool = True
    ) -> AsyncIterator[CreationStep]:
        """Create a slice, or several in the queue, and yield the steps; stopping early undoes nothing.

        Raises UsageError for a request that the API would refuse, before it is sent.
        """
        check_slice_request(request)
        creation = self._node_creation if request.is_tpu_node else self._creation
        try:
            async for step in creation.create(request, dry_run=dry_run, waits=waits):
                yield step
        except UnknownZone as error:
            raise await self._with_near_zones(error, request.zone) from None

    async def offers(self, zones: Sequence[str] = ()) -> OfferListing:
        """Return what the zones offer, by default the configured ones, else all."""
        await self._api.open()
        return await self._offers.of_zones(zones or self.zones)

    async def describe(self, slice_: Slice) -> dict[str, Any]:
        """Return everything that the API reports of a slice's node, or of its queued resource, in the API's JSON.

        A TPU Node's is that of v1. Raises UsageError for a slice that has gone since.
        """
        await self._api.open()
        zone = slice_.zone or ""
        what = f"slice {slice_.name} cannot be read"
        if slice_.is_tpu_node:
            path = self._api.node_path(zone, slice_.name)
            return tpu_messages.document(await self._node_api.ask(what, "get_node", {"name": path}))
        if (node := await self._node(slice_.name, zone)) is not None:
            return tpu_messages.document(node)
        if slice_.queued_resource is None:
            raise UsageError(what, why="it does not exist any more", remedy="tpu-tui slices lists them")
        name = f"{self._api.parent(zone)}/queuedResources/{slice_.queued_resource}"
        return tpu_messages.document(await self._api.ask(what, "get_queued_resource", {"name": name}))

    async def nodes(self) -> Listing:
        """Return the slices that exist in the configured zones, or in all, without those that are only requested."""
        rows, problems = await self._in_every_zone(self._nodes)
        return Listing(tuple(sorted(rows, key=lambda row: row.path)), problems)

    async def queued_requests(self) -> QueuedListing:
        """Return the queued resources of the configured zones, or of all, and the zones that failed."""
        rows, problems = await self._in_every_zone(self._queued)
        requests = sorted(map(tpu_messages.queued_request, rows), key=lambda row: (row.zone, row.name))
        return QueuedListing(tuple(requests), problems)

    async def _in_every_zone(
        self, read: Callable[[str], Awaitable[tuple[list[Row], list[CloudError]]]]
    ) -> tuple[list[Row], tuple[TpuTuiError, ...]]:
        """Return what all zones have, and the errors of those that failed."""
        await self._api.open()
        answers, problems = await gather_answers(map(read, self.zones or (EVERY_ZONE,)))
        rows = [row for found, _ in answers for row in found]
        return rows, (*problems, *(problem for _, silent in answers for problem in silent))

    async def metadata(self, slice_: Slice) -> dict[str, str]:
        """Return a slice's present metadata."""
        return await self.lifecycle.metadata(slice_.zone or "", slice_.name)

    async def close(self) -> None:
        """Close the channels."""
        await self._api.close()
        await self._node_api.close()

    async def _pick(self, name: str) -> Slice:
        """Find a slice by its name in the configured zones. The error names other zones that have one."""
        listing = await self.slices()
        if self.zones and not listing.problems and all(slice_.name != name for slice_ in listing.slices):
            everywhere = await self._list((EVERY_ZONE,))
            raise no_such_slice(name, ", ".join(self.zones), everywhere.slices)
        return pick_slice(name, None, listing)

    async def _list(self, zones: Sequence[str]) -> Listing:
        answers = await asyncio.gather(*(self._list_zone(zone) for zone in zones))
        slices = tpu_messages.merge(
            (row for nodes, _, _ in answers for row in nodes), (row for _, queued, _ in answers for row in queued)
        )
        problems: dict[tuple[str, str], TpuTuiError] = {}
        for problem in (problem for _, _, found in answers for problem in found):
            problems.setdefault((problem.what, problem.remedy), problem)  # both requests of a zone may fail alike
        return Listing(slices, tuple(problems.values()))

    async def _list_zone(self, zone: str) -> tuple[list[Slice], list[Slice], list[TpuTuiError]]:
        """Return one zone's nodes, the slices that are queued, and the problems."""
        nodes, queued = await asyncio.gather(or_error(self._nodes(zone)), or_error(self._queued(zone)))
        problems: list[TpuTuiError] = []
        for answer in (nodes, queued):
            if isinstance(answer, UnknownZone):
                return [], [], [await self._with_near_zones(answer, zone)]
            problems += [answer] if isinstance(answer, TpuTuiError) else answer[1]
        requests = [] if isinstance(queued, TpuTuiError) else queued[0]
        return (
            [] if isinstance(nodes, TpuTuiError) else nodes[0],
            [row for request in requests for row in tpu_messages.slices_of_queued(request)],
            problems,
        )

    async def _nodes(self, zone: str) -> tuple[list[Slice], list[CloudError]]:
        pages, silent = await self._pages(zone, "list_nodes")
        local = self._api.is_local
        return [tpu_messages.slice_of_node(node, local=local) for page in pages for node in page.nodes], silent

    async def _queued(self, zone: str) -> tuple[list[tpu_v2.QueuedResource], list[CloudError]]:
        pages, silent = await self._pages(zone, "list_queued_resources")
        return [queued for page in pages for queued in page.queued_resources], silent

    async def _pages(self, zone: str, method: str) -> tuple[list[Any], list[CloudError]]:
        """Return the pages of a list, and an error for each zone that did not answer."""
        what = "slices cannot be listed" if zone == EVERY_ZONE else f"slices in {zone} cannot be listed"
        pages = await self._api.pages(what, method, {"parent": self._api.parent(zone)})
        return pages, [did_not_answer("slices", last_part(place)) for page in pages for place in page.unreachable]

    async def _node(self, name: str, zone: str) -> tpu_v2.Node | None:
        from google.api_core.exceptions import InvalidArgument, NotFound

        what, path = f"slice {name} cannot be read", self._api.node_path(zone, name)
        try:
            node: tpu_v2.Node = await self._api.ask(what, "get_node", {"name": path})
        except UsageError as error:
            if isinstance(error.__cause__, (NotFound, InvalidArgument)):
                return None
            raise
        return node

    async def _with_near_zones(self, error: UnknownZone, zone: str) -> UnknownZone:
        """Return the error for a zone that does not exist, with the names of zones that do."""
        remedy = "tpu-tui slices without --zone lists every zone"
        try:
            zones = await self._offers.zones()
        except TpuTuiError:
            return UnknownZone(f"no such zone: {zone}", why=error.why, remedy=remedy)
        near = near_matches(zone, zones) or [name for name in zones if region_of(name) == zone]
        if near:
            remedy = did_you_mean(near)
        elif zones:
            remedy = f"the zones are: {join_some(zones)}"
        return UnknownZone(
            f"no such zone: {zone}", why=f"project {self._api.project} has no zone of that name", remedy=remedy
        )


def _has_none(error: TpuTuiError) -> bool:
    """Return whether the error means that there are no host keys, rather than that the API failed."""
    from google.api_core import exceptions

    kinds = (
        exceptions.NotFound,
        exceptions.FailedPrecondition,
        exceptions.MethodNotImplemented,
        exceptions.Forbidden,
    )
    return not isinstance(error, OutOfReachError) or isinstance(error.__cause__, kinds)
