"""The machine types with TPUs that zones of Compute Engine offer: TPU7x and others, for instance groups.

Source: Compute Engine API v1, `machineTypes.aggregatedList` and its `filter`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from tui.cloud.compute.compute_requests import ComputeRequests
from tui.settings import Settings

_TPU_MACHINES = "name eq '(ct|tpu)[0-9].*'"


async def list_tpu_machines(settings: Settings, zones: Collection[str]) -> Mapping[str, tuple[str, ...]]:
    """Return the machine types by zone, for the given zones or for all that have some. Raises CloudError.

    A local pod without a Compute Engine API has none.
    """
    if "tpu" in settings.endpoints and "compute" not in settings.endpoints:
        return {}
    async with ComputeRequests(settings) as compute:
        pages = await compute.ask(
            "machine types cannot be listed",
            "compute.machineTypes.list",
            lambda client: client.pages(
                f"{client.project}/aggregated/machineTypes", filter=_TPU_MACHINES, returnPartialSuccess="true"
            ),
        )
    offers: dict[str, tuple[str, ...]] = {}
    for page in pages:
        for scope, answer in page.get("items", {}).items():
            zone = scope.removeprefix("zones/")
            if names := [
                str(type_["name"]) for type_ in answer.get("machineTypes", ()) if not zones or zone in zones
            ]:
                offers[zone] = (*offers.get(zone, ()), *sorted(names))
    return offers
