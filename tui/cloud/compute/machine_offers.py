"""The machine types with TPUs that zones of Compute Engine offer: TPU7x and others, for instance groups.

Source: Compute Engine API v1, `machineTypes.aggregatedList` and its `filter`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from tui.cloud.compute.compute_requests import ComputeRequests
from tui.errors import CloudError
from tui.pod.api_paths import last_part
from tui.settings import Settings

_TPU_MACHINES = "name eq '(ct|tpu)[0-9].*'"


async def list_tpu_machines(settings: Settings) -> tuple[Mapping[str, list[str]], list[CloudError]]:
    """Return the machine types by zone, in the configured zones or in all that have some. Raises CloudError.

    The second value has an error for each zone without an answer. A local pod without a Compute Engine API has none.
    """
    offers = defaultdict[str, list[str]](list)
    if "tpu" in settings.endpoints and "compute" not in settings.endpoints:
        return offers, []
    async with ComputeRequests(settings) as compute:
        types, silent = await compute.aggregated(
            "machine types", "compute.machineTypes.list", "machineTypes", filter=_TPU_MACHINES
        )
    for name, zone in sorted((str(type_["name"]), last_part(str(type_["zone"]))) for type_ in types):
        offers[zone].append(name)
    return offers, silent
