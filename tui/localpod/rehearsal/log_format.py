"""The log formats of frameworks that run on TPUs, filled with made-up figures.

Used by the rehearsal only. Every shape is one that a public log of that framework shows.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import datetime, timedelta

BATCH = 128
"""Samples a core and step, by which rates become samples."""


@dataclass(frozen=True)
class RehearsedStep:
    """What one core prints at one step; `total` counts steps over all epochs, `rate` is samples a second."""

    core: int
    device: int
    epoch: int
    step: int
    total: int
    steps: int
    loss: float
    rate: float
    global_rate: float
    time: datetime

    @property
    def clock(self) -> str:
        """The time of day."""
        return self.time.strftime("%H:%M:%S")


@dataclass(frozen=True)
class EpochEnd:
    """The result of an epoch, as the first worker prints it."""

    epoch: int
    steps: int
    began: datetime
    ended: datetime
    rate: float
    accuracy: float
    former: float

    @property
    def samples(self) -> int:
        """Samples that one replica saw."""
        return self.steps * BATCH


def _delta(span: timedelta) -> str:
    return str(timedelta(seconds=int(span.total_seconds())))


class LogFormat:
    """torch_xla's own words, 2020 and later."""

    name = "torch_xla"
    is_per_core = True
    """Whether every core speaks; else its process does, once a step."""
    tells_beginnings = True
    """Whether the beginning of an epoch is announced; older releases announce it after its samples."""
    tells_epochs = True
    """Whether there are lines about epochs, evaluations and the whole run."""

    def sample(self, one: RehearsedStep) -> list[str]:
        """One core's line at one step."""
        return [
            f"| Training Device=xla:{one.device}/{one.core} {self._epoch(one)}Step={one.step} Loss={one.loss:.5f} "
            f"Rate={one.rate:.2f} GlobalRate={one.global_rate:.2f} Time={one.clock}"
        ]

    def _epoch(self, one: RehearsedStep) -> str:
        return f"Epoch={one.epoch} "

    def test(self, one: RehearsedStep, accuracy: float) -> list[str]:
        """One core's line of an evaluation."""
        return [
            f"| Test Device=xla:{one.device}/{one.core} Step={one.step} {self._epoch(one)}"
            f"Accuracy={accuracy:.2f} Time={one.clock}"
        ]

    def epoch_begin(self, epoch: int, now: datetime) -> list[str]:
        """Return what the first worker prints before an epoch."""
        return [f"Epoch {epoch} train begin {now:%H:%M:%S}"]

    def epoch_end(self, end: EpochEnd) -> list[str]:
        """Return what the first worker prints after an epoch."""
        now = f"{end.ended:%H:%M:%S}"
        lines = [
            f"Epoch {end.epoch} train end {now}, Epoch Time={_delta(end.ended - end.began)}, "
            f"Replica Train Samples={end.samples}, Reduced GlobalRate={end.rate:.2f}",
            f"Epoch {end.epoch} test end {now}, Reduced Accuracy={end.accuracy:.2f}%, "
            f"Replica Accuracy={end.accuracy - 0.7:.2f}%, Replica Test Samples={end.samples // 5}",
        ]
        if end.accuracy > end.former:
            lines += [
                f"Epoch {end.epoch} validation accuracy improved from {end.former:.2f}% to {end.accuracy:.2f}% "
                "- saving model...",
                "Saved Model Checkpoint file /tmp/model-chkpt.pt.",
            ]
        return lines

    def closing(self, began: datetime, last: EpochEnd) -> list[str]:
        """Return what the first worker prints at the end of the run."""
        return [
            f"Total Train Time: {_delta(last.ended - began)}",
            f"Max Accuracy: {max(last.accuracy, last.former):.2f}%",
            f"Avg. Global Rate: {last.rate:.2f} examples per second",
        ]

    def opening(self) -> list[str]:
        """Return what the first worker prints first."""
        return ["==> Preparing data.."]


class NoEpoch(LogFormat):
    """torch_xla's words in scripts that do not name the epoch."""

    name = "no-epoch"

    def _epoch(self, one: RehearsedStep) -> str:  # noqa: ARG002 - the point is not to say it
        return ""


class TorchXla15(LogFormat):
    """torch_xla 1.5 and older: device and ordinal in brackets, the step in parentheses, a long date."""

    name = "old"
    tells_beginnings = False

    def _who(self, one: RehearsedStep) -> str:
        return f"{one.device}/{one.core}"

    def sample(self, one: RehearsedStep) -> list[str]:
        """One core's line at one step."""
        return [
            f"[xla:{self._who(one)}]({one.step}) Loss={one.loss:.5f} Rate={one.rate:.2f} "
            f"GlobalRate={one.global_rate:.2f} Time={one.time.ctime()}"
        ]

    def test(self, one: RehearsedStep, accuracy: float) -> list[str]:
        """One core's lines of an evaluation, in the dress of a training line."""
        return [
            f"[xla:{self._who(one)}](0) Acc={accuracy / 100:.5f} Rate=0.00 GlobalRate=0.00 Time={one.time.ctime()}",
            f"[xla:{self._who(one)}] Accuracy={accuracy:.2f}%",
        ]

    def epoch_end(self, end: EpochEnd) -> list[str]:
        """The end and no figures."""
        return [f"Finished training epoch {end.epoch}", f"Epoch {end.epoch} train end {end.ended:%H:%M:%S}"]


class TorchXlaOrdinalOnly(TorchXla15):
    """The same with the ordinal alone."""

    name = "oldest"

    def _who(self, one: RehearsedStep) -> str:
        return str(one.core)


