"""The lines of trainers of agents, and of benchmarks, as dialects. Sources: each one's public code and logs."""

from __future__ import annotations

from typing import Any

from tui.logs.dialects.dialect import ENDS, EPOCH, LOSS, OF, RATE, STEP, Dialect, Kind, dialect
from tui.logs.state.rate_kinds import RateKind


def _sample(name: str, hint: bytes, pattern: bytes, **more: Any) -> Dialect:
    return dialect(name, Kind.SAMPLE, [hint], pattern, **more)


_VALUE = rb" {1,60}\| {0,4}"
_CLOSED = rb" {0,60}\|\s*$"

_BOX, _BOX_END = rb"^\xe2\x94\x82 {1,4}", rb" {1,60}\xe2\x94\x82\s*$"

TABLES = (
    # OpenAI's logger, as Stable-Baselines3 and the diffusion models use it.
    _sample("Stable-Baselines3", b" fps  ", rb"^\| {1,8}fps" + _VALUE + RATE + _CLOSED, is_part=True),
    dialect(
        "Stable-Baselines3",
        Kind.SAMPLE,
        [b" total_timesteps ", b"| step  "],
        rb"^\| {1,8}(?:total_timesteps|step)" + _VALUE + rb"(?P<step>\d{1,12}(?:\.\d{1,9})?(?:e\+\d\d)?)" + _CLOSED,
        is_part=True,
    ),
    _sample("Stable-Baselines3", b" loss  ", rb"^\| {1,8}loss" + _VALUE + LOSS + _CLOSED, is_part=True),
    # A box for each result; a run's own figures stand behind Ray's.
    _sample("Ray", b"training_iteration ", _BOX + rb"training_iteration {1,60}" + STEP + _BOX_END, is_part=True),
    _sample(
        "Ray", b"loss  ", _BOX + rb"(?:train(?:ing)?[_/])?loss {1,60}" + LOSS + _BOX_END, is_part=True
    ),
    _sample("RSL-RL", b"Learning iteration ", rb"^\s{0,80}Learning iteration " + STEP + OF + rb"\s*$", is_part=True),
    _sample("RSL-RL", b"Steps per second: ", rb"^\s{0,80}Steps per second: " + RATE + rb"\s*$", is_part=True),
    _sample("RSL-RL", b"Computation: ", rb"^\s{0,80}Computation: " + RATE + rb" steps/s \(", is_part=True),
    dialect(
        "RSL-RL",
        Kind.SAMPLE,
        [b"urrogate loss: "],
        rb"^\s{0,80}(?:Mean surrogate|Surrogate) loss: " + LOSS + rb"\s*$",
        is_part=True,
    ),
)  # fmt: skip
"""Tables with a figure a line; a policy's loss is the actor's."""

AGENTS = (
    _sample(
        "LeRobot",
        b" epch:",
        rb"(?<!\w)step:(?P<step>\d{1,12}[KMB]?) smpl:\w{1,12} ep:\w{1,12} epch:(?P<epoch>\d{1,9})(?:\.\d{1,4})?"
        rb" loss:" + LOSS + ENDS,
    ),
    _sample(
        "keras-rl",
        b": episode: ",
        rb"^ {0,12}" + STEP + rb"/\d{1,12}: episode: \d{1,9}, duration: [^\n]{0,80}? steps per second: {1,4}" + RATE
        + rb",[^\n]{0,400}? loss: " + LOSS + rb",",
        rate=RateKind.STEPS,
    ),
    _sample(
        "Acme",
        b" | Learner Steps = ",
        rb"\[Learner\] [^\n]{0,800}?\| Learner Steps = " + STEP + rb" \|[^\n]{0,400}? \| Loss = " + LOSS + ENDS,
    ),
)  # fmt: skip

BENCHMARKS = (
    _sample(
        "TensorFlow benchmarks",
        b"images/sec: ",
        rb"^" + STEP + rb"\s{1,12}images/sec: " + RATE + rb" \+/- [\d.]{1,12} \(jitter = [\d.]{1,12}\)\s{1,12}" + LOSS
        + ENDS,
        rate=RateKind.EXAMPLES,
    ),
)  # fmt: skip

MLPERF = (
    # It counts samples, not steps.
    _sample(
        "MLPerf",
        b":::MLLOG ",
        rb":::MLLOG \{[^\n{}]{0,300}?\"key\": \"(?:train_loss|tracked_stats)\", \"value\": "
        rb"(?:\{[^{}\n]{0,300}?\"(?:reduced_)?train_loss\": )?" + LOSS + rb"[,}][^\n]{0,400}?"
        rb"\"(?:step_num|step|samples_count)\": " + STEP + rb"[,}]",
    ),
)  # fmt: skip

_TRAIN_METRIC = rb"(?:\w{0,24}logloss|rmse|mae|l\d)"

RECOMMENDERS: tuple[Dialect, ...] = (
    _sample(
        "LightGCN", b"-|Sample:", rb"^EPOCH\[" + EPOCH + OF + rb"\] loss" + LOSS + rb"-\|Sample:", is_summary=True
    ),
    _sample(
        "LightGCN",
        b": train==[",
        rb"^Epoch " + EPOCH + rb" \[[\d.s +]{2,40}\]: train==\[" + LOSS + rb"=",
        is_summary=True,
    ),
)  # fmt: skip

TREES: tuple[Dialect, ...] = (
    dialect(
        "LightGBM",
        Kind.SAMPLE,
        [b"training's ", b" train's ", b"\ttrain's ", b"train_loss's "],
        rb"^\[" + STEP + rb"\]:?\s{1,8}train(?:ing)?(?:_\w{1,16})?'s " + _TRAIN_METRIC + rb": ?" + LOSS + ENDS,
    ),
    _sample(
        "LightGBM",
        b", training ",
        rb"\[LightGBM\] \[Info\] Iteration:" + STEP + rb", training " + _TRAIN_METRIC + rb" : " + LOSS + ENDS,
    ),
    _sample(
        "CatBoost",
        b":\tlearn: ",
        rb"^" + STEP + rb":\tlearn: " + LOSS + rb"(?=\s)",
    ),
    _sample(
        "XGBoost",
        b"]\ttrain-",
        rb"^(?:\[[\d:]{5,12}\] )?\[" + STEP + rb"\]\ttrain-" + _TRAIN_METRIC + rb":" + LOSS + ENDS,
    ),
)
"""Trees that are boosted, a round at a time."""

SMALL: tuple[Dialect, ...] = (
    _sample(
        "tinygrad",
        b" loss, ",
        rb"^ {0,8}" + STEP + rb" {1,4}[\d.]{1,9} m?s run, (?:[^\n]{0,120}? )?" + LOSS + rb" loss, ",
    ),
    _sample(
        "MATLAB",
        b"% | ",
        rb"^\| {1,9}" + EPOCH + rb" \| {1,12}" + STEP + rb" \| {1,9}\d\d:\d\d:\d\d \|"
        rb"(?: {1,12}[\d.]{0,9}%? \|){1,2}? {1,12}"
        rb"(?P<loss>\d{1,9}\.\d{4}) \|",
    ),
    _sample("Deeplearning4j", b"Score at iteration ", rb"Score at iteration " + STEP + rb" is " + LOSS + ENDS),
)  # fmt: skip

OTHERS: tuple[Dialect, ...] = TABLES + AGENTS + BENCHMARKS + MLPERF + RECOMMENDERS + TREES + SMALL
