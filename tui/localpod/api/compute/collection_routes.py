"""The routes of resources that are documents only: disks, images, instance templates and resource policies."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any

from aiohttp import web

from tui.localpod.api.compute.answers import (
    PROJECT,
    ComputeError,
    answer,
    list_answer,
    page_of,
    read_document,
    relative,
)
from tui.localpod.api.compute.documents import (
    DISKS,
    IMAGES,
    POLICIES,
    SHAPES,
    TEMPLATES,
    DocumentStore,
    singular,
)
from tui.localpod.api.compute.guard import GLOBAL, REGION, ZONE, Guard, place_of
from tui.localpod.api.compute.operations import ComputeOperations
from tui.pod.api_paths import region_of

_STORED = {DISKS: ZONE, IMAGES: GLOBAL, TEMPLATES: GLOBAL, POLICIES: REGION}

Rows = Iterable[tuple[str, dict[str, Any]]]
"""Places, and the resources in them."""


class CollectionRoutes:
    """Serves the store. A request is checked and takes effect at once; its operation ends later."""

    def __init__(self, store: DocumentStore, operations: ComputeOperations, zones: Sequence[str]) -> None:
        self._store = store
        self._operations = operations
        self._zones = zones

    def routes(self, guard: Guard) -> Iterator[web.RouteDef]:
        """Yield the routes, each guarded by its permission."""
        from_family = guard("compute.images.getFromFamily", partial(self._get, IMAGES))
        yield web.get(f"{PROJECT}/{GLOBAL}/images/family/{{family}}", from_family)
        for collection, place in _STORED.items():
            base = f"{PROJECT}/{place}/{collection}"
            resource = f"{base}/{{name}}"
            permission = f"compute.{collection}"
            yield web.get(base, guard(f"{permission}.list", partial(self.list_place, collection)))
            yield web.post(base, guard(f"{permission}.create", partial(self._insert, collection)))
            yield web.get(resource, guard(f"{permission}.get", partial(self._get, collection)))
            yield web.delete(resource, guard(f"{permission}.delete", partial(self._delete, collection)))
            if collection != IMAGES:
                yield self.aggregated(guard, collection, partial(self.rows, collection))

    def aggregated(self, guard: Guard, collection: str, rows: Callable[[], Rows]) -> web.RouteDef:
        """Return the route that lists the resources by place, with a warning for a zone that has none."""

        async def handle(request: web.Request) -> web.Response:
            page, more = page_of(request, [{"place": place, "row": row} for place, row in rows()], "row")
            items: dict[str, Any] = {}
            for entry in page:
                items.setdefault(entry["place"], {collection: []})[collection].append(entry["row"])
            for zone in self._zones:
                scope = f"zones/{zone}"
                if scope not in items:
                    message = f"There are no results for scope '{scope}' on this page."
                    items[scope] = {"warning": {"code": "NO_RESULTS_ON_PAGE", "message": message}}
            return answer({"kind": f"compute#{singular(collection)}AggregatedList", "items": items, **more})

        return web.get(f"{PROJECT}/aggregated/{collection}", guard(f"compute.{collection}.list", handle))

    def rows(self, collection: str) -> Rows:
        """Yield every stored resource of a collection with its place."""
        for place in self._store.places(collection):
            yield from ((place, row) for row in self._store.list_all(collection, place))

    async def list_place(self, collection: str, request: web.Request) -> web.Response:
        """Answer with the stored resources of the place that the request names."""
        return list_answer(request, singular(collection), self._store.list_all(collection, place_of(request)))

    async def _get(self, collection: str, request: web.Request) -> web.Response:
        if collection == IMAGES:
            return answer(self._store.image(request.path))
        return answer(self._store.get(self._path(collection, request)))

    async def _insert(self, collection: str, request: web.Request) -> web.Response:
        body, place = await read_document(request, SHAPES[collection]), place_of(request)
        scope, _, name = place.partition("/")
        names = {"zones": self._zones, "regions": [region_of(zone) for zone in self._zones]}.get(scope, ())
        if place != GLOBAL and name not in names:
            raise ComputeError(400, f"Invalid value for field '{scope[:-1]}': '{name}'. Unknown {scope[:-1]}.")
        if (image := request.query.get("sourceImage")) is not None:
            body["sourceImage"] = image
        if collection == IMAGES and request.query.get("forceCreate", "false").lower() != "true":
            self._check_source_is_idle(body.get("sourceDisk", ""))
        path = self._store.insert(collection, place, body)
        return self._operations.start(request, "insert", path)

    def _check_source_is_idle(self, disk: str) -> None:
        """Raise ComputeError for an image of a disk that a running machine writes to."""
        path = relative(disk)
        for user in self._store.get(path).get("users", ()) if self._store.exists(path) else ():
            machine = relative(user)
            if self._store.exists(machine) and self._store.get(machine)["status"] != "TERMINATED":
                self._store.check_unused(path)

    async def _delete(self, collection: str, request: web.Request) -> web.Response:
        path = self._path(collection, request)
        self._store.check_unused(path)
        return self._operations.start(request, "delete", path, lambda: self._store.delete(path))

    def _path(self, collection: str, request: web.Request) -> str:
        return self._store.path(collection, place_of(request), request.match_info["name"])