class Framework(LogFormat):
    """A framework that prints for the process, not for every core."""

    is_per_core = False
    tells_beginnings = tells_epochs = False


class MaxText(Framework):
    """MaxText prints each step twice."""

    name = "maxtext"

    def sample(self, one: RehearsedStep) -> list[str]:
        """The metric logger's line and the trainer's."""
        glog = f"I{one.time:%m%d %H:%M:%S.%f} 140110937163584 "
        return [
            f"{glog}metric_logger.py:214] completed step: {one.total}, seconds: {BATCH / one.rate:.3f}, "
            f"TFLOP/s/device: 1.367, Tokens/s/device: {one.rate:.3f}, total_weights: 6121, loss: {one.loss:.3f}",
            f"{glog}peft_trainer.py:474] Train step {one.total} training loss: {one.loss:.6f}  "
            f"- training perplexity: {math.exp(min(one.loss, 50)):.6f}",
        ]


class HuggingFace(Framework):
    """The Hugging Face Trainer's dictionaries."""

    name = "huggingface"

    def sample(self, one: RehearsedStep) -> list[str]:
        """Newer releases quote the numbers."""
        epoch = one.epoch - 1 + one.step / one.steps
        return [
            f"{{'loss': '{one.loss:.4f}', 'grad_norm': '0.2897', 'learning_rate': '0.0001002', "
            f"'epoch': '{epoch:.3f}'}}"
        ]


class Lightning(Framework):
    """PyTorch Lightning's progress bar, as a file keeps it."""

    name = "lightning"

    def __init__(self) -> None:
        self._former = math.nan

    def sample(self, one: RehearsedStep) -> list[str]:
        """Each step twice: the loss shown first is still the former one."""
        share = int(100 * (one.step + 1) / one.steps)
        bar = "█" * (share // 14)
        head = f"Epoch {one.epoch - 1}: {share:3d}%|{bar:<7}| {one.step + 1}/{one.steps} [00:17<01:02, "
        losses = [self._former, one.loss] if math.isfinite(self._former) else [one.loss]
        self._former = one.loss
        return [f"{head}{BATCH / one.rate:5.2f}s/it, loss={loss:.3f}, v_num=193315]" for loss in losses]


class Keras(Framework):
    """Keras's progress lines."""

    name = "keras"

    def sample(self, one: RehearsedStep) -> list[str]:
        """One update, on a line of its own."""
        bar = "=" * (30 * (one.step + 1) // one.steps)
        pace = f"{1000 * BATCH / one.rate:.0f}ms/step"
        return [f"{one.step + 1}/{one.steps} [{bar:.<30}] - 5s {pace} - loss: {one.loss:.4f} - acc: 0.6456"]


class TorchTitan(Framework):
    """torchtitan, with its colours."""

    name = "torchtitan"

    def sample(self, one: RehearsedStep) -> list[str]:
        """One step."""
        return [
            f"[titan] {one.time:%Y-%m-%d %H:%M:%S},000 - root - INFO - \x1b[31mstep: {one.total:2d}  "
            f"\x1b[32mloss: {one.loss:7.4f}  \x1b[38;2;180;60;0mgrad_norm: 41.7880  \x1b[38;2;54;234;195mmemory:  "
            f"8.44GiB(13.20%)  \x1b[34mtps: {one.rate:,.0f}  \x1b[36mtflops: 62.15  \x1b[35mmfu: 20.84%\x1b[39m"
        ]


class Levanter(Framework):
    """levanter's progress line."""

    name = "levanter"

    def sample(self, one: RehearsedStep) -> list[str]:
        """One step."""
        return [
            f"Progress on:train {one.total}it/{one.steps}it rate:{BATCH / one.rate:.1f}s/it remaining:2:16:02 "
            f"elapsed:55:45 loss={one.loss:.2f}"
        ]


class Megatron(Framework):
    """Megatron-LM's iteration line."""

    name = "megatron"

    def sample(self, one: RehearsedStep) -> list[str]:
        """One iteration."""
        return [
            f"iteration {one.total:8d}/{one.steps:8d} | consumed samples: {one.total * BATCH:12d} | elapsed time per "
            f"iteration (ms): {1000 * BATCH / one.rate:.1f} | learning rate: 1.000E-04 | lm loss: {one.loss:.6E} |"
        ]


LOG_FORMATS: dict[str, type[LogFormat]] = {
    speech.name: speech
    for speech in (
        LogFormat,
        NoEpoch,
        TorchXla15,
        TorchXlaOrdinalOnly,
        MaxText,
        HuggingFace,
        Lightning,
        Keras,
        TorchTitan,
        Levanter,
        Megatron,
    )
}


def glued(first: str, second: str) -> list[str]:
    """Two processes' lines as they come out when their writes collide: the bar of the second before the first."""
    return ["|" + first, second.removeprefix("|")]


PREFIXES = {
    "none": "",
    "xla_dist": "{time:%Y-%m-%d %H:%M:%S} {address} [{worker}] ",
    "xla_dist-undated": "{address} [{worker}] ",
    "number": "[{worker}] ",
    "skypilot": "(worker{worker}, rank={worker}, pid=15406, ip={address}) ",
    "ray": "\x1b[36m(RayTrainWorker pid=122107, ip={address})\x1b[0m ",
    "srun": "{worker}: ",
    "mpirun": "[1,{worker}]<stdout>:",
    "pdsh": "{address}: ",
    "torchrun": "[rank{worker}]: ",
}
"""What launchers put before every line."""
