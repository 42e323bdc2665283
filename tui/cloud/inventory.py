"""The protocol of every source of slices, the search for a slice by name, and requests of which some may fail."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from tui.errors import TpuTuiError, UsageError, did_you_mean, near_matches
from tui.pod.slice import Slice
from tui.pod.worker import Worker

Answer = TypeVar("Answer")
Found = TypeVar("Found")

_NAMES_SHOWN = 8


@dataclass(frozen=True)
class Listing:
    """The slices found, and the problems that may hide others."""

    slices: tuple[Slice, ...] = ()
    problems: tuple[TpuTuiError, ...] = ()
    notes: tuple[str, ...] = ()
    """What this login cannot list, which is no failure."""


class Inventory(Protocol):
    """A source of slices, which knows no host keys and watches no machines unless it overrides those methods.

    ARCHITECTURE.md describes how to add one.
    """

    async def slices(self) -> Listing:
        """Return every slice; a zone that fails becomes a problem of the listing."""

    async def get(self, name: str, zone: str | None) -> Slice:
        """Return one slice. Raises UsageError (none of that name, or several) or CloudError (the source failed)."""

    async def find(self, name: str, zone: str) -> Slice | None:
        """Return the slice of a run as it is now; None if it is gone. Raises CloudError where that is not known."""

    async def host_keys(self, slice_: Slice) -> Slice:
        """Return the slice with its workers' hostnames and host keys, if the source has them."""
        return slice_

    async def identity(self, slice_: Slice) -> tuple[tuple[str, ...], str | None]:  # noqa: ARG002
        """Return the workers' network tags and service account, which firewall rules may name; empty if unknown."""
        return (), None

    async def metadata(self, slice_: Slice) -> dict[str, str]:
        """Return the metadata of the workers' machines, such as SSH keys. Raises UsageError where they have none."""
        ...

    async def describe(self, slice_: Slice) -> dict[str, Any]:
        """Return everything that the source reports about a slice, in the source's form."""
        ...

    async def explain_losses(self, slice_: Slice, lost: Sequence[Worker], since: str | None) -> dict[int, str]:  # noqa: ARG002
        """Return why workers of a run lost their machines since a time, by worker: `was preempted`."""
        return {}

    async def close(self) -> None:
        """Close connections."""
        return


def pick_slice(name: str, zone: str | None, listing: Listing) -> Slice:
    """Return the one slice of that name. Raises UsageError for none or several, or a problem that may hide it."""
    matches = [slice_ for slice_ in listing.slices if slice_.name == name and zone in (None, slice_.zone)]
    if len(matches) == 1:
        return matches[0]
    if matches:
        paths = ", ".join(sorted(slice_.path for slice_ in matches))
        raise UsageError(f"{name} exists in more than one zone", remedy=f"name one of: {paths}")
    if listing.problems:
        raise listing.problems[0]
    raise no_such_slice(name, zone, listing.slices)


def no_such_slice(name: str, zone: str | None, known: Sequence[Slice]) -> UsageError:
    """Return the error for a slice that does not exist, with the near matches."""
    in_zone = f" in {zone}" if zone else ""
    elsewhere = [slice_.path for slice_ in known if slice_.name == name]
    if elsewhere:
        return UsageError(f"no such slice{in_zone}: {name}", remedy=f"it is in another zone: {', '.join(elsewhere)}")
    near = near_matches(name, (slice_.name for slice_ in known))
    if near:
        remedy = did_you_mean(near)
    elif known:
        remedy = f"the slices are: {join_some(sorted(slice_.path for slice_ in known))}"
    else:
        remedy = "there are no slices; create one with tpu-tui slices create"
    return UsageError(f"no such slice{in_zone}: {name}", remedy=remedy)


def join_some(names: Sequence[str]) -> str:
    """Return the first names, and `…` if there are more."""
    return ", ".join(names[:_NAMES_SHOWN]) + (" …" if len(names) > _NAMES_SHOWN else "")


async def or_error(answer: Awaitable[Answer]) -> Answer | TpuTuiError:
    """Return the answer to a request, or the request's error."""
    try:
        return await answer
    except TpuTuiError as error:
        return error


async def or_problem(answer: Awaitable[Found], listing: Callable[..., Found]) -> Found:
    """Return the answer to a request for a listing; where it fails, an empty listing with the error."""
    try:
        return await answer
    except TpuTuiError as error:
        return listing(problems=(error,))


async def gather_answers(requests: Iterable[Awaitable[Answer]]) -> tuple[list[Answer], list[TpuTuiError]]:
    """Return the answers to requests that are made at the same time, and the errors of those that failed."""
    results = await asyncio.gather(*map(or_error, requests))
    problems = [result for result in results if isinstance(result, TpuTuiError)]
    return [result for result in results if not isinstance(result, TpuTuiError)], problems
