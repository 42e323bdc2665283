"""The connection to the Cloud TPU API: opened on first use, asked with back-off and deadline, errors as sentences."""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, TypeVar

from tui.errors import CloudError, UsageError
from tui.procs.lazy_imports import without
from tui.settings import Settings

if TYPE_CHECKING:
    import grpc.aio
    from google.cloud.tpu_v2 import TpuAsyncClient

Answer = TypeVar("Answer")

PATIENCE_SECONDS = 20.0
"""How long one question is asked again while the API is unavailable."""
LOCAL_PATIENCE_SECONDS = 4.0
"""The same on a local pod, which is there or is not."""
_FIRST_PAUSE_SECONDS = 0.2
_LONGEST_PAUSE_SECONDS = 4.0
_ASYNC_REST = "google.auth.aio.transport.sessions"
"""REST over aiohttp, which google.api_core goes without where it cannot be imported: a third of its start-up."""
_NO_PROJECT = "name one with --project, TPU_TUI_PROJECT, a profile or gcloud config set project"


class UnknownZone(UsageError):
    """The API knows no such zone, or not for this login."""


class TpuConnection:
    """A TpuAsyncClient that is made on first use, and asked with patience.

    Google's libraries are imported in a thread: half a second during which the screen would else stand still.
    """

    def __init__(self, settings: Settings, patience: float | None = None) -> None:
        self._endpoint = settings.endpoints.get("tpu", "")
        self._patience = patience or (LOCAL_PATIENCE_SECONDS if self._endpoint else PATIENCE_SECONDS)
        self._token = settings.token
        self._project = settings.project
        self._client: TpuAsyncClient | None = None
        self._opening = asyncio.Lock()

    @property
    def is_local(self) -> bool:
        """Whether a local pod answers."""
        return bool(self._endpoint)

    @property
    def project(self) -> str:
        """The project asked about, known once `open` has returned."""
        return self._project or ""

    async def open(self) -> TpuAsyncClient:
        """The client. Raises CloudError without credentials, UsageError without a project."""
        async with self._opening:
            if self._client is None:
                await asyncio.to_thread(_import_google)
                self._client = self._open_local() if self.is_local else await self._open_google()
            return self._client

    async def ask(self, what: str, call: Callable[[TpuAsyncClient, float], Awaitable[Answer]]) -> Answer:
        """Call the API, again while it is unavailable; `call` gets the client and the seconds it may take.

        Raises CloudError or UsageError whose `what` that is ("slice x cannot be read"); UnknownZone among them.
        """
        client = await self.open()
        from google.api_core.exceptions import GoogleAPIError
        from google.api_core.retry import AsyncRetry
        from google.auth.exceptions import GoogleAuthError

        from tui.cloud import api_errors

        clock = asyncio.get_running_loop().time
        started = clock()
        retry = AsyncRetry(
            predicate=api_errors.is_passing,
            initial=_FIRST_PAUSE_SECONDS,
            maximum=_LONGEST_PAUSE_SECONDS,
            timeout=self._patience,
        )

        async def once() -> Answer:
            return await call(client, max(1.0, started + self._patience - clock()))

        try:
            answer = await retry(once)()
        except (GoogleAPIError, GoogleAuthError) as error:
            asked = api_errors.ApiRequest(what, self.project, endpoint=self._endpoint)
            told = api_errors.explain(error, asked, clock() - started)
            if api_errors.is_unknown_location(error):
                raise UnknownZone(told.what, why=told.why, remedy=told.remedy) from error
            raise told from error
        if answer is None:
            raise unreadable(what)
        return answer

    async def close(self) -> None:
        """Close the channel."""
        client, self._client = self._client, None
        if client is not None:
            await client.transport.close()  # type: ignore[no-untyped-call]

    def _open_local(self) -> TpuAsyncClient:
        import grpc.aio
        from google.cloud.tpu_v2 import TpuAsyncClient
        from google.cloud.tpu_v2.services.tpu.transports.grpc_asyncio import TpuGrpcAsyncIOTransport

        self._project = self._project or "local"
        if self._token:
            channel = _local_channel(self._endpoint, self._token)
        else:
            channel = grpc.aio.insecure_channel(self._endpoint)
        return TpuAsyncClient(transport=TpuGrpcAsyncIOTransport(channel=channel))

    async def _open_google(self) -> TpuAsyncClient:
        from google.cloud.tpu_v2 import TpuAsyncClient

        from tui.cloud.credentials import find_credentials

        found = await asyncio.to_thread(find_credentials)
        self._project = self._project or found.project
        if not self._project:
            raise UsageError("no Google Cloud project is configured", remedy=_NO_PROJECT)
        return TpuAsyncClient(credentials=found.credentials, transport="grpc_asyncio")


def _local_channel(endpoint: str, token: str) -> grpc.aio.Channel:
    """Return a channel that bears a local pod's token, and opens within this machine only."""
    import grpc.aio

    channel = grpc.local_channel_credentials(grpc.LocalConnectionType.LOCAL_TCP)
    bearer = grpc.access_token_call_credentials(token)
    credentials = grpc.composite_channel_credentials(channel, bearer)
    return grpc.aio.secure_channel(endpoint, credentials, options=[("grpc.enable_http_proxy", 0)])


def unreadable(what: str) -> CloudError:
    """gRPC hands out None for bytes that are no message of the API's."""
    why = "what answers there does not speak the Cloud TPU API"
    return CloudError(what, why=why, remedy="look at endpoints in tpu-tui config show, and at proxies on the way")


def _import_google() -> None:
    from tui.cloud.credentials import silence_libraries

    silence_libraries()
    with without(_ASYNC_REST):
        for name in ("grpc.aio", "google.cloud.tpu_v2", "tui.cloud.api_errors"):
            importlib.import_module(name)


def request_options(timeout: float) -> dict[str, Any]:
    """What every call is made with: its time, and no retry of the library's own."""
    return {"timeout": timeout, "retry": None}
