"""Where slices come from, whatever the source: one protocol, and the choice between its implementations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from tui.errors import TpuTuiError, UsageError, near_matches
from tui.pod.slice import Slice

_CANDIDATES_SHOWN = 8


@dataclass(frozen=True)
class Listing:
    """The slices found, and what kept us from finding others; one does not take the other's place."""

    slices: tuple[Slice, ...] = ()
    problems: tuple[TpuTuiError, ...] = ()


class Inventory(Protocol):
    """A source of slices."""

    async def slices(self) -> Listing:
        """Every slice there is; a zone that fails is a problem of the listing, the others are listed."""

    async def get(self, name: str, zone: str | None) -> Slice:
        """One slice. Raises UsageError (none of that name, or several) or CloudError (could not be asked)."""

    async def host_keys(self, slice_: Slice) -> Slice:
        """The slice with hostnames and host keys of its workers where the source vouches for them."""

    async def identity(self, slice_: Slice) -> tuple[tuple[str, ...], str | None]:
        """Network tags and service account by which firewall rules know the workers; nothing where none are known."""
        ...

    async def close(self) -> None:
        """Let go of connections."""


def pick(name: str, zone: str | None, listing: Listing) -> Slice:
    """The one slice of that name. Raises UsageError for none or several, or the problem that leaves it open."""
    found = [slice_ for slice_ in listing.slices if slice_.name == name and zone in (None, slice_.zone)]
    if len(found) == 1:
        return found[0]
    if found:
        paths = ", ".join(sorted(slice_.path for slice_ in found))
        raise UsageError(f"{name} is the name of several slices", remedy=f"name one of: {paths}")
    if listing.problems:
        raise listing.problems[0]
    raise no_such_slice(name, zone, listing.slices)


def no_such_slice(name: str, zone: str | None, there_are: Sequence[Slice]) -> UsageError:
    """The error for a slice that does not exist, with the near matches."""
    where = f" in {zone}" if zone else ""
    elsewhere = [slice_.path for slice_ in there_are if slice_.name == name]
    if elsewhere:
        return UsageError(f"no such slice{where}: {name}", remedy=f"there is {', '.join(elsewhere)}")
    near = near_matches(name, (slice_.name for slice_ in there_are))
    if near:
        remedy = f"did you mean {' or '.join(near)}?"
    elif there_are:
        shown = sorted(slice_.path for slice_ in there_are)
        remedy = f"there are: {', '.join(shown[:_CANDIDATES_SHOWN])}{' …' if len(shown) > _CANDIDATES_SHOWN else ''}"
    else:
        remedy = "there are no slices; tpu-tui slices create makes one"
    return UsageError(f"no such slice{where}: {name}", remedy=remedy)
