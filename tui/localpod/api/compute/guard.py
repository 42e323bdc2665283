"""The checks that precede every request to the local pod's Compute Engine API, and the places in its paths."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from aiohttp import web

from tui.localpod.api.compute.answers import ROOT, ComputeError, missing_path
from tui.localpod.api.conditions import ServiceConditions

GLOBAL = "global"
"""The place of resources that belong to no zone or region."""
ZONE, REGION = "zones/{zone}", "regions/{region}"
PLACES = {"zone": ZONE, "region": REGION, GLOBAL: GLOBAL}
_PUBLIC = ("compute.images.get", "compute.images.getFromFamily")
"""The permissions that everyone has on the projects of public images."""

Handler = Callable[[web.Request], Awaitable[web.Response]]
Guard = Callable[[str, Handler], Handler]
"""Takes a permission and the handler of requests that need it; returns the handler with the checks."""


def place_of(request: web.Request) -> str:
    """Return the place that a request's path names: `zones/Z`, `regions/R` or `global`."""
    for name in ("zone", "region"):
        if place := request.match_info.get(name):
            return f"{name}s/{place}"
    return GLOBAL


def place_field(project: str, place: str) -> dict[str, str]:
    """Return the field that names a resource's zone or region."""
    return {} if place == GLOBAL else {place.partition("/")[0].removesuffix("s"): f"{ROOT}projects/{project}/{place}"}


class RequestGuard:
    """Refuses requests for other projects, and recognizes repeated requests.

    `known` returns the operation that an earlier request with the same ID started.
    """

    def __init__(
        self, project: str, conditions: ServiceConditions, known: Callable[[web.Request], web.Response | None]
    ) -> None:
        self._project = project
        self._conditions = conditions
        self._known = known

    def __call__(self, permission: str, handler: Handler) -> Handler:
        """Return the handler with the checks."""

        async def handle(request: web.Request) -> web.Response:
            try:
                project = request.match_info["project"]
                if project != self._project and permission not in _PUBLIC:
                    raise missing_path(f"projects/{project}")
                await self._conditions.before_call(permission, request)
                answer = self._known(request) or await handler(request)
            except ComputeError as error:
                return error.to_response()
            self._conditions.after_call(permission, request, answer)
            return answer

        return handle
