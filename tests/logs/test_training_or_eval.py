"""Tests of lines that are samples in some jobs only, and of lines that two writers share."""

from __future__ import annotations

import pytest

from tests.logs.shapes import read_lines
from tui.logs.demux import Demux


def rows_of(demux: Demux) -> list[tuple[object, ...]]:
    return [(row.epoch, row.step, row.loss, row.rate) for row in demux.snapshot().rows()]


BOTH = ("Ep 1 (Step 20): Train loss 2.61, Val loss 2.67", "Ep 1 (Step 25): Train loss 1.16, Val loss 1.13")


@pytest.mark.parametrize("fast", [True, False])
def test_a_job_that_prints_both_losses_and_nothing_else_is_read_from_its_first_row(fast: bool) -> None:
    demux = read_lines(*BOTH, fast=fast)
    assert (rows_of(demux), demux.state.samples) == ([(1, 25, 1.16, None)], 2)


def test_both_losses_between_steps_belong_to_an_evaluation() -> None:
    steps = [f"iter {step}: loss 2.{step}, time 91.2ms" for step in range(20, 30)]
    demux = read_lines(BOTH[0], *steps, BOTH[1], "step 30: train loss 1.1, val loss 1.2")
    assert (rows_of(demux)[0][1:3], demux.state.samples) == ((29, 2.29), len(steps))


def test_a_single_row_with_both_losses_is_no_sample() -> None:
    assert read_lines(BOTH[0]).state.samples == 0
    assert read_lines(BOTH[0], BOTH[0]).state.samples == 0


DEEPSPEED = (
    "[2031-05-04 10:11:12,131] [INFO] [logging.py:96:log_dist] [Rank 0] step={}, skipped=0, lr=[1e-05], mom=[0.9]"
)


def test_deepspeeds_steps_count_for_a_job_that_prints_none() -> None:
    clock = "[2031-05-04 10:11:12,131] [INFO] [timer.py:215:stop] epoch=0/micro_step=60/global_step=30, "
    rates = "RunningAvgSamplesPerSec=7.25, CurrSamplesPerSec=8.5, MemAllocated=9.65GB, MaxMemAllocated=13.31GB"
    demux = read_lines(DEEPSPEED.format(10), DEEPSPEED.format(20), clock + rates)
    assert rows_of(demux) == [(0, 30, None, 8.5)]


def test_deepspeeds_steps_are_ignored_for_a_job_that_prints_its_own() -> None:
    demux = read_lines("step 40 loss 2.5", DEEPSPEED.format(10), "step 80 loss 2.25", DEEPSPEED.format(20))
    assert (rows_of(demux), demux.state.samples) == ([(None, 80, 2.25, None)], 2)


def test_a_loss_printed_in_parts_is_not_added_up() -> None:
    parts = [f"epoch 3 | iter {step}/24 | d loss 7.5 | g loss 95.25 | 3000.5 frames/s" for step in (1, 2)]
    assert rows_of(read_lines(*parts)) == [(3, 2, None, 3000.5)]
    assert rows_of(read_lines(*parts, "epoch 3 | iter 3/24 | loss 102.75", *parts))[0][1:3] == (3, 102.75)


def test_two_losses_behind_one_name_are_not_combined() -> None:
    rows = [f"Minibatch: {step:04d} | Dis/Gen Cost:    1.125/0.875" for step in (1, 201)]
    assert rows_of(read_lines(*rows)) == [(None, 201, None, None)]


@pytest.mark.parametrize(
    "weights", ["step 10 loss_weight=0.5 loss_scale=2.5", "step 10 val loss: 0.5, best loss: 0.25"]
)
def test_weights_and_evaluations_are_no_parts_of_a_loss(weights: str) -> None:
    assert read_lines(weights, weights.replace("10", "20")).state.samples == 0


def test_a_step_on_a_line_of_its_own_is_read_from_the_first_one() -> None:
    demux = read_lines("Step: 1", "Loss: 2.5", "Step: 2", "Loss: 2.25")
    assert (rows_of(demux), demux.state.samples) == ([(None, 2, 2.25, None)], 2)


def test_the_first_plain_loss_below_an_epoch_is_the_training_loss() -> None:
    lines = ["Epoch 4/10", "a note", "Loss: 0.375", "Loss: 0.5"]
    demux = read_lines(*lines)
    assert (rows_of(demux), demux.state.samples) == ([(4, None, 0.375, None)], 1)
    assert read_lines("Loss: 0.375").state.samples == 0
    assert read_lines("Epoch 4/10", "Validation:", "Loss: 0.375").state.samples == 0


def test_an_epoch_that_is_named_again_heads_its_evaluation() -> None:
    demux = read_lines(
        "Epoch:9", "loss: 0.9", "Epoch:9", "loss: 1.9", "Epoch:10", "loss: 0.8", "Epoch:10", "loss: 1.8"
    )
    assert (rows_of(demux), demux.state.samples) == ([(10, None, 0.8, None)], 2)


