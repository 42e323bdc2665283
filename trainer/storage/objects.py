"""List, open and write objects in Cloud Storage, local files and pipes, with the same few functions.

Honours STORAGE_EMULATOR_HOST, with anonymous credentials. Errors are TrainerErrors.
"""

from __future__ import annotations

import contextlib
import functools
import io
import os
import re
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, NamedTuple
from urllib.parse import quote

from trainer.errors import TrainerError
from trainer.progress import FULL
from trainer.storage import temp_files
from trainer.storage.pipe_urls import is_pipe, open_pipe
from trainer.storage.regular_files import open_regular
from trainer.storage.resumable_stream import ObjectStream
from trainer.storage.urls import BUCKET_PREFIX

READ_BYTES = 1024 * 1024  # read at a time from an object, which comes with one request
LARGEST_DOCUMENT_BYTES = 64 * 1024 * 1024  # of JSON; the manifest of 300,000 shards
FIRST_RETRY_S = 30.0  # for retrying the first requests, which show whether there is a network
STORAGE = "https://storage.googleapis.com"
REQUEST_TIMEOUT_S = 60.0  # for one request
WRITER = "writer"  # the key of an object's metadata by which its writer recognises it


class TakenError(TrainerError):
    """A file or object exists that should be new."""


class MissingError(TrainerError):
    """There is no such file or object. (Other errors of reading may be temporary.)"""


class TooLargeError(TrainerError):
    """A file or object has more bytes than it should."""


def is_bucket(url: str) -> bool:
    """Return whether a path lies in Cloud Storage."""
    return url.startswith(BUCKET_PREFIX)


def is_local(url: str) -> bool:
    """Return whether a path is on this machine."""
    return not is_bucket(url) and not is_pipe(url)


def join(directory: str, name: str) -> str:
    """Return the path of a name inside a directory or prefix."""
    return f"{directory.rstrip('/')}/{name}"


def parent(url: str) -> str:
    """Return the directory or prefix that holds a path."""
    directory, slash, _ = url.rpartition("/")
    return directory or slash or "."


class ObjectState(NamedTuple):
    """An object's size, checksum and generation as its bucket states them."""

    size: int  # bytes
    crc32c: str  # base64
    generation: int  # another number each time that it is written
    metadata: dict[str, str] | None


def find_object(url: str, patience: float = FIRST_RETRY_S) -> ObjectState | None:
    """Return an object's state, None if it does not exist. `patience` is as for `write`."""
    bucket, name = _parts(url)
    with _named_answers(url), _translate_errors(url):
        blob = _client().bucket(bucket).get_blob(name, **_tries(patience))
        return None if blob is None else ObjectState(int(blob.size), blob.crc32c, int(blob.generation), blob.metadata)


def is_directory(directory: str) -> bool:
    """Return whether a local directory exists; a prefix in a bucket always does."""
    with _on_disk(f"Cannot look for {directory}"):
        return is_bucket(directory) or Path(directory).is_dir()


def list_names(directory: str) -> list[str]:
    """Return the sorted names inside a directory or prefix; raise TrainerError for a missing bucket or directory."""
    if not is_bucket(directory):
        if not is_directory(directory):
            if Path(directory).exists():
                raise TrainerError(f"{directory} is a file", remedy="Name a directory, or gs://bucket/prefix")
            raise TrainerError(
                f"There is no directory {directory}", remedy="Make shards with python -m trainer.shards"
            )
        with _on_disk(f"Cannot list {directory}"):
            return sorted(path.name for path in Path(directory).iterdir())
    bucket, name = _parts(directory)
    prefix = f"{name.rstrip('/')}/".lstrip("/")
    with _named_answers(directory), _translate_errors(directory):
        blobs = list(_client().list_blobs(bucket, prefix=prefix, delimiter="/", **_tries(FIRST_RETRY_S)))
    return sorted(str(blob.name)[len(prefix) :] for blob in blobs)


def remove_temp_files(directory: str, of: re.Pattern[str]) -> None:
    """Delete temporary files that killed writers left of files whose names match; a bucket has none."""
    if is_local(directory) and Path(directory).is_dir():
        temp_files.remove_temp_files(Path(directory), of)


def read(url: str, most: int | None = None) -> bytes:
    """Return a whole file or object; raise TooLargeError where it has more than `most` bytes."""
    parts, size = [], 0
    with open_stream(url) as stream:
        while part := stream.read(READ_BYTES):
            size += len(part)
            if most is not None and size > most:
                raise TooLargeError(f"Cannot read {url}", why=f"it has more than {most} bytes")
            parts.append(part)
    return b"".join(parts)


