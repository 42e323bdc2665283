"""Tests of tables and of steps printed above their losses: what ends them, and which lines below them are no step."""

from __future__ import annotations

import pytest

from tests.logs.shapes import read_lines, training
from tui.logs.demux import Demux

pytestmark = pytest.mark.py310

FASTAI = "epoch     train_loss  valid_loss  accuracy  time    "


def rows_of(demux: Demux) -> list[tuple[int | None, int | None, float | None]]:
    return [(row.epoch, row.step, row.loss) for row in demux.snapshot().rows()]


@pytest.mark.parametrize("fast", [True, False])
def test_warnings_between_its_rows_do_not_end_a_table(fast: bool) -> None:
    noise = ["UserWarning: something is deprecated"] * 300
    demux = read_lines(*noise, FASTAI, *noise, "0         1.25        0.5         0.8       00:10", *noise,
                 "1         0.75        0.4         0.9       00:10", *noise, fast=fast)  # fmt: skip
    assert (rows_of(demux), demux.state.samples) == ([(1, None, 0.75)], 2)


def test_a_file_of_names_by_commas_ends_with_its_rows() -> None:
    assert rows_of(read_lines("step,loss", "1,2.5", "2,2.25", "done", "3,2.125")) == [(None, 2, 2.25)]


def test_a_row_with_an_earlier_epoch_is_ignored() -> None:
    assert rows_of(read_lines(FASTAI, "4         1.25        0.5         0.8       00:10",
                     "1         9.75        0.4         0.9       00:10")) == [(4, None, 1.25)]  # fmt: skip


def test_the_next_header_begins_a_new_table() -> None:
    demux = read_lines(FASTAI, "4         1.25        0.5         0.8       00:10", FASTAI,
                 "0         0.75        0.4         0.9       00:10")  # fmt: skip
    assert (rows_of(demux), demux.state.samples) == ([(0, None, 0.75)], 2)


def test_rows_of_an_evaluation_are_no_samples() -> None:
    lines = ["epoch | split | loss", "1 | train | 2.5", "1 | valid | 1.5", "2 | train | 2.25", "2 | valid | 1.25"]
    assert rows_of(read_lines(*lines)) == [(2, None, 2.25)]


def test_a_table_with_a_missing_loss_keeps_the_last_loss() -> None:
    assert rows_of(read_lines("step,train_loss,val_loss", "1,2.5,", "2,,1.5")) == [(None, 1, 2.5)]


def test_each_workers_rows_are_under_its_own_header() -> None:
    demux = Demux()
    demux.feed(0, b"step,loss\n1,2.5\n")
    demux.feed(1, b"2,9.5\n")
    demux.feed(0, b"2,2.25\n")
    demux.finish()
    assert rows_of(demux) == [(None, 2, 2.25)]


def test_a_step_waits_for_its_loss_through_two_lines() -> None:
    assert rows_of(read_lines("Step 100", "lr: 0.1", "time: 3", "loss: 2.5")) == [(None, 100, 2.5)]
    assert rows_of(read_lines("Step 100", "lr: 0.1", "time: 3", "grad: 1", "loss: 2.5")) == []


@pytest.mark.parametrize("fast", [True, False])
@pytest.mark.parametrize("header", ["Step 100", "(Step 100)"])
def test_two_unrelated_lines_may_come_between_a_step_and_its_loss_in_any_block(header: str, fast: bool) -> None:
    noise = ["a line of some library that goes on and on, so that a block is full"]
    assert rows_of(read_lines(*noise * 40, header, *noise * 2, "loss: 2.5", *noise * 40, fast=fast)) == [
        (None, 100, 2.5)
    ]
    assert rows_of(read_lines(*noise * 40, header, *noise * 40, "loss: 2.5", *noise * 40, fast=fast)) == []


CONFIGURATION = ("lr: 0.1", "step: 100", "loss: 0.5", "batch: 32")


@pytest.mark.parametrize("heading", ["Iteration 100", "Training: epoch 3[100/2025], lr: [0.0001]"])
def test_the_loss_of_a_step_may_be_any_of_the_indented_values_below(heading: str) -> None:
    parts = [f"\t{name}_loss: 1.5" for name in ("class", "box", "object", "mask")]
    assert rows_of(read_lines(heading, *parts, "\tloss: 0.5"))[0][1:] == (100, 0.5)
    assert rows_of(read_lines(heading, *(part.strip() for part in parts), "loss: 0.5")) == []


