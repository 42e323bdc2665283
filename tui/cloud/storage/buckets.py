"""Cloud Storage: the location of a bucket, whether an object exists, downloads, and uploads that are all or nothing.

The client of google-cloud-storage is synchronous, so each call runs in its own thread.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import errno
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, TypeVar

from tui.cloud.answers import check_answers
from tui.cloud.api_errors import ApiRequest, explain, explain_transport
from tui.cloud.credentials import find_credentials
from tui.cloud.google_import import import_google
from tui.cloud.retries import retry_limits
from tui.cloud.storage._compat_google_cloud_storage import session_of
from tui.cloud.storage.answer_shapes import shape_of
from tui.errors import CloudError, NoSuchResourceError, TpuTuiError, UsageError
from tui.settings import Settings

if TYPE_CHECKING:
    from typing_extensions import Self

Answer = TypeVar("Answer")

REQUEST_TIMEOUT_S = 60.0
"""How long one request, or one chunk of an upload, may take."""
_LIST_BUCKETS = "check the spelling; list buckets with gcloud storage ls"
_SERVICE = "storage.googleapis.com"
_ROLE = "roles/storage.objectAdmin"
_READER = "roles/storage.bucketViewer"
"""The role that permits reading a bucket's location (storage.buckets.get)."""
_OBJECT_READER = "roles/storage.objectViewer"
_OWNER = "tpu-tui-report-of"
"""The metadata key that holds what an object is a report of."""
PART_BYTES = 32 * 1024 * 1024
"""How much of an object one request downloads; a part whose connection breaks is requested again alone."""
_ANY_NAME = re.compile(r"gs://(?P<bucket>[^/]+)(?P<rest>/.*)?", re.DOTALL)
_SHORTEST_NAME, _LONGEST_NAME = 3, 222
_URL = re.compile(r"gs://(?P<bucket>[a-z0-9][a-z0-9._-]{1,220}[a-z0-9])(?:/(?P<name>.*))?", re.DOTALL)


@dataclass(frozen=True)
class BucketUrl:
    """`gs://bucket/name`; an empty name is the bucket itself."""

    bucket: str
    name: str = ""

    def __str__(self) -> str:
        return f"gs://{self.bucket}/{self.name}" if self.name else f"gs://{self.bucket}"

    def __truediv__(self, name: str) -> BucketUrl:
        """Return the object of that name below this one."""
        return BucketUrl(self.bucket, f"{self.name.rstrip('/')}/{name}".lstrip("/"))


def parse_url(text: str, *, example: str = "gs://bucket/path") -> BucketUrl:
    """Read `gs://bucket[/name]`. Raises UsageError for anything else, with its cause or an `example`."""
    match = _URL.fullmatch(text)
    if match is None:
        why, better = _explain_name(text)
        raise UsageError(f"not a Cloud Storage address: {text!r}", why=why, remedy=f"write it as {better or example}")
    return BucketUrl(match["bucket"], match["name"] or "")


def _explain_name(text: str) -> tuple[str, str]:
    """Return what is wrong with a bucket's name, and the corrected address; each empty where unknown."""
    match = _ANY_NAME.fullmatch(text)
    if match is None:
        return "", ""
    name, lower = match["bucket"], match["bucket"].lower()
    if name != lower:
        better = f"gs://{lower}{match['rest'] or ''}"
        return "a bucket's name has no capital letters", better if _URL.fullmatch(better) else ""
    if not _SHORTEST_NAME <= len(name) <= _LONGEST_NAME:
        return f"a bucket's name has {_SHORTEST_NAME} to {_LONGEST_NAME} characters", ""
    return "a bucket's name has letters, digits, dots, - and _ only, and a letter or digit at each end", ""


@dataclass(frozen=True)
class ObjectVersion:
    """One version of an object; each upload creates another generation."""

    url: BucketUrl
    generation: int
    size: int
    """Stored bytes; compressed if the object was uploaded compressed."""
    updated: float
    """When it was written (Unix time)."""
    crc32c: str
    """The checksum in base64; empty if the service has none."""


@dataclass(frozen=True)
class BucketPlace:
    """The location of a bucket, as the API names it; `regions` for a dual-region with its own choice of regions."""

    location: str
    """A region (`US-CENTRAL1`), a dual-region (`NAM4`, or a continent with `regions`) or a multi-region (`EU`)."""
    regions: tuple[str, ...] = ()
    """The two regions of a configurable dual-region, in capitals."""


def _not_replaced(url: BucketUrl, why: str) -> UsageError:
    return UsageError(
        f"{url} is not replaced", why=why, remedy="replace it with --force, or choose another folder to keep both"
    )