def read_document(url: str) -> bytes:
    """Return the content of a JSON file or object; raise TooLargeError if it is too large to be one."""
    return read(url, LARGEST_DOCUMENT_BYTES)


@contextlib.contextmanager
def open_stream(url: str) -> Iterator[IO[bytes]]:
    """Read a regular file, an object (streamed) or a `pipe:` command.

    Raises TrainerError, also when the command fails; MissingError where there is no such file or object.
    """
    if is_pipe(url):
        with open_pipe(url) as stream:
            yield stream
    elif is_bucket(url):
        with open_object(url) as raw, io.BufferedReader(raw, READ_BYTES) as stream:
            yield stream
    else:
        with _on_disk(f"Cannot read {url}"), open_regular(url) as stream:
            yield stream


@contextlib.contextmanager
def open_object(url: str) -> Iterator[ObjectStream]:
    """Read an object of Cloud Storage as it comes, without a buffer; raise TrainerError."""
    bucket, name = _parts(url)
    address = f"{storage_address()}/storage/v1/b/{bucket}/o/{quote(name, safe='')}?alt=media"
    with _translate_errors(url), ObjectStream(_session(), address, url) as stream:
        yield stream


def write(url: str, content: bytes, *, new: bool = False, patience: float | None = None) -> None:
    """Write a whole file or object; a local file appears complete or not at all.

    With `new` it must not exist yet, or TakenError is raised; a new local file is empty until it is complete.
    `patience` is how many seconds an upload is tried again; None: two minutes, the default of Google's client.
    """
    if is_bucket(url):
        upload(url, content, 0 if new else None, patience)
        return
    path = Path(url)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if new and not _take_name(path):
            raise TakenError(f"There is {url} already")
        with temp_files.replace_file(path) as stream:
            stream.write(content)
    except OSError as error:
        remedy = "Make room there, or choose another place" if error.errno in FULL else ""
        raise TrainerError(f"Cannot write {url}", why=error.strerror or str(error), remedy=remedy) from error


def _take_name(path: Path) -> bool:
    """Make an empty file, to be replaced by a whole one; return False if another writer has made one."""
    try:
        path.touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


def upload(url: str, content: bytes, replaces: int | None = None, patience: float | None = None) -> int:
    """Write an object and return its generation; with `replaces`, overwrite that generation only (0: none).

    Raises TakenError if another object is there. `patience` is the same as for `write`.
    """
    from google.api_core.exceptions import PreconditionFailed

    bucket, name = _parts(url)
    with _named_answers(url), _translate_errors(url):
        blob = _client().bucket(bucket).blob(name)
        if replaces is not None:
            blob.metadata = {WRITER: secrets.token_hex(8)}
        try:
            # Sending the same bytes twice is harmless, so it may be retried, which is not the client's default.
            blob.upload_from_file(
                io.BytesIO(content),
                checksum="crc32c",
                size=len(content),
                if_generation_match=replaces,
                **_tries(patience),
            )
        except PreconditionFailed as error:
            existing = find_object(url, FIRST_RETRY_S if patience is None else patience)
            # If only the answer was lost, the object is the one that was sent before.
            if existing is None or existing.metadata != blob.metadata:
                raise TakenError(f"There is {url} already") from error
            return existing.generation
        return int(blob.generation)


def delete(url: str, generation: int | None = None, patience: float | None = None) -> None:
    """Delete a file or object, with `generation` only if it is that one; it may be gone already.

    `patience` is the same as for `write`.
    """
    if is_bucket(url):
        from google.api_core.exceptions import NotFound, PreconditionFailed

        bucket, name = _parts(url)
        with _translate_errors(url), contextlib.suppress(NotFound, PreconditionFailed):
            _client().bucket(bucket).blob(name).delete(if_generation_match=generation, **_tries(patience))
        return
    with _on_disk(f"Cannot delete {url}"):
        Path(url).unlink(missing_ok=True)


def storage_address() -> str:
    """Return the address of Cloud Storage's JSON API: the emulator's where one is set."""
    return (os.environ.get("STORAGE_EMULATOR_HOST", "") or STORAGE).rstrip("/")


def _parts(url: str) -> tuple[str, str]:
    bucket, _, name = url[len(BUCKET_PREFIX) :].partition("/")
    if not bucket:
        raise TrainerError(f"{url} names no bucket", remedy="Write gs://BUCKET/PREFIX")
    return bucket, name


