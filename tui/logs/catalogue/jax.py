"""The lines of trainers in JAX, and of those that ran on TPUs before it, as dialects. Sources: their public code."""

from __future__ import annotations

from typing import Any

from tui.logs.dialects.dialect import ENDS, EPOCH, LOSS, NUMBER, OF, RATE, STEP, Dialect, Kind, dialect
from tui.logs.dialects.rates import PACE
from tui.logs.state.rate_kinds import RateKind

_METRIC = rb"[\w./ -]{1,60}=[^,\s=]{1,40}, "
"""A metric of clu's LoggingWriter, with its comma."""

_NUMPY = rb"(?:[Aa]rray\()?" + LOSS + rb"(?:, dtype=[\w.'<>]{1,20}(?:, weak_type=True)?\))?"
"""A number, or an array of one as it prints itself."""


_LED = rb"(?:^|\] |^INFO:absl:)"
"""Where a line of clu's begins: after absl's own beginning, or Python's."""


def _sample(name: str, hint: bytes, pattern: bytes, **more: Any) -> Dialect:
    return dialect(name, Kind.SAMPLE, [hint], pattern, **more)


JAX: tuple[Dialect, ...] = (
    dialect(
        "clu",
        Kind.SAMPLE,
        [b"train_loss=", b" loss=", b"train/loss="],
        _LED + rb"\[" + STEP + rb"\] (?:collection=train\w{0,20} )?(?=(?:[^\n]{0,600}?(?:examples"
        rb"|seqs)_per_sec(?:ond)?=" + RATE + rb")?)(?:" + _METRIC
        + rb"){0,32}(?:train[_/])?loss=" + LOSS + ENDS,
        rate=RateKind.EXAMPLES_OF_ALL,
    ),
    _sample(
        "Flax examples",
        b", train_loss: ",
        rb"(?<!\w)epoch: {1,4}" + EPOCH + rb", train_loss: " + LOSS + rb", train_accuracy: ",
    ),
    _sample(
        "Flax examples",
        b"Step... (",
        rb"Step\.\.\. \(" + STEP + rb"(?:" + OF + rb")? \| (?:Training )?Loss: " + LOSS + rb"(?=[,)])",
    ),
    _sample("big_vision", b"] training_loss = ", rb"(?:^|\] )\[" + STEP + rb"\] training_loss = " + LOSS + ENDS),
    _sample(
        "big_vision",
        b"] img/sec/core = ",
        rb"(?:^|\] )\[" + STEP + rb"\] img/sec/core = " + RATE + ENDS,
        rate=RateKind.EXAMPLES_A_DEVICE,
    ),
    _sample(
        "Vision Transformer",
        b", Train loss: ",
        rb"(?<!\w)Step: " + STEP + OF + rb" \d{1,3}\.\d{1,3}%, Train loss: " + LOSS
        + rb",(?:[^\n]{0,80}? img/sec/core: " + RATE + rb",)?",
        rate=RateKind.EXAMPLES_A_DEVICE,
    ),
    _sample(
        "Lingvo",
        b" loss:",
        rb"\] step: {1,12}" + STEP + rb"[ ,](?=(?:[^\n]{0,80}?examples/sec: " + RATE + rb")?)[^\n]{0,1200}? loss:"
        + LOSS + rb"(?=[ ,]|$)",
        rate=RateKind.EXAMPLES_OF_ALL,
    ),
    _sample(
        "TF-Slim",
        b"global step ",
        rb"(?<!\w)global step " + STEP + rb": loss = " + LOSS + rb" \((?=(?:" + PACE + rb")?)",
    ),
    _sample(
        "Trax",
        b": train ",
        rb"^\s{0,8}Step {1,12}" + STEP + rb": train \w{0,40}Loss\w{0,40} {1,4}\| {1,12}" + LOSS + ENDS,
    ),
    _sample(
        "MaxText distillation",
        b" | step_time=",
        rb"(?<!\w)step " + STEP + rb" \| step_time=" + NUMBER + rb"s(?:[^\n]{0,200}? loss=" + LOSS + ENDS + rb")?",
    ),
    _sample("JAX examples", b", train/loss: ", rb"^" + STEP + rb", train/loss: " + LOSS + rb"\.?(?![\w.])"),
    _sample(
        "Pax", b"summary tensor at step=", rb"\] summary tensor at step=" + STEP + rb" loss " + LOSS + ENDS
    ),
    # A dictionary over many lines, sorted by name: the step stands after the loss.
    _sample("EasyLM", b"'loss': ", rb"^[ {]'loss': " + _NUMPY + rb"[,}]\s*$", is_part=True),
    _sample("EasyLM", b"'step': ", rb"^[ {]'step': " + STEP + rb"(?:\.\d)?[,}]\s*$", is_part=True),
)  # fmt: skip

BENEATH: tuple[Dialect, ...] = (
    _sample(
        "OLMo",
        b"[step=",
        rb"\[step=" + STEP + OF + rb"(?:,epoch=" + EPOCH + rb")?[^\]\n]{0,60}\]\s*$",
        is_part=True,
    ),
    dialect(
        "OLMo",
        Kind.SAMPLE,
        [b"train/CrossEntropyLoss=", b"train/CE loss="],
        rb"^ {2,8}train/(?:CrossEntropyLoss|CE loss)=" + LOSS + ENDS,
        is_part=True,
    ),
    _sample(
        "OLMo",
        b"throughput/device/",
        rb"^ {2,8}throughput/device/(?:tokens_per_second|TPS)=" + RATE + ENDS,
        is_part=True,
        rate=RateKind.TOKENS_A_DEVICE,
    ),
    _sample(
        "Composer",
        b"[batch=",
        rb"^(?:\[epoch=" + EPOCH + rb"(?:" + OF + rb")?\])?\[batch=" + STEP + rb"(?:" + OF + rb")?\]:\s*$",
        is_part=True,
    ),
    _sample("Composer", b" loss/train/total: ", rb"^\s{1,8}Train loss/train/total: " + LOSS + ENDS, is_part=True),
    _sample(
        "Composer",
        b" throughput/samples_per_sec: ",
        rb"^\s{1,8}Train throughput/samples_per_sec: " + RATE + ENDS,
        is_part=True,
        rate=RateKind.EXAMPLES_OF_ALL,
    ),
)  # fmt: skip
"""A step on a line of its own, its metrics on those beneath it."""
