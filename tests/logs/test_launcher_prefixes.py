from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.logs.shapes import DEMUXES, training
from tui.logs.demux import Demux
from tui.logs.saved_log import open_log

pytestmark = pytest.mark.py310

MAXTEXT = "completed step: 7, seconds: 2.5, TFLOP/s: 101.2, loss: 10.5"


def where(*lines: str) -> list[tuple[int | None, str | None]]:
    """Return the worker and address of each core, by core."""
    demux = Demux()
    demux.feed(None, "\n".join(lines).encode() + b"\n")
    return [(row.worker, row.address) for row in demux.snapshot().rows()]


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        (
            "(head, rank=0, pid=17894) ",
            "(worker1, rank=1, pid=15406, ip=10.164.0.57) ",
            [(0, None), (1, "10.164.0.57")],
        ),
        ("(main pid=2, ip=10.128.0.4) ", "(main pid=9, ip=10.128.0.8) ", [(0, "10.128.0.4"), (1, "10.128.0.8")]),
        ("\x1b[36m(Actor pid=1)\x1b[0m ", "(Actor pid=7, ip=10.0.0.2) ", [(None, None), (0, "10.0.0.2")]),
        ("0: ", " 3: ", [(0, None), (3, None)]),
        ("[1,0]<stdout>:", "[1,12]<stderr>:\t", [(0, None), (12, None)]),
        (
            "Tue Dec  7 13:02:26 2021[0]<stdout>:",
            "Tue Dec 17 13:02:26 2021[12]<stderr>:",
            [(0, None), (12, None)],
        ),
        ("actor-worker-0: ", "actor-worker-1: ", [(0, "actor-worker-0"), (1, "actor-worker-1")]),
        ("10.0.0.7: ", "10.0.0.5: ", [(0, "10.0.0.7"), (1, "10.0.0.5")]),
        ("[10.0.0.7]\t", "[10.0.0.5]\t", [(0, "10.0.0.7"), (1, "10.0.0.5")]),
        ("[rank0]:", "[rank5]: ", [(0, None), (5, None)]),
        ("[default0]:", "[default1]:", [(None, None), (None, None)]),
        ("[pod/train-0/jax] ", "[pod/train-1/jax] ", [(0, "train-0"), (1, "train-1")]),
    ],
)  # fmt: skip
@pytest.mark.parametrize("most_lines", [1, 40])
def test_the_worker_of_a_line_is_read_from_the_prefix_of_the_launcher(
    first: str, second: str, expected: list[tuple[int | None, str | None]], most_lines: int
) -> None:
    lines = []
    for step in range(most_lines):
        lines += [
            first + training(core=0, step=step),
            first + "saving",
            second + training(core=1, step=step),
            "",
            second,
        ]
    assert where(*lines) == expected


def entry(text: str, *, worker: str = "", pod: str = "", key: str = "textPayload") -> str:
    """Return a line of Cloud Logging's export, of a TPU VM (all have their node's name) or of a pod."""
    labels = {"node_id": "123456", "worker_id": worker} if worker else {"pod_name": pod}
    message = {key: text} if key == "textPayload" else {"jsonPayload": {key: text}}
    return json.dumps(
        {"insertId": "a1", "resource": {"labels": labels}, **message, "timestamp": "2025-03-01T10:00:00Z"}
    )


@pytest.mark.parametrize("key", ["textPayload", "message"])
def test_tpu_vms_in_an_export_are_distinguished_by_their_worker_id(key: str) -> None:
    lines = [entry(f"{MAXTEXT}\n", worker=worker, key=key) for worker in ("1", "0", "1")]
    assert where(*lines) == [(0, "123456"), (1, "123456")]


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("\x1b[31mstep:  4  \x1b[32mloss:  7.5  grad_norm: 2.5\n", (None, 4, 7.5)),
        ("Train Epoch: 2 [640/60000 (1%)]\tLoss: 1.25\n", (2, 640, 1.25)),
        ("Epoch 3/4\n10/20 [=====>....] - ETA: 1s - loss: 0.5\n", (3, 10, 0.5)),
        ("[rank3]: " + json.dumps({"loss": 1.5, "learning_rate": 1e-05, "epoch": 1.0}), (1, None, 1.5)),
    ],
)
@pytest.mark.parametrize("fast", [True, False])
def test_messages_of_an_export_are_read_without_their_escapes(
    message: str, expected: tuple[object, ...], fast: bool
) -> None:
    demux = DEMUXES[fast]()
    demux.feed(None, f"{entry(message, pod='pod-7')}\n".encode())
    demux.finish()
    rows = [(row.address, row.epoch, row.step, row.loss) for row in demux.snapshot().rows()]
    assert rows == [("pod-7", *expected)]


