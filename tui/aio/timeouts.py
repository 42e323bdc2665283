"""A time limit for an await that never loses a cancellation.

Before Python 3.12, `asyncio.wait_for` returns the result if its work ends in the moment in which the caller is
cancelled, so that the caller goes on as if it had not been cancelled (python/cpython#86296).
`asyncio.timeout`, and on Python 3.10 the library async_timeout, let the work run in the caller's own task, where the
cancellation reaches it.
"""

from __future__ import annotations

import sys
from collections.abc import Awaitable
from typing import TypeVar

if sys.version_info >= (3, 11):
    from asyncio import timeout as time_limit
else:
    from async_timeout import timeout as time_limit

_Result = TypeVar("_Result")


async def within(work: Awaitable[_Result], seconds: float | None) -> _Result:
    """Return the result of `work`. After `seconds` (None: no limit), cancel it and raise asyncio.TimeoutError."""
    async with time_limit(seconds):
        return await work
