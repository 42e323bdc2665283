"""Sets of workers as people write them: `0-3,7`."""

from __future__ import annotations

from collections.abc import Iterable

from tui.errors import UsageError

_LISTED_SINGLY = 4


def parse_ranks(text: str, count: int) -> tuple[int, ...]:
    """Read `0-3,7` or `all` for a slice of `count` workers; ascending, each once.

    Raises UsageError for anything else and for a worker the slice does not have.
    """
    if text.strip().lower() == "all":
        return tuple(range(count))
    ranks: set[int] = set()
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        if not first.isdecimal() or (dash and not last.isdecimal()):
            raise UsageError(f"no set of workers: {text!r}", remedy="write it as 0-3,7 or all")
        start, end = int(first), int(last or first)
        if start > end:
            raise UsageError(f"no set of workers: {part.strip()!r}", remedy=f"did you mean {end}-{start}?")
        if end >= count:
            remedy = f"the slice has workers 0-{count - 1}" if count > 1 else "the slice has one worker, 0"
            raise UsageError(f"no such worker: {part.strip()}", remedy=remedy)
        ranks.update(range(start, end + 1))
    return tuple(sorted(ranks))


def format_ranks(ranks: Iterable[int]) -> str:
    """`0-3,7` for 0, 1, 2, 3, 7."""
    spans: list[list[int]] = []
    for rank in sorted(set(ranks)):
        if spans and rank == spans[-1][1] + 1:
            spans[-1][1] = rank
        else:
            spans.append([rank, rank])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in spans)


def format_workers(workers: Iterable[int]) -> str:
    """Name workers: `worker 1`, `workers 0, 2, 3` or, where there are many, `workers 0-7,9`."""
    listed = sorted(workers)
    names = ", ".join(map(str, listed)) if len(listed) <= _LISTED_SINGLY else format_ranks(listed)
    return f"worker{'s' if len(listed) > 1 else ''} {names}"
