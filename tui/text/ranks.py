"""Parse and format sets of workers or cores: `0-3,7`."""

from __future__ import annotations

from collections.abc import Iterable

from tui.errors import UsageError
from tui.text.numbers import parse_integer

_LISTED_SINGLY = 4


def parse_ranks(text: str, count: int) -> tuple[int, ...]:
    """Parse `0-3,7` or `all` for a slice of `count` workers; the result is ascending, without duplicates.

    Raises UsageError for anything else, and for a worker that the slice does not have.
    """
    if text.strip().lower() == "all":
        return tuple(range(count))
    ranks: set[int] = set()
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        start, end = parse_integer(first), parse_integer(last if dash else first)
        if start is None or end is None:
            raise UsageError(f"{text!r} is not a set of workers", remedy="use e.g. 0-3,7 or all")
        if start > end:
            raise UsageError(f"{part.strip()!r} is not a set of workers", remedy=f"did you mean {end}-{start}?")
        if end >= count:
            remedy = f"the slice has workers 0-{count - 1}" if count > 1 else "the slice has one worker, 0"
            raise UsageError(f"no such worker: {part.strip()}", remedy=remedy)
        ranks.update(range(start, end + 1))
    return tuple(sorted(ranks))


def format_ranks(ranks: Iterable[int]) -> str:
    """Format 0, 1, 2, 3, 7 as `0-3,7`."""
    spans: list[list[int]] = []
    for rank in sorted(set(ranks)):
        if spans and rank == spans[-1][1] + 1:
            spans[-1][1] = rank
        else:
            spans.append([rank, rank])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in spans)


def name_ranks(noun: str, ranks: Iterable[int]) -> str:
    """Format `core 3` or `cores 0-3,7`."""
    listed = set(ranks)
    return f"{noun}{'s' * (len(listed) > 1)} {format_ranks(listed)}"


def format_workers(workers: Iterable[int]) -> str:
    """Format workers as `worker 1`, `workers 0, 2, 3` or, if there are many, `workers 0-7,9`."""
    listed = sorted(workers)
    names = ", ".join(map(str, listed)) if len(listed) <= _LISTED_SINGLY else format_ranks(listed)
    return f"worker{'s' if len(listed) > 1 else ''} {names}"
