"""The route of batches, in which gcloud sends requests for several resources (Google APIs, "Batch requests")."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Iterator
from email.message import Message
from email.parser import BytesParser

import aiohttp
from aiohttp import web

from tui.localpod.api.compute.answers import ComputeError

_API = "/compute/v1/"


def batch_route() -> web.RouteDef:
    """Return the route of batches. The service sends each request of a batch to itself, with the owner's token."""
    return web.post("/batch/compute/{version}", _serve_batch)


async def _serve_batch(request: web.Request) -> web.Response:
    try:
        parts = list(_parts(request.headers.get("Content-Type", ""), await request.read()))
    except ValueError as error:
        return ComputeError(400, f"Failed to parse batch request, error: {error}.").to_response()
    headers = {"Authorization": request.headers["Authorization"]}
    async with aiohttp.ClientSession(f"http://{request.host}", headers=headers) as session:
        answers = await asyncio.gather(*(_answer(session, *part) for part in parts))
    boundary = f"batch_{secrets.token_hex(8)}"
    text = "".join(f"--{boundary}\r\n{answer}\r\n" for answer in answers)
    kind = {"Content-Type": f"multipart/mixed; boundary={boundary}"}
    return web.Response(body=f"{text}--{boundary}--\r\n".encode(), headers=kind)


def _parts(content_type: str, body: bytes) -> Iterator[tuple[str, str, str, bytes]]:
    """Yield the ID, method, path and body of each request. Raises ValueError."""
    message = BytesParser().parsebytes(f"Content-Type: {content_type}\r\n\r\n".encode() + body)
    parts = message.get_payload()
    if not message.is_multipart() or not isinstance(parts, list):
        raise ValueError("the content is not multipart/mixed")
    for part in parts:
        inner = part.get_payload(decode=True) if isinstance(part, Message) else None
        if not isinstance(part, Message) or not isinstance(inner, bytes):
            raise ValueError("a part is not a request")
        head, _, content = inner.replace(b"\r\n", b"\n").partition(b"\n\n")
        method, path, *_ = [*head.decode().partition("\n")[0].split(), "", ""]
        if not path.startswith(_API):
            raise ValueError(f"'{path}' is not a path of the API")
        yield part.get("Content-ID", "").strip("<>"), method, path, content


async def _answer(session: aiohttp.ClientSession, part: str, method: str, path: str, body: bytes) -> str:
    async with session.request(method, path, data=body or None) as answer:
        head = f"HTTP/1.1 {answer.status} {answer.reason}\r\nContent-Type: {answer.content_type}; charset=UTF-8"
        about = f"Content-Type: application/http\r\nContent-ID: <response-{part}>"
        return f"{about}\r\n\r\n{head}\r\n\r\n{await answer.text()}"
