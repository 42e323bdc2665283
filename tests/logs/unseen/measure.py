"""Measure how many logs of each unseen set are read correctly: `python -m tests.logs.unseen.measure [-v]`."""

from __future__ import annotations

import argparse
import math
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tui.logs.core_row import CoreRow
from tui.logs.saved_log import open_log
from tui.logs.snapshot import Snapshot
from tui.logs.state.rate_kinds import RateKind

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

_DATA_DIR = Path(__file__).parent
SETS = (
    "first",
    "november_24",
    "issues_november_24",
    "renumbered_november_24",
    "held_out_november_24",
    "renumbered_november_28",
    "held_out_november_28",
    "renumbered_november_29",
    "held_out_november_29",
    "renumbered_november_30",
    "held_out_november_30",
    "renumbered_december",
    "held_out_december",
    "renumbered_december_2",
    "held_out_december_2",
    "renumbered_december_3",
    "renumbered_december_4",
    "held_out_december_4",
    "renumbered_december_5",
    "held_out_december_5",
)
HELD_OUT = {"held_out_december_5"}
"""Sets whose differences are never printed."""
_FIELDS = ("epoch", "step", "loss", "rate")
_TOLERANCE = 1e-6


@dataclass(frozen=True)
class Result:
    """Differences between an excerpt's expectation and its reading."""

    name: str
    rows: list[str]
    """Differences of the newest rows; without any the log is read correctly."""
    details: list[str]
    """Differences of the first sample, the number of samples, the units, and evaluations taken for samples."""


def load_excerpts(name: str) -> Iterator[dict[str, Any]]:
    """Return the excerpts of a set, file by file."""
    for path in sorted((_DATA_DIR / name).glob("*.toml")):
        yield from tomllib.loads(path.read_text(encoding="utf-8"))["excerpt"]


def read_log(text: str) -> tuple[int, list[CoreRow]]:
    """Return the number of samples in a text and the newest row of each core, as `cores FILE` reads them."""
    samples, snapshot = _read_snapshot(text)
    return samples, snapshot.rows()


def _read_snapshot(text: str) -> tuple[int, Snapshot]:
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory, "train.log")
        path.write_bytes(text.encode())
        demux = open_log(path).demux(history=False)
        return demux.state.samples, demux.snapshot()


def is_same(expected: object, value: float | None) -> bool:
    """Return whether a value is the expected one, or one of the expected ones."""
    if isinstance(expected, list):
        return any(is_same(None if one == "none" else one, value) for one in expected)
    if expected is None or value is None:
        return expected is None and value is None
    assert isinstance(expected, (int, float))
    if math.isnan(expected) or math.isnan(value):
        return math.isnan(expected) and math.isnan(value)
    return math.isclose(expected, value, rel_tol=_TOLERANCE, abs_tol=1e-12)


def is_match(sample: dict[str, object], row: CoreRow) -> bool:
    """Return whether a row shows the expected sample, and the core or the worker that it names."""
    owner = {name: sample[name] for name in ("core", "worker") if name in sample}
    return all(is_same(sample.get(name), getattr(row, name)) for name in _FIELDS) and all(
        is_same(place, getattr(row, name)) for name, place in owner.items()
    )


def compare_rows(expected: Sequence[dict[str, object]], rows: Sequence[CoreRow]) -> list[str]:
    """Return the differences between the expected newest samples and the rows, in any order of the cores."""
    left = list(rows)
    missing = []
    for sample in expected:
        match = next((row for row in left if is_match(sample, row)), None)
        if match is None:
            missing.append(sample)
        else:
            left.remove(match)
    return [f"expected {_shown(sample)}" for sample in missing] + [f"read {_shown_row(row)}" for row in left]


def _prefixes(text: str) -> list[tuple[int, list[CoreRow]]]:
    """Return the reading of the text up to each of its lines."""
    lines = text.splitlines(keepends=True) if "\r" not in text else [f"{line}\n" for line in text.split("\n")[:-1]]
    return [(0, []), *(read_log("".join(lines[:end])) for end in range(1, len(lines) + 1))]


def compare_details(excerpt: dict[str, Any], samples: int) -> list[str]:
    """Return the differences of the first sample, the number of samples, the units and the evaluations."""
    differences = []
    states = _prefixes(excerpt["text"])
    if "first" in excerpt:
        first = next((rows for _samples, rows in states if rows), [])
        if not any(is_match(excerpt["first"], row) for row in first):
            differences.append(f"first sample: expected {_shown(excerpt['first'])}, read {_all_shown(first)}")
    if samples != excerpt.get("samples", samples):
        differences.append(f"samples: expected {excerpt['samples']}, read {samples}")
    for sample in excerpt["last"]:
        units = [row.rate_unit for row in states[-1][1] if is_match(sample, row)]
        if sample.get("unit") and units and sample["unit"] not in units:
            differences.append(f"unit: expected {sample['unit']}, read {units[0]}")
        if "scope" in sample and sample["scope"] not in (scopes := _scopes(excerpt["text"])):
            differences.append(f"scope: expected {sample['scope']}, read {scopes}")
    for line in excerpt.get("evaluation", ()):
        before, after = ([row.loss for row in rows] for _samples, rows in (states[line - 1], states[line]))
        if repr(before) != repr(after):
            differences.append(f"line {line} is an evaluation, but the losses {before} become {after}")
    return differences


def _scopes(text: str) -> list[str]:
    """Return the scope of each newest rate of a text: a core's own, a device's, or the whole job's."""
    names = [RateKind(kind).name for kind in _read_snapshot(text)[1].rate_kind.tolist()]
    return ["device" if "A_DEVICE" in name else "all" if "OF_ALL" in name else "own" for name in names]


def measure(excerpt: dict[str, Any], *, with_details: bool = True) -> Result:
    """Read an excerpt and compare it with its expectation; for the details it is read again up to each line."""
    samples, rows = read_log(excerpt["text"])
    if not rows and excerpt.get("none_is_right"):
        return Result(excerpt["id"], [], [])
    details = compare_details(excerpt, samples) if with_details else []
    return Result(excerpt["id"], compare_rows(excerpt["last"], rows), details)


def _shown(sample: dict[str, object]) -> str:
    return " ".join(f"{name}={sample[name]}" for name in _FIELDS if name in sample) or "nothing"


def _shown_row(row: CoreRow) -> str:
    return _shown({name: getattr(row, name) for name in _FIELDS if getattr(row, name) is not None})


def _all_shown(rows: Sequence[CoreRow]) -> str:
    return ", ".join(map(_shown_row, rows)) or "no sample"


def _report(title: str, results: Sequence[Result]) -> None:
    right = [result for result in results if not result.rows]
    complete = [result for result in right if not result.details]
    print(f"{title}: {len(right)} of {len(results)} logs are read right (the newest sample of each core)")
    print(f"{title}: {len(complete)} also in the first sample, number of samples, unit, scope and evaluations")


def main(arguments: Sequence[str] | None = None) -> int:
    """Print how many excerpts of each set are read correctly and, with `-v`, the differences that may be seen."""
    parser = argparse.ArgumentParser(prog="python -m tests.logs.unseen.measure", description=__doc__)
    parser.add_argument("-v", "--verbose", action="store_true", help="print what differs")
    verbose = parser.parse_args(arguments).verbose
    for name in SETS:
        results = [measure(excerpt) for excerpt in load_excerpts(name)]
        _report(name, results)
        for result in results if verbose and name not in HELD_OUT else ():
            for sign, differences in (("-", result.rows), ("~", result.details)):
                for difference in differences:
                    print(f"{sign} {result.name}: {difference}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