def test_numbered_parts_of_a_loss_stand_above_its_total() -> None:
    parts = [f"  {name} {number} loss: 9.5" for name in ("Content", "Style") for number in (1, 2)]
    assert rows_of(read_lines("Iteration 10 / 400", *parts, "  Total loss: 2.5")) == [(None, 10, 2.5)]
    assert rows_of(read_lines(*parts, "step 10 style 2 loss: 0.5")) == []


@pytest.mark.parametrize("header", ["Step,Loss", "Step\tLoss"])
def test_a_table_may_have_two_columns(header: str) -> None:
    assert rows_of(read_lines(header, *("100,2.5".replace(",", header[4]), "200,2.25".replace(",", header[4])))) == [
        (None, 200, 2.25)
    ]


@pytest.mark.parametrize("quote", ["'", '"'])
def test_the_loss_of_a_step_may_be_the_last_entry_of_a_dictionary(quote: str) -> None:
    entries = [f"     'metric_{number}': 2.5," for number in range(20)]
    lines = ["train | step: 140 | output:", "    {'lr': 0.01,", *entries, "     'training_loss': 0.5}"]
    assert rows_of(read_lines(*(line.replace("'", quote) for line in lines))) == [(None, 140, 0.5)]


def test_the_step_of_a_configuration_is_no_sample_however_often_it_is_printed() -> None:
    assert rows_of(read_lines(*CONFIGURATION * 3)) == []


def test_steps_in_the_form_of_a_configuration_are_samples_once_they_increase() -> None:
    steps = [line for step in (1, 2, 3) for line in (f"step: {step}", f"loss: {step / 4}")]
    demux = read_lines(*CONFIGURATION, *steps)
    assert (rows_of(demux), demux.state.samples) == ([(None, 3, 0.75)], 3)
    assert rows_of(read_lines("step: 100", "  loss: 0.5")) == [(None, 100, 0.5)]


def test_the_loss_of_a_step_in_a_heading_may_come_anywhere_in_its_section() -> None:
    noise = [f"preparing part {part} of it" for part in range(20)]
    assert rows_of(read_lines("====== Step 3/10 ======", *noise, "Training results:", "  - Loss: 0.25")) == [
        (None, 3, 0.25)
    ]


def test_a_step_that_gets_a_line_with_its_loss_takes_no_later_one() -> None:
    assert rows_of(read_lines("step 100 lr 0.1", "step 100 loss 2.5", "running loss: 2.75")) == [(None, 100, 2.5)]


@pytest.mark.parametrize("between", ["Evaluating ...", "validation", "  val acc: 0.5"])
def test_a_loss_after_an_evaluation_does_not_belong_to_the_step(between: str) -> None:
    assert rows_of(read_lines("Step 100", between, "loss: 2.5")) == []


@pytest.mark.parametrize(
    "heading",
    [
        "Validation:", "***** Running Evaluation *****", "--- testing ---", "Evaluating...", "Running validation",
        "[2023-03-10 21:37:23,323] Validation at epoch 5", "Validation: Epoch [3/10]", "Evaluating epoch 3 ...",
        "-- Validation --", "*** Eval ***", "=== Test ===", "VALID", "Evaluate on the validation set", "Test epoch 3",
        "Evaluating model at step 300...", "Start validating epoch 3", "Epoch 3 - Validation", "validation phase",
        "now validating", "Computing validation loss", "Entering validation", "Evaluating 300 samples",
        "Validation results at step 300:", "Test set:", "Running inference on the test set",
        "10:00:00 INFO Validation", "Phase: val", "phase: test", "test", "Test results:",
    ],
)  # fmt: skip
@pytest.mark.parametrize("fast", [True, False])
def test_rows_below_the_heading_of_an_evaluation_are_no_samples_until_training_continues(
    heading: str, fast: bool
) -> None:
    rows = ["step 80 loss 2.5", "step 90 loss 2.25", heading, "step 1 loss 9.5", "step 90 loss 9.25"]
    demux = read_lines(*rows, fast=fast)
    assert (rows_of(demux), demux.state.samples) == ([(None, 90, 2.25)], 2)
    assert read_lines(*rows, "step 91 loss 2.0", "step 92 loss 2.0", fast=fast).state.samples == 4


