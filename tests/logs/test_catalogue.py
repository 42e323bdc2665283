"""Tests of the dialects of the catalogue: each reads its sample lines, and its files are well-formed."""

from __future__ import annotations

import sys
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

from tui.logs.demux import Demux
from tui.logs.dialects.catalogue_files import CATALOGUE_DIR, FILES, expand_parts, read_catalogue
from tui.logs.dialects.registry import BUILT_IN, try_dialects

pytestmark = pytest.mark.py310

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

SAMPLES_DIR = Path(__file__).parent / "catalogue_samples"
SAMPLES: list[dict[str, Any]] = [
    sample
    for path in sorted(SAMPLES_DIR.glob("*.toml"))
    for sample in tomllib.loads(path.read_text(encoding="utf-8"))["sample"]
]
COLUMNS = ("core", "worker", "epoch", "step", "loss", "rate")
WITHOUT_SAMPLE = {"Ray", "MLPerf"}
"""Dialects that other tests of this folder cover."""


def encode(sample: dict[str, Any]) -> bytes:
    return "".join(f"{line}\n" for line in sample["lines"]).encode()


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: sample["dialect"])
def test_a_dialect_reads_its_sample_lines(sample: dict[str, Any]) -> None:
    demux = Demux()
    demux.feed(None, encode(sample))
    demux.finish()
    assert demux.state.matched.get(sample["dialect"], 0) > 0
    snapshot = demux.snapshot()
    rows = [{name: value for name in COLUMNS if (value := getattr(row, name)) is not None} for row in snapshot.rows()]
    assert repr(rows) == repr(sample.get("rows", rows))
    progress = {} if snapshot.progress is None else snapshot.progress._asdict()
    assert {name: progress.get(name) for name in sample.get("progress", ())} == sample.get("progress", {})


def test_every_dialect_has_a_sample() -> None:
    assert {dialect.name for dialect in BUILT_IN} - {sample["dialect"] for sample in SAMPLES} <= WITHOUT_SAMPLE


def test_every_part_of_a_pattern_is_used_and_known() -> None:
    sources = b"".join([dialect.source for dialect in BUILT_IN] + list(read_catalogue().parts.values()))
    assert [name for name in read_catalogue().parts if b"(?&%b)" % name not in sources] == []
    with pytest.raises(KeyError):
        expand_parts(b"(?&NO_SUCH_PART)")


def test_every_file_is_read_and_installed_with_the_package() -> None:
    assert {path.stem for path in CATALOGUE_DIR.glob("*.toml")} == set(FILES)
    assert all(files("tui.logs.catalogue").joinpath(f"{name}.toml").is_file() for name in FILES)


def test_a_trial_shows_what_a_dialect_of_the_catalogue_reads() -> None:
    _, trials = try_dialects([b"Step... (25 / 1000 | Loss: 2.125, Learning Rate: 1e-05)"], BUILT_IN)
    (trial,) = (trial for trial in trials if trial.matched)
    assert (trial.name, trial.examples[0][1]) == ("names and values", {"step": "25", "loss": "2.125"})
