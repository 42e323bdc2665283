"""Test that step, epoch, loss and rate are read from any layout of a homemade line, beside other figures."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pytest

from tui.logs.core_row import CoreRow
from tui.logs.demux import Demux

LINES_OF_A_LAYOUT = 4
LAYOUTS = 300

STEPS = (
    "step {s}", "step: {s}", "step={s}", "Step {s}/1000", "Step: {s}/1000", "iter {s}", "[{s}/1000]", "Iteration {s}",
    "iteration {s}:", "Iter: [{s}/1000]", "global_step = {s}", "batch {s}/1000", "it {s}", "Step [{s}/1000]",
    "step {s:>6}/1000", "steps: {s}", "update {s}", "Train step: {s}", "train_step={s}", "Iteration #{s}", "STEP {s}",
    "<{s}/1000>", "Batch {s} of 1000", "{s}/1000 steps", "iter ({s}/1000)", "batch_idx={s}",
    "step-{s}", "[{s:>5}/ 1000]", "current step: {s}", "opt_step {s}", "batch index: {s}",
)  # fmt: skip
EPOCHS = (
    "", "", "epoch 3", "Epoch: 3", "Epoch [3/10]", "epoch=3", "ep 3/10", "[Epoch 3]", "Epoch 3/10", "Epoch: [3]",
    "Epoch 3:", "E3", "epoch: 3/10", "EPOCH 3", "Epoch 3 of 10", "(epoch 3)", "epoch #3", "Epoch-3", "epoch_3",
    "epoch 3.25/10", "cur_epoch=3",
)  # fmt: skip
LOSSES = (
    "loss {l}", "loss: {l}", "loss={l}", "train_loss: {l}", "Loss {l} ({l})", "train/loss {l}", "avg loss: {l}",
    "training loss = {l}", "loss:{l}", "Loss: {l} (avg {l})", "total_loss: {l}", "'loss': {l}", '"loss": {l}',
    "mean_loss={l}", "lm loss: {l}", "ce_loss: {l}", "nll_loss {l}", "loss {l:.3e}", "xent={l}", "loss(avg) {l}",
    "Loss => {l}", "loss -> {l}", "losses: total={l}", "running loss: {l}", "loss: tensor({l})", "loss is {l}",
    "loss:   {l}", "loss  {l}",
)  # fmt: skip
RATES = (
    "", "", "{r} samples/s", "samples/s: {r}", "img/s={r}", "throughput: {r} samples/s", "tokens/s {r}",
    "speed: {r} examples/sec", "tok/s: {r}", "{r} it/s", "samples/sec {r}", "tokens_per_second: {r}",
    "perf/samples_per_second={r}", "({r} samples/sec)", "examples/s = {r}", "steps/s: {r}", "{r} seq/s", "tps: {r}",
    "ips: {r} images/s", "throughput {r}", "[{r} img/s]", "step/s {r}", "items/s {r}",
)  # fmt: skip
PACES = (
    "{p} s/it", "{p}s/it", "{p} sec/step", "sec/step: {p}", "s/step {p}", "{m} ms/step", "ms/step: {m}",
    "step time: {p}s", "step_time_ms={m}", "time/step {p}s", "time per step: {p}s", "iter_time: {p}s", "({p} s/it)",
    "ms/batch {m}", "ms/it: {m}", "seconds/step {p}", "{p} sec/batch", "time per iteration: {p} s",
)  # fmt: skip
OTHERS = (
    "lr: 0.001", "lr 1e-4", "grad_norm 0.53", "acc: 71.2", "eta 0:12:33", "mem 12.3GB", "acc 71.2%", "ppl 33.1",
    "top1 71.2", "elapsed 12.3s", "data 0.01", "gnorm: 1.20", "ETA: 01:02:03", "mfu 45.2%", "accuracy = 0.71",
    "loss_scale: 65536", "aux_loss: 0.01", "kl: 0.02", "tokens: 123456", "consumed samples: 4096", "bleu 22.1",
    "eta: 3 days", "batch size 256", "bs: 32", "gpu_mem 11.2G", "Acc@1 71.2 (70.1)",
)  # fmt: skip
SEPARATORS = (", ", " | ", " ", "\t", "; ", " - ", "  ", " , ", " || ", " • ", " — ", " ~ ", " => ")
LEADS = (
    "", "", "", "[2024-05-01 10:00:00] ", "INFO:root:", "2024-05-01 10:00:00,123 INFO ", "[INFO] ", "Train: ",
    "I0501 10:00:00.123456 140 train.py:33] ", "2024-05-01 10:00:00 | INFO | train - ", "TRAIN ", "[train] ",
    "2024-05-01T10:00:00Z ", "[10:00:00] ", "Fold 1 ", "[2024-05-01 10:00:00,123][train][INFO] - ",
)  # fmt: skip
RANKS = ("[rank0] ", "[Rank 0] ", "rank 0: ", "Rank 0 | ", "[rank0]: ", "core 0: ", "xla:0 | ", "Process 0: ")
EVALUATIONS = (
    "val_loss: 9.9", "Validation loss 9.9, acc 70.1", "Eval step 40 loss 9.9", "[valid] loss: 9.9 ppl 33",
    "Test: [5/100] Loss 9.9 (9.9)", "Evaluation: loss=9.9", "eval/loss: 9.9", "test loss: 9.9 acc: 12",
    "{{'eval_loss': 9.9, 'eval_runtime': 3.3}}", "Best val loss: 9.9", "val: loss 9.9", "Dev loss: 9.9",
)  # fmt: skip
HEADINGS = (
    "Epoch 3", "Epoch: 3", "Epoch:3", "Epoch 3/10", "Epoch [3/10]", "Epoch: [3]", "epoch=3", "[Epoch 3]",
    "Epoch (3/10)", "epoch-3", "epoch_3", "epoch3", "Epoch #3", "Epoch - 3", "Epoch 3 of 10", "epoch number 3",
    "epoch no. 3", "epoch is 3", "Train Epoch: 3", "EPOCH: 3/10", "Epoch : 3", "epoch:\t3", "Starting epoch 3",
    "Epoch 3 starts", "Epoch 3 start", "Now training epoch 3", "This is epoch 3", "Enter epoch 3", "global epoch 3",
    "Epoch 3, lr: 0.001", "Epoch\uff1a3", "Epoch: 3 / 10", "epoch num: 3", "epoch | 3", "Training: epoch 3",
    "====> Epoch: 3", "Epoch 3 (train)",
)  # fmt: skip
LEADS_OF_HEADINGS = (
    "[rank0]: ", "worker-0: ", "host1: ", "[default0]:", "[1,0]<stdout>: ", "(RayTrainWorker pid=1234, ip=10.0.0.1) ",
    "trainer-1  | ", "May  1 10:00:00 host train[123]: ", "2024-05-01 10:00:00.123 | INFO     | __main__:train:53 - ",
    "0:00:12 ", "20240501 10:00:00 ", "2024-05-01T10:00:00Z INFO ", "wandb: ", "[05/01 10:00:00 d2.utils.events]:  ",
)  # fmt: skip
RULES = ("{}", "----- {} -----", "======== {} ========", "*** {} ***", "{} ----------", "  {}", "[{}]", "## {}")
BELOW_HEADINGS = (
    "batch {s} loss {l}", "step {s}/1000, loss: {l}", "[{s}/1000] loss: {l}", "loss: {l}  [{s:>5}/60000]",
    "{s}/1000 [==>....] - loss: {l}",
)  # fmt: skip
BARS = (
    "loss={l}", "loss={l}, lr=0.001", "lr=0.001, loss={l}", "loss: {l}", "train_loss={l}", "Loss={l}, acc=0.71",
    "v_num=3, train_loss={l}",
)  # fmt: skip
BAR_EPOCHS = ("Epoch 3", "Epoch 3/10", "epoch 3", "Training epoch 3", "[3/10]", "Epoch [3/10]")
KEYS_OF_STEPS = ("step", "global_step", "iter", "iteration", "train_step", "_step")
KEYS_OF_LOSSES = ("loss", "train_loss", "train/loss", "training_loss")
KEYS_OF_RATES = ("samples_per_second", "tokens_per_sec", "throughput", "img/s", "train/tokens_per_second")
OTHER_KEYS = ("lr", "grad_norm", "mfu", "accuracy", "tokens", "weight_decay", "mem_gb", "loss_scale", "ts")


@dataclass(frozen=True)
class Layout:
    """A line with places for its step, loss and rate, another line below it, and which figures it has."""

    line: str
    has_epoch: bool
    has_rate: bool
    below: str | None = None
    heading: str | None = None


def line(rng: random.Random, rates: Sequence[str] = RATES) -> Layout:
    """Return step and epoch, then loss, rate and other figures in any order."""
    epoch, rate, separator = rng.choice(EPOCHS), rng.choice(rates), rng.choice(SEPARATORS)
    head = [part for part in (epoch, rng.choice(STEPS)) if part]
    if rng.random() < 0.2:
        head.reverse()
    figures = [part for part in (rng.choice(LOSSES), rate, *rng.sample(OTHERS, rng.randrange(4))) if part]
    rng.shuffle(figures)
    lead, between = rng.choice((separator, " ")).join(head), rng.choice((separator, ": ", " "))
    return Layout(rng.choice(LEADS) + lead + between + separator.join(figures), bool(epoch), bool(rate))


def line_with_the_time_of_a_step(rng: random.Random) -> Layout:
    return line(rng, PACES)


def line_of_a_rank(rng: random.Random) -> Layout:
    layout = line(rng)
    return Layout(rng.choice(RANKS) + layout.line, layout.has_epoch, layout.has_rate)


def line_before_an_evaluation(rng: random.Random) -> Layout:
    layout = line(rng)
    return Layout(layout.line, layout.has_epoch, layout.has_rate, rng.choice(EVALUATIONS))


def line_below_an_epoch(rng: random.Random) -> Layout:
    lead = rng.choice((*LEADS, *LEADS_OF_HEADINGS))
    heading = lead + rng.choice(RULES).format(rng.choice(HEADINGS))
    below = BELOW_HEADINGS if lead in LEADS else BELOW_HEADINGS[:2]
    return Layout(lead + rng.choice(below), True, False, heading=heading)


def pair_of_a_rank(rng: random.Random) -> Layout:
    """Return epoch and batch as PyTorch's tutorials print them, behind a tag."""
    return Layout(rng.choice(("", "[rank0] ", "[train] ", "Train: ")) + "[3, {s:>5}] loss: {l}", True, False)