@pytest.mark.parametrize("again", ["Epoch 2/3", "***** Running training *****", "Training phase", "step 1 loss 2.0"])
def test_training_that_begins_again_ends_an_evaluation(again: str) -> None:
    rows = ["step 90 loss 2.25", "Validation:", "step 1 loss 9.5", "step 2 loss 9.25", again, "step 3 loss 1.5"]
    assert rows_of(read_lines(*rows))[0][1:] == (3, 1.5)


@pytest.mark.parametrize(
    "line",
    ["Skipping validation", "Validation accuracy improved", "Saving before validation", "Validation loss 2", "val 5",
     "Validation finished", "Evaluated 300 samples, saving", "test_step 3"],
)  # fmt: skip
def test_a_line_that_mentions_an_evaluation_is_no_heading_of_one(line: str) -> None:
    assert rows_of(read_lines("step 90 loss 2.25", line, "step 1 loss 2.0"))[0][1:] == (1, 2.0)


def test_a_restart_ends_an_evaluation() -> None:
    demux = read_lines("step 90 loss 2.25", "Validation:")
    demux.restart()
    demux.feed(None, b"step 50 loss 2.5\n")
    assert rows_of(demux) == [(None, 50, 2.5)]


def test_a_loss_below_the_heading_of_an_evaluation_does_not_belong_to_the_epoch() -> None:
    rows = ["Epoch 3/10", "Train:", "  avg loss: 0.5", "Val:", "  avg loss: 0.75"]
    assert rows_of(read_lines(*rows)) == [(3, None, 0.5)]
    assert rows_of(read_lines(*rows, "Epoch 4/10", "Train:", "  avg loss: 0.25")) == [(4, None, 0.25)]


def test_an_evaluation_with_regular_steps_may_pass_the_last_training_step() -> None:
    rows = [
        "step 10 loss 2.5",
        "step 20 loss 2.25",
        "Evaluating",
        *(f"step {step} loss 9.5" for step in range(0, 60, 10)),
    ]
    assert read_lines(*rows).state.samples == 2
    assert rows_of(read_lines(*rows, "step 30 loss 2.0", "step 40 loss 1.5")) == [(None, 40, 1.5)]


def test_a_step_that_is_printed_again_after_an_evaluation_begins_the_next_epoch() -> None:
    rows = ["step 0 loss 2.5", "step 90 loss 2.25", "Validation:", "step 0 loss 9.5", "step 0 loss 1.5"]
    assert rows_of(read_lines(*rows)) == [(None, 90, 2.25)]
    assert rows_of(read_lines(*rows, "step 10 loss 1.25")) == [(None, 10, 1.25)]
    assert rows_of(read_lines(*rows, "step 0 loss 1.25")) == [(None, 90, 2.25)]


@pytest.mark.parametrize("line", ["Validation:", "Validation: 100", "Testing..."])
def test_the_heading_of_an_evaluation_before_any_training_has_no_effect(line: str) -> None:
    assert rows_of(read_lines(line, "step 1 loss 2.5")) == [(None, 1, 2.5)]


@pytest.mark.parametrize("summary", ["Epoch 1 train loss: 0.45", "Epoch 1 | Loss: 0.45", "epoch,train_loss\n1,0.45"])
@pytest.mark.parametrize("worker", [None, 0])
@pytest.mark.parametrize("fast", [True, False])
def test_the_summary_of_an_epoch_in_another_form_is_no_core(summary: str, worker: int | None, fast: bool) -> None:
    cores = [training(core, step, "0.50000") for step in (0, 10) for core in range(4)]
    for lines in ([*cores, summary], [summary, *cores]):
        rows = read_lines(*lines, worker=worker, fast=fast).snapshot().rows()
        assert [(row.core, row.loss) for row in rows] == [(0, 0.5), (1, 0.5), (2, 0.5), (3, 0.5)]


def test_a_worker_that_prints_epochs_only_keeps_its_row_next_to_one_with_cores() -> None:
    demux = Demux()
    demux.feed(0, f"{training(0, 10, '0.50000')}\n".encode())
    demux.feed(1, b"Epoch 1 | Loss: 0.45\n")
    demux.finish()
    assert [(row.core, row.worker, row.loss) for row in demux.snapshot().rows()] == [(0, 0, 0.5), (None, 1, 0.45)]


RULE = "-" * 27


