from __future__ import annotations

import pytest

from tests.logs.shapes import only, read_lines, training
from tui.logs.demux import Demux
from tui.logs.dialects.registry import BUILT_IN
from tui.logs.dialects.user_dialects import user_dialects
from tui.logs.snapshot import Snapshot
from tui.logs.state.rate_kinds import RateKind


def read(*logs: str, dialects: object = None) -> Snapshot:
    """Return the snapshot of the logs of workers 0, 1, …."""
    demux = Demux(dialects=(*user_dialects(dialects), *BUILT_IN) if isinstance(dialects, dict) else BUILT_IN)
    for worker, log in enumerate(logs):
        demux.feed(worker, f"{log}\n".encode(), now=1000.0)
    demux.finish(1000.0)
    return demux.snapshot(now=1001.0)


def rates(snapshot: Snapshot) -> tuple[float | None, float | None, str | None]:
    return snapshot.rate_total, snapshot.rate_median, snapshot.rate_unit


BAR = "Epoch 3: 45%|████▌     | 450/1000 [01:52<02:17, {}, loss=2.345]"


def test_examples_of_cores_add_up() -> None:
    log = "\n".join(training(core=core, step=3, rate=f"{100 + core}.00") for core in range(4))
    snapshot = read(log)
    assert rates(snapshot) == (406.0, 101.5, "examples/s")
    assert {row.rate_unit for row in snapshot.rows()} == {"examples/s"}


def test_steps_a_second_do_not_add_up() -> None:
    snapshot = read(*[BAR.format("4.00it/s")] * 8)
    assert rates(snapshot) == (None, 4.0, "it/s")
    assert [row.rate_unit for row in snapshot.rows()] == ["it/s"] * 8


@pytest.mark.parametrize(
    ("line", "unit", "rate", "total"),
    [
        (BAR.format("4.00s/it"), "it/s", 0.25, None),
        (BAR.format("64.00img/s"), "examples/s", 64.0, 128.0),
        (BAR.format("512.00tok/s"), "tokens/s", 512.0, 1024.0),
        ("156/312 [=====>........] - ETA: 20s - 131ms/step - loss: 1.2345", "it/s", 1000 / 131, None),
        (
            "completed step: 500, seconds: 15.688, TFLOP/s/device: 1.367, Tokens/s/device: 261.087, loss: 0.624",
            "tokens/s", 261.087, None,
        ),
        ("[titan] step:  2  loss: 14.4458  memory: 1.0GiB(1.0%)  tps: 1,234  mfu: 1.2%", "tokens/s", 1234.0, None),
        (
            "Progress on:train 2.06kit/10.0kit rate:1.3it/s remaining:01:41:13 elapsed:26:05 postfix:loss=4.97",
            "it/s", 1.3, None,
        ),
        ("steps: 10 loss: 7.5 iter time (s): 0.5 samples/sec: 64.0", "examples/s", 64.0, 64.0),
        ("step 12/100 (12.0%) | loss: 3.5 | lrm: 1.00 | tok/sec: 4,321 | mfu: 1.0", "tokens/s", 4321.0, 4321.0),
        ("Epoch 1 step 20 loss: 2.5 samples/sec: 128.5", "examples/s", 128.5, 257.0),
        ("Epoch 1 step 20 loss: 2.5 Samples Per Second = 128.5", "examples/s", 128.5, 257.0),
        ("Epoch 1 step 20 loss: 2.5 throughput: 128.5 samples/s", "examples/s", 128.5, 257.0),
        ("Epoch 1 step 20 loss: 2.5 speed: 3.5 steps/s", "it/s", 3.5, None),
        ("Epoch 1 step 20 loss: 2.5 (350.0 tokens/s)", "tokens/s", 350.0, 700.0),
        ("Epoch 1 step 20 loss: 2.5 tokens/s/device: 350.0", "tokens/s", 350.0, None),
        ("Epoch 1 step 20 loss: 2.5 global_samples/s: 350.0", "examples/s", 350.0, 350.0),
        ("Epoch 1 step 20 loss: 2.5 throughput: 128.5", None, 128.5, None),
        ("{'loss/train': '2.5', 'examples_per_second': '5.5', 'counters/updates': 20}", "examples/s", 5.5, 11.0),
        ('{"step": 20, "loss": 2.5, "tokens_per_sec": 99.5}', "tokens/s", 99.5, 199.0),
    ],
)  # fmt: skip
def test_a_rate_has_the_unit_that_it_counts(line: str, unit: str | None, rate: float, total: float | None) -> None:
    snapshot = read(line, line)
    row = snapshot.rows()[0]
    assert (row.rate, row.rate_unit) == (pytest.approx(rate), unit)
    assert snapshot.rate_unit == unit
    assert snapshot.rate_median == pytest.approx(rate)
    assert snapshot.rate_total == (None if total is None else pytest.approx(total))


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ("step   10/18865 | loss 7.0 (+nanz)| norm 15.3 | 3056.3 ms | 42.6% bf16 MFU | 1700 tok/s", "OF_ALL"),
        ("step: 10  acc: 0  loss: 10.1  grad: 1.2e+00  flops: 2.1e+14  wps: 4.2e+04  iter: 0.5", "A_DEVICE"),
        ("iteration: 10 / 100 | tokens_per_sec: 22.8K | tokens_per_sec_per_gpu: 11.4K | lm_loss: 2.38", "OF_ALL"),
        ("step 9 | epoch 0 | loss 0.7974 | tps 11278.56(1409.82/gpu) | num_label_tokens 21541", "OF_ALL"),
        ("Speed 1200.12 samples/sec   Loss 21.5   LearningRate 0.1   Epoch: 0   Global Step: 100", "OF_ALL"),
    ],
)  # fmt: skip
def test_the_rate_of_all_cores_and_the_rate_per_device_are_distinguished(line: str, kind: str) -> None:
    (found,) = read(line).rate_kind.tolist()
    assert RateKind(found).name.endswith(kind)