def test_the_time_of_a_step_is_no_step() -> None:
    assert read_lines("seconds for training step: 4.601", "loss: 5.85").state.samples == 0


def test_more_losses_than_an_epoch_ends_with_are_those_of_its_batches() -> None:
    losses = [f"loss: 0.{number}, acc: 0.5" for number in range(1, 9)]
    assert rows_of(read_lines("Epoch 4", *losses[:5])) == [(4, None, 0.1, None)]
    assert rows_of(read_lines("Epoch 4", *losses, "Epoch 5", *losses[:2])) == [(5, None, 0.2, None)]
    assert rows_of(read_lines("Epoch 4", *losses, "Validation:", "loss: 9.5", "loss: 9.5")) == [(4, None, 0.8, None)]
    assert rows_of(read_lines(*losses, "Epoch 5", *losses[:2])) == [(5, None, 0.2, None)]
    assert read_lines(*(["Epoch 4 done.", "Loss: 2.5"] * 9)).state.samples == 0


@pytest.mark.parametrize(
    "line",
    ["Epoch: 04 | Time: 1m 25s", "Epoch: 04 | Epoch Time: 1m 25s", "Epoch 4 completed in 30.5s", "Epoch 4 finished",
     "INFO - Finished epoch 4", "End of epoch 4, lr 0.1", "Epoch 4 done."],
)  # fmt: skip
def test_the_losses_of_an_epoch_may_follow_its_end(line: str) -> None:
    assert rows_of(read_lines(line, "\tTrain Loss: 3.75 | Train PPL:  42.5")) == [(4, None, 3.75, None)]
    assert read_lines(line, "Loss: 3.75").state.samples == 0
    assert rows_of(read_lines(line, "step 10 loss 2.5")) == [(None, 10, 2.5, None)]


BAR = "{}100%|####| {}/{} [00:10<00:00, 39.00it/s, loss={}]"


@pytest.mark.parametrize("name", ["Val Epoch 3: ", "Validation epoch 3: ", "Epoch 3 test: ", "Testing: "])
def test_the_bar_of_an_evaluation_is_no_sample(name: str) -> None:
    rows = rows_of(read_lines(BAR.format("Train Epoch 3: ", 391, 391, 2.25), BAR.format(name, 40, 40, 9.5)))
    assert rows == [(3, 391, 2.25, 39.0)]


def test_of_bars_without_names_below_an_epoch_the_first_is_of_training() -> None:
    lines = ["Epoch 3", BAR.format("", 391, 391, 2.25), BAR.format("", 40, 40, 9.5)]
    assert rows_of(read_lines(*lines)) == [(3, 391, 2.25, 39.0)]
    assert rows_of(read_lines(*lines, "Epoch 4", BAR.format("", 40, 391, 2.0))) == [(4, 40, 2.0, 39.0)]
    assert rows_of(read_lines(*lines[1:])) == [(None, 40, 9.5, 39.0)]


FORMS = (
    "{} Epoch: [3][10/40] Time 0.12 (0.13) Loss {}", "{} Epoch 3 [10/40] Loss {}", "[{}] epoch 3 step 10 loss {}",
    "{} Epoch 3: 100%|###| 10/40 [00:10<00:00, 39.0it/s, loss={}]", "epoch 3 step 10 | {} loss is {}",
    "epoch 3 step 10 | loss ({}) {}", "epoch 3 step 10 | loss/{} {}", "epoch 3 | 10/40 | loss on {} set: {}",
    '{{"mode": "{}", "epoch": 3, "step": 10, "loss": {}}}', "Epoch({}) [3][10/40] loss: {}",
)  # fmt: skip


@pytest.mark.parametrize("form", FORMS)
def test_a_line_is_of_the_stage_that_it_names(form: str) -> None:
    for stage in ("train", "Training", "TRAIN"):
        assert rows_of(read_lines(form.format(stage, 0.5)))[0][:3] == (3, 10, 0.5)
    for stage in ("val", "Valid", "VALIDATION", "validate", "Evaluating", "eval", "TEST", "dev"):
        assert read_lines(form.format(stage, 0.5)).state.samples == 0


@pytest.mark.parametrize("tag", ["(val)", "[eval]", "(test set)", "(validation)", "(Evaluating)"])
def test_an_evaluation_may_be_named_behind_its_loss(tag: str) -> None:
    assert rows_of(read_lines("step 100 loss 2.25", f"step 100 loss 9.5 {tag}", f"loss 9.5, step 100 {tag}")) == [
        (None, 100, 2.25, None)
    ]


@pytest.mark.parametrize("fast", [True, False])
def test_text_printed_after_a_progress_bar_is_a_line_of_its_own(fast: bool) -> None:
    bar = "Training Epoch 1:   0%|          | 0/79 [00:00<?, ?it/s]"
    assert rows_of(read_lines(f"{bar}Epoch: 2 | train_loss: 0.75 | test_loss: 0.8", fast=fast)) == [
        (2, None, 0.75, None)
    ]