def value_table(**values: object) -> list[str]:
    return [RULE, *(f"| {name.replace('__', '/'):<10} | {value!s:<9} |" for name, value in values.items()), RULE]


@pytest.mark.parametrize("fast", [True, False])
def test_each_table_of_values_is_one_sample(fast: bool) -> None:
    first = value_table(grad_norm=0.09, loss=0.0621, loss_q0=0.17, samples="2.85e+06", step="1.11e+04")
    second = value_table(loss=0.05, step="1.12e+04")
    demux = read_lines(*first, "saving model 0...", *second, fast=fast)
    assert (rows_of(demux), demux.state.samples) == ([(None, 11200, 0.05)], 2)


def test_a_table_of_values_has_a_rate_and_evaluations_in_parts_of_their_own() -> None:
    lines = value_table(eval__="", loss=9.5, time__="", fps=8214, total_timesteps=57344, train__="", loss2=1, val=2)
    lines.insert(-1, "|    loss   | 0.417     |")
    row = next(iter(read_lines(*lines).snapshot().rows()))
    assert (row.step, row.loss, row.rate) == (57344, 0.417, 8214.0)


def test_names_under_a_rule_are_no_values() -> None:
    lines = [RULE, "| Epoch | Train Loss |", RULE, "| 1 | 2.5 |", "| 2 | 2.25 |", RULE]
    assert rows_of(read_lines(*lines)) == [(2, None, 2.25)]


def test_a_table_of_values_may_follow_one_with_names_or_without_a_loss() -> None:
    lines = [
        RULE,
        "| Epoch | Train Loss |",
        RULE,
        "| 1 | 2.5 |",
        RULE,
        *value_table(reward=3),
        *value_table(loss=2, step=7),
    ]
    demux = read_lines(*lines)
    assert (rows_of(demux), demux.state.samples) == ([(None, 7, 2.0)], 2)


def test_a_table_of_values_that_is_cut_off_is_no_sample() -> None:
    assert rows_of(read_lines(*value_table(loss=0.05, step=7)[:-1], "done", RULE)) == []


YOLO = "     Epoch   gpu_mem       box       obj       cls     total    labels  img_size"


@pytest.mark.parametrize("fast", [True, False])
def test_a_row_of_a_table_may_be_drawn_again_with_a_bar(fast: bool) -> None:
    row = "   41/4999     55.1G   0.05213   0.01131   0.03542   0.5        31      1856: {}"
    evaluation = "               Class      Images      Labels           P: 100%|###| 50/50 [01:19<00:00,  1.5it/s]"
    lines = [
        YOLO,
        "                 all         787        2054       0.691      0.0214     0.00528     0.00361",
        "\r".join(
            row.format(f"{share}%|#  | {step}/100 [01:00<01:00,  2.5it/s]") for share, step in ((9, 9), (50, 50))
        ),
        row.format("100%|###| 100/100 [02:00<00:00, 2.5s/it]"),
        evaluation,
    ]
    demux = read_lines(*lines, fast=fast)
    assert [(row.epoch, row.step, row.loss, row.rate) for row in demux.snapshot().rows()] == [(41, 100, 0.5, 0.4)]
    assert demux.state.samples == 3
    assert rows_of(read_lines(YOLO, row.format("100%|#| 100/100 [02:00<00:"), fast=fast)) == [(41, 100, 0.5)]
    assert rows_of(read_lines(YOLO.replace("     total", ""), lines[3].replace("   0.5", ""), fast=fast)) == []


def test_values_stand_beneath_their_names_where_some_are_left_out() -> None:
    lines = ["epoch       validation/loss  main/loss   elapsed_time",
             "0           2.5              7.25        3.1",
             "1                            6.75        6.2",
             "2                            6.5"]  # fmt: skip
    demux = read_lines(*lines)
    assert (rows_of(demux), demux.state.samples) == ([(2, None, 6.5)], 3)


def test_a_number_wider_than_its_column_shifts_the_cells_behind_it() -> None:
    lines = ["epoch       lr          validation/loss  main/loss",
             "0           3.0856612e-09             7.25",
             "1           2.5         1.5              6.75"]  # fmt: skip
    assert rows_of(read_lines(*lines[:2])) == []
    lines[1] = "0           3.0856612e-09                  7.25"
    demux = read_lines(*lines)
    assert (rows_of(demux), demux.state.samples) == ([(1, None, 6.75)], 2)
