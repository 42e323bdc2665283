"""Tests of Cloud Logging's exports: entries are attributed and in the order of writing, in chunks of any size."""

from __future__ import annotations

import csv
import io
import json
import os
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.logs.shapes import cut, training
from tui.errors import UsageError
from tui.logs.attribution import cloud_logging
from tui.logs.attribution.cloud_logging import MOST_OTHERS
from tui.logs.demux import Demux
from tui.logs.saved_log import open_log

pytestmark = pytest.mark.py310

WRITTEN = [(worker, second) for second in (10, 11, 12) for worker in (0, 1)]
"""The worker and second of each line, the oldest first."""


def message_of(worker: int, second: int) -> str:
    return f"step: {second}, loss: {second + worker / 4}"


def document(worker: int, second: int) -> dict[str, object]:
    return {
        "insertId": f"a{worker}{second}",
        "jsonPayload": {"message": message_of(worker, second)},
        "labels": {"compute.googleapis.com/resource_name": f"t1v-n-1-w-{worker}"},
        "resource": {"labels": {"node_id": "4811", "worker_id": str(worker)}, "type": "tpu_worker"},
        "timestamp": f"2025-03-01T10:00:{second}.5Z",
    }


def as_json(entries: list[tuple[int, int]]) -> str:
    return json.dumps([document(*entry) for entry in entries], indent=2) + "\n"


def as_yaml(entries: list[tuple[int, int]]) -> str:
    return "".join(
        f"---\ninsertId: a\nlabels:\n  compute.googleapis.com/resource_name: t1v-n-1-w-{worker}\nresource:\n"
        f"  labels:\n    worker_id: '{worker}'\ntextPayload: '{message_of(worker, second)}'\n"
        f"timestamp: '2025-03-01T10:00:{second}Z'\n"
        for worker, second in entries
    )


def as_csv(entries: list[tuple[int, int]]) -> str:
    text = io.StringIO()
    rows = csv.writer(text)
    rows.writerow(["insertId", "resource.labels.worker_id", "textPayload", "timestamp"])
    rows.writerows(
        ["a", w, f'{message_of(w, s)}\nbeneath it, "quoted"', f"2025-03-01T10:00:{s}Z"] for w, s in entries
    )
    return text.getvalue()


WRITERS = [
    as_json,
    pytest.param(as_yaml, marks=pytest.mark.skipif(find_spec("yaml") is None, reason="PyYAML is not installed")),
    as_csv,
]


def read(data: bytes, places: list[int] | None = None) -> Demux:
    demux = Demux()
    for piece in cut(data, places or []):
        demux.feed(None, piece)
    demux.finish()
    return demux


@pytest.mark.parametrize("write", WRITERS)
@pytest.mark.parametrize("order", [1, -1], ids=["oldest first", "newest first"])
@pytest.mark.parametrize("most", [1, 61, 100_000])
def test_entries_belong_to_their_workers_in_the_order_of_writing(write: object, order: int, most: int) -> None:
    data = write(WRITTEN[::order]).encode()  # type: ignore[operator]
    demux = read(data, list(range(0, len(data), most)))
    rows = [(row.worker, row.step, row.loss) for row in demux.snapshot().rows()]
    assert (rows, demux.state.samples) == ([(0, 12, 12.0), (1, 12, 12.25)], 6)


@pytest.mark.parametrize("write", WRITERS)
def test_the_lines_of_a_worker_can_be_selected_from_an_export(write: object, tmp_path: Path) -> None:
    path = tmp_path / "export"
    path.write_text(write(WRITTEN[::-1]), newline="")  # type: ignore[operator]
    os.utime(path, (1.0, 1.0))
    for cache in (None, tmp_path / "cache", tmp_path / "cache"):
        log = open_log(path)
        assert log.core_rows(cache=cache)[1]["worker"] == 1
        assert log.workers(cache) == [0, 1]
        lines = list(log.lines(worker=1, cache=cache))
        text = "".join(line.text for line in lines)
        assert [second for second in (12, 11, 10) if message_of(1, second) in text] == [12, 11, 10]
        assert message_of(0, 11) not in text
        assert {None if line.time is None else int(line.time % 60) for line in lines} == {10, 11, 12}
    assert [*(tmp_path / "cache").iterdir()]
    assert "".join(f"{line.text}\n" for line in log.lines()) == path.read_bytes().decode()