def test_the_iteration_and_the_loss_in_rays_box_are_read() -> None:
    box = [
        "╭───────────────────────────╮",
        "│ Training result           │",
        "├───────────────────────────┤",
        "│ time_this_iter_s   5.4288 │",
        "│ training_iteration      {} │",
        "│ config/loss             9 │",
        "│ loss               {} │",
        "╰───────────────────────────╯",
    ]
    lines = [line.format(*values) for values in ((1, "2.500"), (2, "2.250")) for line in box[:4]]
    lines += [box[4].format(2), box[5], box[6].format("2.250"), box[7]]
    assert rows_of(read_lines(*lines)) == [(None, 2, 2.25, None)]


def test_mlperfs_log_counts_samples() -> None:
    line = (
        ':::MLLOG {"namespace": "", "time_ms": 1, "event_type": "POINT_IN_TIME", "key": "train_loss", "value": 5.5, '
        '"metadata": {"file": "train.py", "lineno": 21, "samples_count": 2048, "lr": 0.5}}'
    )
    assert rows_of(read_lines(line)) == [(None, 2048, 5.5, None)]
    assert read_lines(line.replace("train_loss", "eval_accuracy")).state.samples == 0


@pytest.mark.parametrize(
    ("line", "row"),
    [
        ("Epoch 3: Loss: Train 0.45 | Val 0.40", (3, None, 0.45, None)),
        ("Epoch: 003/010 | Train/Val Loss: 0.75/0.5", (3, None, 0.75, None)),
        ("Epoch:[0/19](100/24681) loss:5.25 lr:0.0002", (0, 100, 5.25, None)),
        ("INFO:absl:[700] accuracy=0.25, loss=0.375", (None, 700, 0.375, None)),
        ("Step   1700: train CrossEntropyLossOfSomeKind |  2.25", (None, 1700, 2.25, None)),
        ("Minibatch: 201 | Cost:    0.107", (None, 201, 0.107, None)),
        ("EPOCHS: 79,Loss:0.004511", (79, None, 0.004511, None)),
        ("{'Epoch': 15, 'Avg Epoch Loss': '0.1732'}", (15, None, 0.1732, None)),
        ("{'batch_time': 0.25, 'train_loss': 0.185, 'data_time': 7e-05, 'epoch': 2}", (2, None, 0.185, None)),
    ],
)  # fmt: skip
def test_more_shapes(line: str, row: tuple[object, ...]) -> None:
    assert rows_of(read_lines(line)) == [row]


@pytest.mark.parametrize("line", ["Epoch 3 | Train: 0.45 | Val: 0.40", "Epoch 3, Train: 94.5% | Validation: 85.5%"])
def test_figures_that_may_be_accuracies_are_no_losses(line: str) -> None:
    assert read_lines(line).state.samples == 0


@pytest.mark.parametrize("fast", [True, False])
def test_losses_are_read_of_a_job_that_prints_neither_steps_nor_epochs(fast: bool) -> None:
    demux = read_lines(
        "loss: 2.5 acc: 0.25", "loss: 2.25 acc: 0.5", "val loss: 2.75", "loss: 2.0 acc: 0.75", fast=fast
    )
    assert (rows_of(demux), demux.state.samples) == ([(None, None, 2.0, None)], 3)


def test_cores_that_print_nothing_but_losses_are_kept_apart() -> None:
    demux = read_lines(*(f"[xla:{core}] train loss {loss}" for loss in (0.75, 0.5) for core in (0, 1)))
    assert [(row.core, row.loss) for row in demux.snapshot().rows()] == [(0, 0.5), (1, 0.5)]


@pytest.mark.parametrize(
    "lines",
    [("step 40 loss 2.5", "step 80 loss 2.25"), ("epoch 1 loss 2.5", "epoch 2 loss 2.25"), ("Epoch 2", "loss 2.25")],
)
def test_a_loss_alone_is_no_sample_of_a_job_that_prints_steps_or_epochs(lines: tuple[str, ...]) -> None:
    demux = read_lines(*lines, "loss: 7.5", "loss: 7.75")
    assert rows_of(demux) == rows_of(read_lines(*lines))


def test_a_single_loss_may_be_a_result() -> None:
    assert read_lines("loss: 2.5").state.samples == 0
    assert read_lines("loss: 2.5", "step 40 loss 2.25", "loss: 2.75").state.samples == 1


def test_the_first_loss_below_an_evaluations_heading_is_the_evaluations() -> None:
    demux = read_lines("loss: 2.5", "loss: 2.25", "Validation:", "loss: 7.5")
    assert rows_of(demux) == [(None, None, 2.25, None)]
    assert rows_of(read_lines("Validation:", "loss: 7.5", "Training:", "loss: 2.5", "loss: 2.25"))[0][2] == 2.25


def test_losses_of_steps_at_which_something_else_happened_are_no_samples() -> None:
    assert (
        read_lines("Early stopping at step 12: loss 0.5", "Early stopping at step 24: loss 0.25").state.samples == 0
    )