class Buckets:
    """The project's Cloud Storage; a local pod has its own, without credentials."""

    def __init__(self, settings: Settings, *, patience: float | None = None) -> None:
        self._endpoint = settings.endpoints.get("storage", "")
        self._retry_s, least_s = retry_limits(patience, is_local=bool(self._endpoint))
        self._answer_s = max(self._retry_s, least_s)
        self._project = settings.project
        self._client: Any = None
        self._opening = asyncio.Lock()

    async def place(self, bucket: str) -> BucketPlace:
        """Return a bucket's location, with the regions of a configurable dual-region.

        Raises UsageError for an unknown bucket, CloudError when the service fails or refuses.
        """
        resource = await self._bucket(bucket, f"bucket {bucket} cannot be read", _READER)
        regions = tuple(str(region).upper() for region in resource.data_locations or ())
        return BucketPlace(str(resource.location).upper(), regions)

    async def exists(self, url: BucketUrl) -> bool:
        """Return whether the object exists; for an address without an object, whether the bucket exists."""
        bucket = (await self._open()).bucket(url.bucket)
        resource = bucket.blob(url.name) if url.name else bucket
        return bool(await self._ask(f"{url} cannot be read", partial(resource.exists, **self._options())))

    async def version(self, url: BucketUrl) -> ObjectVersion:
        """Return the object's present version.

        Raises UsageError for an unknown bucket or object, CloudError when the service fails or refuses.
        """
        what = f"{url} cannot be read"
        if not url.name or url.name.endswith("/"):
            raise UsageError(what, why="it names no object", remedy=f"gcloud storage ls {url} shows what is there")
        blob = await self._blob(url)
        if blob is None:
            raise await self._missing(url, what)
        if blob.size is None or blob.generation is None:
            raise CloudError(what, why="the service does not state its size and generation")
        written = blob.updated.timestamp() if blob.updated else 0.0
        return ObjectVersion(url, int(blob.generation), int(blob.size), written, blob.crc32c or "")

    async def _bucket(self, name: str, what: str, role: str) -> Any:
        """Return a bucket of the client, with its metadata."""
        client = await self._open()
        return await self._ask(what, partial(client.get_bucket, name, **self._options()), role)

    async def _blob(self, url: BucketUrl) -> Any:
        """Return the client's object of the present version; None if there is none."""
        bucket = (await self._open()).bucket(url.bucket)
        read = partial(bucket.get_blob, url.name, **self._options())
        return await self._ask(f"{url} cannot be read", read, _OBJECT_READER)

    async def _missing(self, url: BucketUrl, what: str) -> UsageError:
        """Return why there is no such object: the bucket is missing, or else the object."""
        with contextlib.suppress(CloudError):
            if not await self.exists(BucketUrl(url.bucket)):
                return UsageError(what, why="there is no such bucket", remedy=_LIST_BUCKETS)
        folder = BucketUrl(url.bucket, url.name.rpartition("/")[0])
        return UsageError(
            what, why="there is no such object", remedy=f"gcloud storage ls {folder} shows what is there"
        )

    async def download(self, version: ObjectVersion, file: IO[bytes]) -> None:
        """Write the object's stored bytes to a file; after an error the file's content is invalid.

        Raises UsageError when that version is gone, CloudError when the service fails or sends wrong bytes.
        """
        from google_crc32c import Checksum

        client = await self._open()
        blob = client.bucket(version.url.bucket).blob(version.url.name, generation=version.generation)
        what = f"{version.url} cannot be read"
        digest: Any = Checksum()  # type: ignore[no-untyped-call]
        sink = _Sink(file, digest.update)
        options = self._options(REQUEST_TIMEOUT_S)
        try:
            while sink.size < version.size:
                first = sink.size
                last = min(version.size, first + PART_BYTES) - 1
                part = partial(blob.download_to_file, sink, start=first, end=last, raw_download=True, checksum=None)
                await self._ask(what, partial(part, **options), _OBJECT_READER)
                if sink.size != last + 1:
                    raise CloudError(what, why="the service sent a wrong number of bytes")
        finally:
            sink.abandoned = sink.size < version.size
        if version.crc32c and base64.b64encode(bytes(digest.digest())).decode() != version.crc32c:
            raise CloudError(what, why="the checksum does not match", remedy="try again")

    async def upload(
        self,
        path: Path,
        url: BucketUrl,
        *,
        owner: str | None = None,
        force: bool = False,
    ) -> BucketUrl:
        """Upload a file to the address, or below it if that ends in `/` or is a bucket.

        The service rejects the upload when the checksum differs. `owner` is stored in the object's metadata; an
        object with another owner is replaced with `force` only. Raises UsageError, CloudError.
        """
        from google.api_core.exceptions import PreconditionFailed

        if not path.is_file():
            raise UsageError(f"{path} cannot be uploaded", why="it is not a file")
        target = url / path.name if not url.name or url.name.endswith("/") else url
        client = await self._open()
        blob = client.bucket(target.bucket).blob(target.name)
        options = self._options(REQUEST_TIMEOUT_S)
        if owner is not None:
            blob.metadata = {_OWNER: owner}
        if owner is not None and not force:
            options["if_generation_match"] = await self._generation_of(target, owner)
        upload = partial(blob.upload_from_filename, str(path), checksum="crc32c", **options)
        try:
            await self._ask(f"{path.name} cannot be uploaded to {target}", upload)
        except TpuTuiError as error:
            if not isinstance(error.__cause__, PreconditionFailed):
                raise
            # This request may have changed it, if its first answer was lost.
            if owner is None or not await self._generation_of(target, owner):
                raise _not_replaced(target, "another upload changed it at the same time") from None
        return target

    async def _generation_of(self, url: BucketUrl, owner: str) -> int:
        """Return the generation of the object that `owner` may replace, 0 if there is none. Raises UsageError."""
        blob = await self._blob(url)
        if blob is None:
            return 0
        stored_owner = (blob.metadata or {}).get(_OWNER)
        if stored_owner != owner:
            unknown = "it is not known to be a report of the same run or log"
            raise _not_replaced(url, f"it is a report of {stored_owner}" if stored_owner else unknown)
        return int(blob.generation)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close the client's connections."""
        await self.close()

    async def close(self) -> None:
        """Close the client's connections."""
        client, self._client = self._client, None
        if client is not None:
            await asyncio.to_thread(client.close)

    def _options(self, timeout_s: float = 0.0) -> dict[str, Any]:
        """Return the time limits of a request; by default those of one that transfers no file."""
        from google.cloud.storage.retry import DEFAULT_RETRY

        timeout_s = timeout_s or min(REQUEST_TIMEOUT_S, self._answer_s)
        return {"timeout": timeout_s, "retry": DEFAULT_RETRY.with_timeout(self._retry_s)}

    async def _open(self) -> Any:
        async with self._opening:
            if self._client is None:
                self._client = await asyncio.to_thread(self._connect)
            return self._client

    def _connect(self) -> Any:
        import_google("google.cloud.storage")
        import google.cloud.storage as storage
        from google.auth.credentials import AnonymousCredentials

        if self._endpoint:
            self._project = self._project or "local"
            client = storage.Client(
                project=self._project,
                credentials=AnonymousCredentials(),  # type: ignore[no-untyped-call]
                client_options={"api_endpoint": self._endpoint},
            )
        else:
            login = find_credentials()
            self._project = self._project or login.project
            client = storage.Client(project=self._project, credentials=login.credentials)
        check_answers(session_of(client), shape_of)
        return client

    async def _ask(self, what: str, call: Callable[[], Answer], role: str = _ROLE) -> Answer:
        started_at = time.monotonic()
        from google.api_core.exceptions import GoogleAPIError
        from google.auth.exceptions import GoogleAuthError
        from requests.exceptions import RequestException
        from urllib3.exceptions import HTTPError

        try:
            return await asyncio.to_thread(call)
        except (GoogleAPIError, GoogleAuthError, RequestException, HTTPError) as error:
            raise self._explain(error, what, time.monotonic() - started_at, role) from error
        except OSError as error:
            raise UsageError(what, why=str(error.strerror or error)) from None

    def _explain(self, error: Exception, what: str, tried_s: float, role: str) -> TpuTuiError:
        from google.api_core.exceptions import NotFound, RetryError
        from requests.exceptions import RequestException
        from urllib3.exceptions import HTTPError

        request = ApiRequest(what, self._project or "", _SERVICE, "Cloud Storage", role, self._endpoint)
        cause = error.cause if isinstance(error, RetryError) else error
        if isinstance(cause, (RequestException, HTTPError)):
            return explain_transport(cause, request, tried_s)
        if isinstance(cause, NotFound):
            return NoSuchResourceError(what, why="there is no such bucket", remedy=_LIST_BUCKETS)
        return explain(error, request, tried_s)


class _Sink:
    """The file that an object is written to; writing fails once the download is abandoned.

    A thread that downloads cannot be cancelled from outside, and the interpreter waits for it before it exits.
    """

    def __init__(self, file: IO[bytes], note: Callable[[bytes], None]) -> None:
        self.size = 0
        self.abandoned = False
        self._file = file
        self._note = note

    def write(self, data: bytes) -> int:
        """Write the next bytes. Raises InterruptedError once the download was abandoned."""
        if self.abandoned:
            raise InterruptedError(errno.EINTR, "the download was abandoned")
        self._file.write(data)
        self._note(data)
        self.size += len(data)
        return len(data)