def bar(rng: random.Random) -> Layout:
    """Return a bar of tqdm, drawn in ASCII."""
    return Layout(
        f"{rng.choice(BAR_EPOCHS)}:  4%|4   | {{s}}/1000 [00:12<00:15, {{r}}it/s, {rng.choice(BARS)}]", True, True
    )


def record(rng: random.Random) -> Layout:
    """Return JSON, a dictionary of Python or `name=value`, in any order."""
    values = {rng.choice(KEYS_OF_STEPS): "{s}", rng.choice(KEYS_OF_LOSSES): "{l}"}
    values |= {"epoch": "3"} if rng.random() < 0.5 else {}
    values |= {rng.choice(KEYS_OF_RATES): "{r}"} if rng.random() < 0.5 else {}
    values |= {key: rng.choice(("0.001", "1e-05", "12.5", "3", "123456")) for key in rng.sample(OTHER_KEYS, 2)}
    items = list(values.items())
    rng.shuffle(items)
    quote = rng.choice(('"', "'"))
    texts = (
        "{{" + ", ".join(f"{quote}{name}{quote}: {value}" for name, value in items) + "}}",
        " ".join(f"{name}={value}" for name, value in items),
        ", ".join(f"{name}: {value}" for name, value in items),
    )
    return Layout(rng.choice(LEADS) + rng.choice(texts), "epoch" in values, "{r}" in values.values())