def test_rates_of_different_units_have_neither_sum_nor_median_nor_unit() -> None:
    assert rates(read(BAR.format("4.00it/s"), training(step=3))) == (None, None, None)


def test_a_log_without_rates_has_no_rate() -> None:
    assert rates(read("Train step 3 training loss: 2.5")) == (None, None, None)


def test_the_rate_of_a_users_dialect_has_no_unit() -> None:
    own = {"mine": r"^me (?P<step>\d{1,9}) (?P<loss>[\d.]{1,9}) (?P<rate>[\d.]{1,9})$"}
    assert rates(read("me 3 2.5 100.0", "me 3 2.5 120.0", dialects=own)) == (None, 110.0, None)


@pytest.mark.parametrize("line", ["speed: 0.25s / iter", "Speed: 4.0 it/s", "  speed = 250 ms per step, ETA 1:00:00"])
def test_the_rate_of_a_step_may_follow_on_a_line_of_its_own(line: str) -> None:
    demux = read_lines("step 20 loss 2.5", "lr 0.1", line, line.replace("4", "8").replace("25", "50"))
    (row,) = demux.snapshot().rows()
    assert (row.step, row.loss, row.rate, row.rate_unit) == (20, 2.5, 4.0, "it/s")
    assert demux.state.samples == 1


@pytest.mark.parametrize(
    "lines",
    [
        ("step 20 loss 2.5", "Validation:", "speed: 0.25s/iter"),
        ("step 20 loss 2.5", *(["a line of some library that goes on and on"] * 100), "speed: 0.25s/iter"),
        ("step 20 loss 2.5", "step 30", "speed: 0.25s/iter"),
        ("step 20 loss 2.5", "speed: 12.5 MB/s"),
        ("epoch 2 loss 2.5", "speed: 0.25s/iter"),
        ("step 20 loss 2.5", "speed: fast"),
    ],
)
def test_a_rate_that_may_be_of_something_else_is_not_the_steps(lines: tuple[str, ...]) -> None:
    assert only(*lines).rate is None


def test_a_rate_alone_is_no_sample() -> None:
    assert read("speed: 0.25s/iter").rows() == []


def test_rates_of_workers_go_to_their_own_steps() -> None:
    demux = Demux()
    demux.feed(0, b"step 20 loss 2.5\n")
    demux.feed(1, b"step 20 loss 1.5\nspeed: 0.5s/iter\n")
    demux.feed(0, b"speed: 0.25s/iter\n")
    demux.finish()
    assert [(row.worker, row.loss, row.rate) for row in demux.snapshot().rows()] == [(0, 2.5, 4.0), (1, 1.5, 2.0)]


@pytest.mark.parametrize("printed", ["speed: 0.25 s/iter", "speed 250 ms/iter", "throughput: 0.25 seconds per step"])
def test_a_time_that_is_named_as_a_rate_is_turned_over(printed: str) -> None:
    assert only(f"step 20 loss 2.5 {printed}").rate == 4.0
    assert only("step 20 loss 2.5 it/s 4.0 s/it 0.5").rate == 4.0


def test_a_comma_behind_the_number_of_a_count_separates_it_from_the_rate() -> None:
    assert only("step 20 loss 2.5 batch size 256,282.1 it/s").rate is None
    assert only("step 20 loss 2.5 batch_size: 256,282.1 it/s").rate is None
    assert only("step 20 loss 2.5 at 256,282.1 it/s").rate == 256_282.1


@pytest.mark.parametrize("separated", ["time 3.5s / iter 100", "time 3.5s / step: 100", "3.5 s / batch=100"])
def test_a_slash_between_values_makes_no_rate(separated: str) -> None:
    assert only(f"epoch 1 step 20 / loss 2.5 / {separated}").rate is None
