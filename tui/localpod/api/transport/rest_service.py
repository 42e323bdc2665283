"""The API over HTTP and JSON, at the public paths, which gcloud and the clients' REST transport use."""

from __future__ import annotations

import json
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from aiohttp import web

from tui.localpod.api import rpc_errors
from tui.localpod.api.authentication import NotTheOwner, check_site, check_token
from tui.localpod.api.routes import METHODS, TPU, TPU_V1, ApiMethod, ApiRouter
from tui.localpod.api.transport import json_transcoding
from tui.localpod.api.transport.json_transcoding import V1, V2, V2_ALPHA

_LOG = logging.getLogger(__name__)
_CONTENT_TYPE = "application/json"
_CLOSE_TIMEOUT_S = 1.0
"""How long `close` waits for a request that is in progress."""

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@dataclass(frozen=True)
class HttpRule:
    """A method's HTTP rule: its verb and its path below `/v2/projects/P`, in the `versions` of the API that have it.

    The path is the value of the request's field `field`; the HTTP body is the value of its field `body`.
    """

    method: str
    verb: str
    path: str
    field: str
    body: str | None = None
    versions: tuple[str, ...] = (V2, V2_ALPHA)


_EVERY = (V1, V2, V2_ALPHA)
_Z = "/locations/{zone}"
_NODE = _Z + "/nodes/{id:[^/:]+}"
_QUEUED = _Z + "/queuedResources/{id:[^/:]+}"

RULES = (
    HttpRule("ListNodes", "GET", _Z + "/nodes", "parent", None, _EVERY),
    HttpRule("CreateNode", "POST", _Z + "/nodes", "parent", "node", _EVERY),
    HttpRule("GetNode", "GET", _NODE, "name", None, _EVERY),
    HttpRule("DeleteNode", "DELETE", _NODE, "name", None, _EVERY),
    HttpRule("UpdateNode", "PATCH", _NODE, "node.name", "node"),
    HttpRule("StopNode", "POST", _NODE + ":stop", "name", "*", _EVERY),
    HttpRule("StartNode", "POST", _NODE + ":start", "name", "*", _EVERY),
    HttpRule("GetGuestAttributes", "POST", _NODE + ":getGuestAttributes", "name", "*"),
    HttpRule("ListQueuedResources", "GET", _Z + "/queuedResources", "parent"),
    HttpRule("CreateQueuedResource", "POST", _Z + "/queuedResources", "parent", "queuedResource"),
    HttpRule("GetQueuedResource", "GET", _QUEUED, "name"),
    HttpRule("DeleteQueuedResource", "DELETE", _QUEUED, "name"),
    HttpRule("ResetQueuedResource", "POST", _QUEUED + ":reset", "name", "*"),
    HttpRule("ListAcceleratorTypes", "GET", _Z + "/acceleratorTypes", "parent", None, _EVERY),
    HttpRule("ListTensorFlowVersions", "GET", _Z + "/tensorflowVersions", "parent", None, (V1,)),
    HttpRule("ListRuntimeVersions", "GET", _Z + "/runtimeVersions", "parent"),
    HttpRule("ListOperations", "GET", _Z + "/operations", "name", None, _EVERY),
    HttpRule("GetOperation", "GET", _Z + "/operations/{id:[^/:]+}", "name", None, _EVERY),
    HttpRule("ListLocations", "GET", "/locations", "name", None, _EVERY),
)
"""The HTTP rules of the Cloud TPU API (discovery documents of v1 and v2)."""


class RestService:
    """Serves the API on a free port of 127.0.0.1 to requests that carry `token`.

    `routes` are other APIs on the same port, each with its own paths (Compute Engine's begin with `/compute/v1`).
    """

    def __init__(self, api: ApiRouter, token: str, routes: Sequence[web.RouteDef] = ()) -> None:
        self._token = token
        self._app = web.Application(middlewares=[_errors_as_json, self._only_owner])
        self._app.add_routes([*tpu_routes(api), *routes])
        self._runner: web.AppRunner | None = None
        self.port = 0

    async def start(self) -> None:
        """Start listening."""
        self._runner = web.AppRunner(self._app, access_log=None, shutdown_timeout=_CLOSE_TIMEOUT_S)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        self.port = self._runner.addresses[0][1]

    @web.middleware
    async def _only_owner(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Refuse requests of anyone but the pod's owner, on every path."""
        try:
            check_site(f"127.0.0.1:{self.port}", request.headers)
            check_token(self._token, request.headers.getall("Authorization", []))
        except NotTheOwner as error:
            raise rpc_errors.not_the_owner(error.code, error.reason, str(error)) from None
        return await handler(request)

    async def close(self) -> None:
        """Stop listening and close every connection."""
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None


def tpu_routes(api: ApiRouter) -> list[web.RouteDef]:
    """Return the routes of every version of the Cloud TPU API."""
    return [
        web.route(rule.verb, f"/{version}/projects/{{project}}{rule.path}", _handler(api, rule, version))
        for rule in RULES
        for version in rule.versions
    ]


def _method_of(name: str, version: str) -> ApiMethod:
    """Return a method of this version's service or of a mix-in."""
    other_service = TPU if version == V1 else TPU_V1
    return next(method for method in METHODS if method.name == name and method.service != other_service)


def _handler(api: ApiRouter, rule: HttpRule, version: str) -> Handler:
    method = _method_of(rule.method, version)

    async def handle(request: web.Request) -> web.Response:
        resource = _resource(request)
        message = json_transcoding.read_request(
            method.request, version, {rule.field: resource}, request.query.items(), await request.read(), rule.body
        )
        answer = await api.call(method, message)
        text = json_transcoding.write_answer(answer, version)
        return web.Response(text=text + "\n", content_type=_CONTENT_TYPE)

    return handle


def _resource(request: web.Request) -> str:
    """Return the resource name or parent in the path, which follows the version and precedes a custom verb.

    A name consists of pairs of collection and ID; one more segment is the collection of a list or create call.
    """
    segments = request.path.partition(":")[0].split("/")[2:]
    return "/".join(segments[: len(segments) // 2 * 2])


@web.middleware
async def _errors_as_json(request: web.Request, handler: Handler) -> web.StreamResponse:
    try:
        return await handler(request)
    except rpc_errors.ApiError as error:
        return _error_answer(error)
    except (web.HTTPNotFound, web.HTTPMethodNotAllowed):
        return _error_answer(rpc_errors.ApiError("NOT_FOUND", "Method not found."))
    except web.HTTPException:
        raise
    except Exception as error:
        _LOG.exception("%s %s failed", request.method, request.path)
        return _error_answer(rpc_errors.ApiError("INTERNAL", f"Internal error: {error}"))


def _error_answer(error: rpc_errors.ApiError) -> web.Response:
    headers = {}
    if error.code == "UNAUTHENTICATED":
        headers["WWW-Authenticate"] = 'Bearer realm="https://accounts.google.com/", error="invalid_token"'
    text = json.dumps(error.to_json(), indent=2) + "\n"
    return web.Response(text=text, status=error.http_status, content_type=_CONTENT_TYPE, headers=headers)
