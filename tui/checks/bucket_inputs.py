"""Checks that the shards a command names exist: the first and the last of each range.

A range is written as in shells and WebDataset, `gs://bucket/train-{000000..000639}.tar`.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable, Mapping

from tui.checks.check_row import CheckRow, error_row, make_row
from tui.cloud.storage.buckets import Buckets, parse_url
from tui.errors import CloudError, TpuTuiError
from tui.text.printable import one_line

_RANGE = re.compile(r"\{(\d+)\.\.(\d+)\}")
_SHARDS = re.compile(r"gs://[a-z0-9][a-z0-9._-]+/(?:[^\s'\"`;|&<>()#,{]*\{\d+\.\.\d+\})+[^\s'\"`;|&<>()#,{}]*")
_SHELL = re.compile(r"[$*?\[\]~\\]")
"""Characters that only the worker's shell expands."""


def named_ranges(texts: Iterable[str]) -> tuple[str, ...]:
    """Return the ranges of objects in a command's words, without repetitions, in order."""
    ranges = (match[0] for text in texts for match in _SHARDS.finditer(text))
    return tuple(dict.fromkeys(shards for shards in ranges if not _SHELL.search(shards)))


def first_and_last(shards: str) -> tuple[str, str]:
    """Return the first and the last address of a range."""
    return _RANGE.sub(lambda match: match[1], shards), _RANGE.sub(lambda match: match[2], shards)


async def check_inputs(argv: Iterable[str], env: Mapping[str, str], buckets: Buckets) -> list[CheckRow]:
    """Return a row for each range of shards that a command or its environment names."""
    return list(await asyncio.gather(*(_check(shards, buckets) for shards in named_ranges((*argv, *env.values())))))


async def _check(shards: str, buckets: Buckets) -> CheckRow:
    addresses = [parse_url(address) for address in dict.fromkeys(first_and_last(shards))]
    try:
        answers = await asyncio.gather(*(buckets.exists(address) for address in addresses))
    except TpuTuiError as error:
        status = "unknown" if isinstance(error, CloudError) else "fail"
        return error_row("data", status, error)
    missing = [str(address) for address, exists in zip(addresses, answers, strict=True) if not exists]
    shown = one_line(shards)
    if not missing:
        return make_row("data", "pass", f"{shown}: the first and the last exist")
    detail = f"{shown}: there is no {one_line(' and no '.join(missing))}"
    folder = one_line(missing[0].rpartition("/")[0])
    return make_row("data", "fail", detail, f"list what is there: gcloud storage ls {folder}/")