def test_values_in_the_fields_of_a_structured_logger_are_read() -> None:
    line = json.dumps({"message": "train", "step": 5, "loss": 2.5, "hostname": "t1v-n-1-w-0"})
    demux = Demux()
    demux.feed(None, f"{line}\n".encode())
    assert [(row.address, row.step, row.loss) for row in demux.snapshot().rows()] == [("t1v-n-1-w-0", 5, 2.5)]


@pytest.mark.parametrize("string", ['"\\ud800 step 5 loss 2.5"', '"step 5 loss 2.5\\q"', '"step 5 loss 2.5'])
def test_broken_strings_of_an_export_are_still_read(string: str) -> None:
    demux = Demux()
    demux.feed(None, f'{{"resource":{{"labels":{{"pod_name":"a"}}}},"textPayload":{string}\n'.encode())
    assert [row.loss for row in demux.snapshot().rows()] == [2.5]


@pytest.mark.parametrize("word", ["[phase1] ", "[exp2] ", "fold3: ", "TRAIN: ", "1700000000: ", "config\t"])
def test_a_topic_before_a_line_is_no_host(word: str) -> None:
    assert where(word + "Epoch 3 Step 20 Loss: 2.5") == [(None, None)]


def test_trainers_without_core_numbers_have_a_row_for_each_worker() -> None:
    assert where(*(f"[rank{n}]: {MAXTEXT}" for n in (0, 1))) == [(0, None), (1, None)]
    assert where(f"node-a: {MAXTEXT}", f"node-b: {MAXTEXT}") == [(0, "node-a"), (1, "node-b")]


def test_words_before_a_colon_are_no_hosts_until_one_precedes_a_sample() -> None:
    demux = Demux()
    lines = ["wandb: Syncing run", "ValueError: 3", "12: what", f"node-a: {training()}", "node-a: done", "wandb: x"]
    demux.feed(None, "\n".join(lines).encode() + b"\n")
    workers = demux.snapshot().workers
    assert [(worker.worker, worker.address, worker.lines) for worker in workers] == [(0, "node-a", 2)]


def test_in_a_runs_own_log_the_stream_is_the_worker() -> None:
    demux = Demux()
    demux.feed(4, f"(worker1, rank=1, pid=15, ip=10.0.0.7) {training()}\n[rank7]: {training(core=1)}\n".encode())
    assert {row.worker for row in demux.snapshot().rows()} == {4}


def test_folded_repeats_are_still_samples() -> None:
    assert where(f"(RayTrainWorker pid=7, ip=10.0.0.2) {training()} [repeated 31x across cluster]") == [
        (0, "10.0.0.2")
    ]


def test_a_host_table_names_no_ranks() -> None:
    table = "{'10.128.0.46': 0, '10.128.0.48': 2}"
    printed = f"(main pid=3, ip=10.128.0.48) {training(core=9)}"
    assert where(f"(main pid=1, ip=10.128.0.46) {table}", printed) == [(1, "10.128.0.48")]


def test_the_lines_of_a_worker_can_be_selected_from_a_launchers_log(tmp_path: Path) -> None:
    path = tmp_path / "sky.log"
    lines = [
        "(head, rank=0, pid=1) one",
        "\x1b[36m(worker1, rank=1, pid=2, ip=10.0.0.2)\x1b[0m two",
        "(head, rank=0, pid=1) three",
    ]
    path.write_text("\n".join(lines) + "\n")
    assert [line.text for line in open_log(path).lines(worker=0)] == [lines[0], lines[2]]
    assert [line.text for line in open_log(path).lines(worker=1)] == [lines[1]]