@pytest.mark.parametrize(
    "make",
    [
        line,
        line_with_the_time_of_a_step,
        line_of_a_rank,
        line_before_an_evaluation,
        line_below_an_epoch,
        pair_of_a_rank,
        bar,
        record,
    ],
)
def test_every_figure_of_a_line_is_read(make: Callable[[random.Random], Layout]) -> None:
    rng = random.Random(11)
    wrong = [text for text, is_right in (check(make(rng)) for _ in range(LAYOUTS)) if not is_right]
    assert wrong == []


def check(layout: Layout) -> tuple[str, bool]:
    """Read some lines of a layout; return the last one, and whether the newest sample is what it says."""
    demux = Demux()
    demux.feed(0, b"" if layout.heading is None else f"{layout.heading}\n".encode())
    for number in range(1, LINES_OF_A_LAYOUT + 1):
        step, loss, rate = 10 * number, round(6.5 - 0.317 * number, 4), round(251.3 + 7.7 * number, 1)
        pace = 0.25 + 0.01 * number
        rate = 1 / pace if "{p}" in layout.line or "{m}" in layout.line else rate
        text = layout.line.format(s=step, l=loss, r=rate, p=f"{pace:.2f}", m=round(1000 * pace))
        below = [] if layout.below is None else [layout.below.format()]
        demux.feed(0, "".join(f"{one}\n" for one in (text, *below)).encode())
    demux.finish()
    rows = demux.snapshot().rows()
    return text, len(rows) == 1 and is_read(rows[0], step, loss, rate, layout)


def is_read(row: CoreRow, step: int, loss: float, rate: float, layout: Layout) -> bool:
    return (
        (row.step, row.epoch) == (step, 3 if layout.has_epoch else None)
        and row.loss == pytest.approx(loss, rel=1e-3)
        and row.rate == (pytest.approx(rate) if layout.has_rate else None)
    )