def _tries(patience: float | None) -> dict[str, Any]:
    """Return the client's arguments for how long one request and all its repetitions last; see `write`."""
    from google.cloud.storage.retry import DEFAULT_RETRY

    if patience is None:
        return {"timeout": REQUEST_TIMEOUT_S, "retry": DEFAULT_RETRY}
    return {"timeout": min(REQUEST_TIMEOUT_S, patience), "retry": DEFAULT_RETRY.with_timeout(patience)}


def _client() -> Any:
    """Return this process's client: connections must not be shared with a forked child."""
    return _client_and_session(os.getpid(), os.environ.get("STORAGE_EMULATOR_HOST", ""))[0]


def _session() -> Any:
    """Return this process's HTTP session, which has the client's credentials."""
    return _client_and_session(os.getpid(), os.environ.get("STORAGE_EMULATOR_HOST", ""))[1]


@functools.lru_cache(maxsize=2)
def _client_and_session(pid: int, emulator: str) -> tuple[Any, Any]:  # noqa: ARG001
    import google.auth
    from google.auth.credentials import AnonymousCredentials
    from google.auth.transport.requests import AuthorizedSession
    from google.cloud import storage

    if emulator:
        credentials: Any = AnonymousCredentials()  # type: ignore[no-untyped-call]
        project = "local"
    else:
        credentials, _ = google.auth.default(scopes=storage.Client.SCOPE)
        project = None  # objects belong to buckets, not to projects, and credentials may have no project
    session = AuthorizedSession(credentials)  # type: ignore[no-untyped-call]
    return storage.Client(project=project, credentials=credentials), session


@contextlib.contextmanager
def _on_disk(what: str) -> Iterator[None]:
    """Turn an error of the operating system into a sentence: `what` could not be done."""
    try:
        yield
    except OSError as error:
        kind = MissingError if isinstance(error, FileNotFoundError) else TrainerError
        raise kind(what, why=error.strerror or str(error)) from error


@contextlib.contextmanager
def _translate_errors(url: str) -> Iterator[None]:
    """Turn the client's exceptions into sentences about `url`."""
    from google.api_core.exceptions import Forbidden, GoogleAPIError, NotFound, Unauthorized
    from google.auth.exceptions import GoogleAuthError
    from requests.exceptions import RequestException

    bucket = url[len(BUCKET_PREFIX) :].partition("/")[0]
    try:
        yield
    except NotFound as error:
        if not _bucket_exists(bucket):
            raise TrainerError(
                f"There is no bucket gs://{bucket}",
                remedy=f"Make it with: gcloud storage buckets create gs://{bucket}",
            ) from error
        raise MissingError(f"There is no object {url}") from error
    except (Forbidden, Unauthorized) as error:
        raise TrainerError(
            f"No permission for {url}",
            why=_answer(error),
            remedy="Give this machine's service account the role roles/storage.objectAdmin on the bucket",
        ) from error
    except GoogleAuthError as error:
        raise TrainerError(
            f"No credentials for {url}",
            why=str(error.args[0] if error.args else error),  # the other arguments repeat it
            remedy="Run: gcloud auth application-default login",
        ) from error
    except (GoogleAPIError, RequestException, OSError) as error:
        raise TrainerError(
            f"Cloud Storage does not serve {url}",
            why=_answer(error),
            remedy="Check the network and the bucket",
        ) from error


@contextlib.contextmanager
def _named_answers(url: str) -> Iterator[None]:
    """Raise TrainerError for an answer that is not Cloud Storage's, e.g. a proxy's: the client checks no types."""
    try:
        yield
    except (ValueError, TypeError, AttributeError, KeyError, RecursionError) as error:
        raise TrainerError(
            f"The answer about {url} is not one of Cloud Storage",
            why=str(error),
            remedy="Check STORAGE_EMULATOR_HOST and the proxy of this network",
        ) from error


def _answer(error: Exception) -> str:
    """Return the API's message without the request it answers; for an error that was retried, the last one."""
    error = getattr(error, "cause", None) or error
    reason = getattr(error.args[0], "reason", None) if error.args else None  # urllib3's: no connection was made
    if reason is not None:
        return str(reason).rpartition(": ")[2]
    message = getattr(error, "message", None) or str(error)
    response = getattr(error, "response", None)
    if response is not None:
        with contextlib.suppress(ValueError, KeyError, TypeError):
            message = response.json()["error"]["message"]
    return f"{getattr(error, 'code', None) or type(error).__name__}: {message}"


def _bucket_exists(bucket: str) -> bool:
    from google.api_core.exceptions import GoogleAPIError
    from requests.exceptions import RequestException

    try:
        return bool(_client().bucket(bucket).exists())
    except (GoogleAPIError, RequestException):  # unknown without a permission or an answer
        return True