def test_the_pod_that_an_entry_names_counts_more_than_a_prefix_in_its_text() -> None:
    entry = {"textPayload": "[rank7]: step: 5, loss: 2.5", "resource": {"labels": {"pod_name": "train-3"}}}
    rows = read(json.dumps([entry], indent=1).encode()).snapshot().rows()
    assert [(row.worker, row.address, row.step) for row in rows] == [(0, "train-3", 5)]


def test_fields_of_a_structured_logger_are_read_out_of_an_export() -> None:
    entry = {"jsonPayload": {"message": "train", "step": 5, "loss": 2.5}, "resource": {"labels": {"worker_id": "3"}}}
    rows = read(json.dumps([entry], indent=4).encode()).snapshot().rows()
    assert [(row.worker, row.step, row.loss) for row in rows] == [(3, 5, 2.5)]


@pytest.mark.parametrize("first", ['{\n  "lr": 0.1,\n  "message": null\n}', "[", "---", "{", "---\na: b\n---"])
def test_a_log_that_only_begins_like_an_export_is_read_as_a_plain_log(first: str) -> None:
    lines = [training(0, step) for step in range(0, 20 * MOST_OTHERS, 10)]
    demux = read("\n".join([first, *lines]).encode() + b"\n", [100, 5000, 150_000])
    assert (demux.state.samples, demux.reads_blocks) == (len(lines), True)


@pytest.mark.parametrize("cut_at", [0.3, 0.5, 0.9])
@pytest.mark.parametrize("write", WRITERS)
def test_the_whole_entries_of_an_export_that_is_cut_off_are_read(write: object, cut_at: float) -> None:
    text = write(WRITTEN)  # type: ignore[operator]
    demux = read(text[: int(len(text) * cut_at)].encode())
    assert 1 <= demux.state.samples <= 6


def test_an_export_in_yaml_without_pyyaml_is_refused_in_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cloud_logging, "_import_yaml", lambda: None)
    path = tmp_path / "export"
    path.write_text(as_yaml(WRITTEN))
    with pytest.raises(UsageError, match="PyYAML is not installed"):
        open_log(path)
    path.write_text("---\nstep: 1, loss: 2.5\n")
    assert [row["step"] for row in open_log(path).core_rows()] == [1]


@pytest.mark.skipif(find_spec("yaml") is None, reason="PyYAML is not installed")
def test_a_document_of_nested_aliases_costs_little() -> None:
    levels = [
        f"l{depth}: &l{depth}\n" + "".join(f"  k{n}: *l{depth - 1}\n" for n in range(90)) for depth in range(1, 9)
    ]
    demux = read(f"---\nl0: &l0\n  a: b\n{''.join(levels)}textPayload: step 5 loss 2.5\n---\n".encode())
    assert demux.state.samples == 1


@pytest.mark.skipif(find_spec("yaml") is None, reason="PyYAML is not installed")
@pytest.mark.parametrize("payload", ["l7", "it: &it\n  self: *it\n  l7"])
def test_a_payload_that_aliases_make_enormous_is_left_unread(payload: str) -> None:
    levels = [f"l{n}: &l{n}\n" + "".join(f"  k{k}: *l{n - 1}\n" for k in range(90)) for n in range(1, 8)]
    bomb = f"l0: &l0\n  a: b\n{''.join(levels)}jsonPayload:\n  {payload}: *l7\n"
    text = f"---\n{bomb}---\ntextPayload: step 5 loss 2.5\n---\n"
    assert read(text.encode()).state.samples == 1
