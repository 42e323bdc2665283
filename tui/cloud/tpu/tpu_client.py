"""Connections to the Cloud TPU API: opened on first use; requests with retries, a deadline and readable errors."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, TypeAlias

from tui.cloud.api_errors import ApiRequest, explain, is_transient, is_unknown_location, retry_delay_s
from tui.cloud.credentials import find_credentials
from tui.cloud.google_import import import_google
from tui.cloud.retries import LISTING_RESTARTS, pauses, retry_limits
from tui.errors import CloudError, TpuTuiError, UnknownZone, UsageError
from tui.procs.lazy_imports import without
from tui.settings import Settings

if TYPE_CHECKING:
    import grpc.aio
    from google.longrunning.operations_pb2 import Operation

Recovery: TypeAlias = "Callable[[bool], Awaitable[Operation | None]]"
"""Finds the operation of a request that was carried out without an answer, given whether an answer may be lost."""

_ASYNC_REST = "google.auth.aio.transport.sessions"
"""REST over aiohttp, optional in google.api_core and a third of its import time."""
_NO_PROJECT = "set one with --project, TPU_TUI_PROJECT, a profile or gcloud config set project"


class ApiConnection:
    """A TpuAsyncClient of one version of the API that is created on first use, and whose requests are retried.

    Google's libraries are imported in a thread: that takes half a second, which would freeze the screen.
    """

    library: str
    """The library's module of the version, with its client and messages."""

    def __init__(self, settings: Settings, patience: float | None = None) -> None:
        self._endpoint = settings.endpoints.get("tpu", "")
        self._retry_s, self._least_s = retry_limits(patience, is_local=bool(self._endpoint))
        self._token = settings.token
        self._project = settings.project
        self._client: Any = None
        self._opening = asyncio.Lock()

    @property
    def is_local(self) -> bool:
        """Return whether it is connected to a local pod."""
        return bool(self._endpoint)

    @property
    def project(self) -> str:
        """The project, known once `open` has returned."""
        return self._project or ""

    @property
    def types(self) -> Any:
        """The version's messages, importable once `open` has returned."""
        return importlib.import_module(self.library)

    def parent(self, zone: str) -> str:
        """Return the path of a zone, which is the parent of its resources; known once `open` has returned."""
        return f"projects/{self.project}/locations/{zone}"

    def node_path(self, zone: str, name: str) -> str:
        """Return the path of a node, known once `open` has returned."""
        return f"{self.parent(zone)}/nodes/{name}"

    async def open(self) -> Any:
        """Return the client. Raises CloudError without credentials, UsageError without a project."""
        async with self._opening:
            if self._client is None:
                await asyncio.to_thread(_import_google, self.library)
                self._client = self._open_local() if self.is_local else await self._open_google()
            return self._client

    async def ask(self, what: str, method: str, request: Any, recover: Recovery | None = None) -> Any:
        """Call a method of the client (`get_node`), again while the API is unavailable or busy; return its answer.

        `request` is the method's message, or its fields. The wait that the API requests is kept if time allows.
        `recover` is called after each error, also before a retry; it returns the answer if the request was carried
        out in spite of the error. Raises CloudError or UsageError (UnknownZone too) with this `what` ("slice x cannot
        be read").
        """
        call = getattr(await self.open(), method)
        from google.api_core.exceptions import GoogleAPIError, ServerError
        from google.auth.exceptions import GoogleAuthError

        clock = asyncio.get_running_loop().time
        started_at = clock()
        waits, is_lost = pauses(), False
        while True:
            remaining_s = started_at + self._retry_s - clock()
            try:
                answer = await _message_in(await call(request, timeout=max(self._least_s, remaining_s), retry=None))
                break
            except (GoogleAPIError, GoogleAuthError) as error:
                is_lost = is_lost or isinstance(error, ServerError)
                pause = max(retry_delay_s(error), next(waits))
                is_final = not is_transient(error) or pause >= remaining_s
                if not is_final:
                    await asyncio.sleep(pause)
                if recover is not None:
                    with contextlib.suppress(TpuTuiError):
                        if (recovered := await recover(is_lost)) is not None:
                            return recovered
                if is_final:
                    raise self._explain(error, what, clock() - started_at) from error
        if answer is None:  # gRPC returns None for an answer that is not the message it expects
            why = "the service at that address is not the Cloud TPU API"
            raise CloudError(what, why=why, remedy="check endpoints in tpu-tui config show, and proxies on the way")
        return answer

    async def pages(self, what: str, method: str, request: dict[str, str]) -> list[Any]:
        """Return every page of a list, each requested with its own retries.

        A list whose page token expires is read again from its beginning, up to `LISTING_RESTARTS` times.
        """
        from google.api_core.exceptions import InvalidArgument

        pages: list[Any] = []
        token, restarts = "", LISTING_RESTARTS
        while token or not pages:
            try:
                page = await self.ask(what, method, request | {"page_token": token})
            except UsageError as error:
                if not (token and restarts and isinstance(error.__cause__, InvalidArgument)):
                    raise
                pages, token, restarts = [], "", restarts - 1
                continue
            if token and page.next_page_token == token:
                raise CloudError(what, why="the API names the same next page again", remedy="try again")
            pages.append(page)
            token = page.next_page_token
        return pages

    def _explain(self, error: Exception, what: str, tried_s: float) -> TpuTuiError:
        explained = explain(error, ApiRequest(what, self.project, endpoint=self._endpoint), tried_s)
        if is_unknown_location(error):
            return UnknownZone(explained.what, why=explained.why, remedy=explained.remedy)
        return explained

    async def close(self) -> None:
        """Close the channel."""
        client, self._client = self._client, None
        if client is not None:
            await client.transport.close()

    def _open_local(self) -> Any:
        import grpc.aio

        self._project = self._project or "local"
        if self._token:
            channel = _local_channel(self._endpoint, self._token)
        else:
            channel = grpc.aio.insecure_channel(self._endpoint)
        transports = importlib.import_module(f"{self.library}.services.tpu.transports")
        return self.types.TpuAsyncClient(transport=transports.TpuGrpcAsyncIOTransport(channel=channel))

    async def _open_google(self) -> Any:
        login = await asyncio.to_thread(find_credentials)
        self._project = self._project or login.project
        if not self._project:
            raise UsageError("no Google Cloud project is configured", remedy=_NO_PROJECT)
        return self.types.TpuAsyncClient(credentials=login.credentials, transport="grpc_asyncio")


class TpuConnection(ApiConnection):
    """The API's v2, which reads every node and creates TPU VMs."""

    library = "google.cloud.tpu_v2"


class TpuNodeConnection(ApiConnection):
    """The API's v1, which creates TPU Nodes."""

    library = "google.cloud.tpu_v1"


def _local_channel(endpoint: str, token: str) -> grpc.aio.Channel:
    """Return a channel that sends a local pod's token, and connects within this machine only."""
    import grpc.aio

    channel = grpc.local_channel_credentials(grpc.LocalConnectionType.LOCAL_TCP)
    bearer = grpc.access_token_call_credentials(token)
    credentials = grpc.composite_channel_credentials(channel, bearer)
    return grpc.aio.secure_channel(endpoint, credentials, options=[("grpc.enable_http_proxy", 0)])


async def _message_in(answer: Any) -> Any:
    """Return the message in a client's answer: the first page of a pager, or the operation of a future."""
    if hasattr(answer, "pages"):
        return await answer.pages.__anext__()
    return getattr(answer, "operation", answer)


def _import_google(library: str) -> None:
    with without(_ASYNC_REST):
        import_google("grpc.aio", library, "google.auth.exceptions")
