"""The API over gRPC: google-cloud-tpu's own messages, on a loopback port, for the pod's owner."""

from __future__ import annotations

import logging
from collections import defaultdict
from typing import Any

import grpc
import grpc.aio

from tui.localpod.api import rpc_errors
from tui.localpod.api.authentication import NotTheOwner, check_token
from tui.localpod.api.routes import METHODS, ApiMethod, ApiRouter
from tui.localpod.api.transport.messages import is_wrapper, plain

_LOG = logging.getLogger(__name__)
_STATUS_TRAILER = "grpc-status-details-bin"
"""The trailer from which Google's clients read google.rpc.Status."""
_CLOSE_TIMEOUT_S = 0.2
"""How long `close` waits for calls that are in progress."""


class GrpcService:
    """Serves the API on a free port of 127.0.0.1 to calls that carry `token`.

    Its credentials are gRPC's local credentials, because clients send no token over an insecure channel.
    """

    def __init__(self, api: ApiRouter, token: str) -> None:
        self._api = api
        self._token = token
        self._server: grpc.aio.Server | None = None
        self.port = 0

    async def start(self) -> None:
        """Start listening."""
        self._server = grpc.aio.server(options=[("grpc.so_reuseport", 0)])
        self._server.add_generic_rpc_handlers(self._handlers())
        credentials = grpc.local_server_credentials(grpc.LocalConnectionType.LOCAL_TCP)
        self.port = self._server.add_secure_port("127.0.0.1:0", credentials)
        await self._server.start()

    async def close(self) -> None:
        """Stop listening; calls that do not end quickly are cancelled."""
        if self._server is not None:
            await self._server.stop(_CLOSE_TIMEOUT_S)
            self._server = None

    def _handlers(self) -> tuple[Any, ...]:
        services: dict[str, dict[str, Any]] = defaultdict(dict)
        for method in METHODS:
            services[method.service][method.name] = grpc.unary_unary_rpc_method_handler(
                self._answering(method), _reader(method.request), _to_bytes
            )
        return tuple(grpc.method_handlers_generic_handler(name, methods) for name, methods in services.items())

    def _answering(self, method: ApiMethod) -> Any:
        async def answer(request: Any, context: Any) -> Any:
            try:
                check_token(self._token, _authorizations(context))
                return await self._api.call(method, request)
            except rpc_errors.ApiError as error:
                await _abort(context, error)
            except NotTheOwner as error:
                await _abort(context, rpc_errors.not_the_owner(error.code, error.reason, str(error)))
            except Exception as error:
                _LOG.exception("%s failed", method.name)
                await _abort(context, rpc_errors.ApiError("INTERNAL", f"Internal error: {error}"))

        return answer


def _authorizations(context: Any) -> list[str]:
    return [str(value) for key, value in context.invocation_metadata() or () if key == "authorization"]


async def _abort(context: Any, error: rpc_errors.ApiError) -> None:
    trailers = ((_STATUS_TRAILER, error.to_status().SerializeToString()),)
    await context.abort(grpc.StatusCode[error.code], error.message, trailing_metadata=trailers)


def _reader(kind: Any) -> Any:
    return kind.deserialize if is_wrapper(kind) else kind.FromString


def _to_bytes(message: Any) -> bytes:
    return bytes(plain(message).SerializeToString())
