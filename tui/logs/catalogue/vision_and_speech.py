"""The lines of trainers of pictures and speech, as dialects. Sources: each one's public code and logs."""

from __future__ import annotations

from typing import Any

from tui.logs.dialects.dialect import ENDS, EPOCH, LOSS, NUMBER, OF, RATE, STEP, Dialect, Kind, dialect
from tui.logs.state.rate_kinds import RateKind

_STEP_OF = rb"\[ {0,9}" + STEP + rb"/\d{1,12}\]"
"""`[  50/1251]`"""


def _sample(name: str, hint: bytes, pattern: bytes, **more: Any) -> Dialect:
    return dialect(name, Kind.SAMPLE, [hint], pattern, **more)


CLASSIFIERS = (
    _sample(
        "Swin",
        b"Train: [",
        rb"(?<!\w)Train: \[" + EPOCH + OF + rb"\]" + _STEP_OF + rb"\s{1,4}[^\n]{0,300}?\sloss " + LOSS + rb" \(",
    ),
    _sample(
        "PyTorch examples",
        b"Epoch: [",
        rb"(?<!\w)Epoch: \[" + EPOCH + rb"\]" + _STEP_OF + rb"\s{1,8}[^\n]{0,160}?(?:Speed {1,4}" + RATE
        + rb" [^\n]{0,80}?)?\sLoss {1,4}" + LOSS + rb" \(",
        rate=RateKind.EXAMPLES,
    ),
    _sample(
        "PyTorch examples",
        b"      time ",
        rb"^" + _STEP_OF + rb" {1,12}time {1,4}" + NUMBER + rb" [^\n]{0,80}? loss {1,4}" + LOSS + rb" \(",
    ),
    _sample(
        "PyTorch examples",
        b"Train Epoch: ",
        rb"(?<!\w)Train Epoch: " + EPOCH + rb" \[ {0,9}" + STEP + rb"/\d{1,12} \([^)\n]{1,6}%\)\]\s{1,8}"
        rb"[Ll]oss[:=] {0,2}" + LOSS + ENDS + rb"(?:[^\n]{0,80}?, " + RATE + rb"/s[ ,])?",
        rate=RateKind.EXAMPLES,
    ),
    _sample(
        "PyTorch examples",
        b"Data (t): ",
        rb"(?<!\w)Train Epoch: " + EPOCH + rb" \[ {0,9}" + STEP + rb"/\d{1,12} \([^)\n]{1,6}%\)\] Data \(t\): "
        rb"[^\n]{0,60}?, " + RATE + rb"/s, [^\n]{0,400}? Loss: " + LOSS + rb" \(",
        rate=RateKind.EXAMPLES_OF_ALL,
    ),
    # `loss: 6.87 (6.88)` is the median of some steps and the mean of all.
    dialect(
        "torchvision",
        Kind.SAMPLE,
        [b"Epoch: [", b"Training  ["],
        rb"(?<!\w)(?:Epoch: \[" + EPOCH + rb"(?:" + OF + rb")?\]|Training) {1,2}" + _STEP_OF
        + rb" {1,2}(?=(?:[^\n]{0,800}? (?:img/s|ips): " + RATE + rb")?)[^\n]{0,300}? "
        rb"(?:(?:total_)?loss|(?![^\n]{0,800}?loss: [^\n]{0,800}?loss: )\w{1,12}loss): " + LOSS + rb" ",
        rate=RateKind.EXAMPLES,
    ),
    _sample(
        "ignite",
        b" Iteration[",
        rb"(?<!\w)Epoch\[" + EPOCH + rb"\] Iteration\[" + STEP + OF + rb"\] Loss: " + LOSS + ENDS,
    ),
    _sample(
        "MXNet",
        b" Batch [",
        rb"(?<!\w)Epoch\[" + EPOCH + rb"\] Batch \[(?:\d{1,12}-)?" + STEP + rb"\]\s{1,4}Speed: " + RATE
        + rb" samples/sec(?:[^\n]{0,160}?(?<![\w-])(?:[Ll]oss(?:value)?|cross-entropy)=" + LOSS + ENDS + rb")?",
        rate=RateKind.EXAMPLES,
    ),
    _sample(
        "GluonCV",
        b"][Batch ",
        rb"\[Epoch " + EPOCH + rb"\]\[Batch " + STEP + rb"\], (?:LR: " + NUMBER + rb", )?Speed: " + RATE
        + rb" samples/sec, ",
        rate=RateKind.EXAMPLES,
    ),
    _sample(
        "OpenPCDet",
        b"Train:  ",
        rb"(?<!\w)Train: {1,8}" + EPOCH + OF + rb" \([^)\n]{1,6}%\) \[ {0,9}" + STEP + OF
        + rb" [^\n\]]{1,20}\] {1,4}Loss: {1,4}" + LOSS + rb" ",
    ),
    _sample(
        "InsightFace",
        b"Global Step: ",
        rb"Speed " + RATE + rb" samples/sec\s{1,6}Loss " + LOSS + rb"\s[^\n]{0,80}?\sEpoch: " + EPOCH
        + rb"\s{1,6}Global Step: " + STEP + ENDS,
        rate=RateKind.EXAMPLES_OF_ALL,
    ),
)  # fmt: skip

DETECTORS = (
    _sample(
        "detectron2",
        b"  total_loss: ",
        rb"(?<!\w)eta: [^\n]{1,24}?  (?:iter: "
        rb"|epoch/iter: " + EPOCH + rb"/)" + STEP + rb"  total_loss: " + LOSS + ENDS,
    ),
    _sample(
        "OpenMMLab",
        b"lr: ",
        rb"(?<!\w)Epoch(?:\(train\))? {1,4}\[" + EPOCH + rb"\]" + _STEP_OF + rb"\s{1,4}(?:\w{1,20}_)?lr: "
        rb"[^\n]{0,1200}?(?<=[ \t])loss: " + LOSS + ENDS,
    ),
    _sample(
        "OpenMMLab",
        b"lr: ",
        rb"(?<!\w)Iter(?:\(train\))? {1,4}" + _STEP_OF + rb"\s{1,4}(?:\w{1,20}_)?lr: [^\n]{0,1200}?(?<=[ \t])loss: "
        + LOSS + ENDS,
    ),
    _sample(
        "YOLACT",
        b" || ETA: ",
        rb"^\[ {0,4}" + EPOCH + rb"\] {1,8}" + STEP + rb" \|\| [^\n]{0,120}? T: " + LOSS + rb" \|\| ETA: ",
    ),
    _sample(
        "CenterNet",
        b"|Tot: ",
        rb"train: \[" + EPOCH + rb"\]" + _STEP_OF + rb"\|Tot: [^\n]{0,80}?\|loss " + LOSS + rb" ",
    ),
    # A table whose columns are parts of a loss: their sum is told nowhere.
    _sample(
        "Ultralytics",
        b"G   ",
        rb"^ {2,9}" + EPOCH + rb"/\d{1,9} {1,12}[\d.]{1,6}[GM]? {1,12}(?:" + NUMBER
        + rb" {1,12}){2,10}\d{1,6}: {1,4}\d{1,3}%"
        rb"[^\d\n]{1,400}" + STEP + rb"/\d{1,12} [\[\d]",
        last_only=True,
    ),
    dialect(
        "PaddlePaddle",
        Kind.SAMPLE,
        [b", iter", b"train step:"],
        rb"(?<!\w)epoch[:=] ?\[?" + EPOCH + rb"(?:/\d{1,9})?\]? {0,3}, (?:iter|train step)[:=] ?" + STEP
        + rb"(?:/\d{1,12})? {0,3}, [^\n]{0,200}?(?<= )(?:total_)?loss[:=] ?" + LOSS + ENDS
        + rb"(?:[^\n]{0,200}? ips: " + RATE + rb")?",
        rate=RateKind.EXAMPLES,
    ),
)  # fmt: skip

TUTORIALS = (
    _sample("PyTorch tutorials", b"] loss: ", rb"^\[" + EPOCH + rb", {1,8}" + STEP + rb"\] loss: " + LOSS + ENDS),
    _sample(
        "PyTorch tutorials", b"] loss: ", rb"^\[(?: {1,8}(?=\d)|(?=\d{3}))" + STEP + rb"\] loss: " + LOSS + ENDS
    ),
    _sample("PyTorch tutorials", b"loss: ", rb"^loss: " + LOSS + rb" {1,4}\[ {0,9}" + STEP + rb"/ {0,9}\d{1,12}\]$"),
    _sample(
        "PyTorch examples",
        b" batches | ",
        rb"\| epoch {1,4}" + EPOCH + rb" \| {0,9}" + STEP + rb"/ {0,9}\d{1,12} batches \| [^\n]{0,120}?\| loss {1,8}"
        + LOSS + rb" \|",
    ),
    # The same bar when it trains and when it tests.
    _sample(
        "pytorch-cifar",
        b" | Tot: ",
        rb"^ \[[=>.]{3,120}\] {1,4}Step: \w{1,20} \| Tot: \w{1,20} \| Loss: " + LOSS + rb" \| [^|\n]{1,80} " + STEP
        + rb"/(?P<total>\d{1,12})\s",
        is_bar=True,
        last_only=True,
    ),
    _sample(
        "Catalyst",
        b"train (",
        rb"^train \(" + EPOCH + OF + rb"\) [^\n]{0,400}?(?<=[ |])loss: " + LOSS + rb" \|",
        is_summary=True,
    ),
    # Two losses against each other, and no whole.
    _sample("PyTorch examples", b" Loss_", rb"^\[" + EPOCH + OF + rb"\]" + _STEP_OF + rb"\s{1,4}Loss_[DG]: "),
    _sample(
        "PyTorch examples",
        b"] Loss: ",
        rb"^\[" + EPOCH + OF + rb"\]" + _STEP_OF + rb"\s{1,4}Loss: " + LOSS + ENDS,
    ),
    _sample(
        "PyTorch-GAN",
        b"[D loss: ",
        rb"\[Epoch " + EPOCH + OF + rb"\] \[Batch " + STEP + rb"/\d{1,12}\] \[D loss: ",
    ),
)  # fmt: skip

IMAGES = (
    _sample(
        "BasicSR",
        b", iter: ",
        rb"[\[<]epoch: {0,9}" + EPOCH + rb", iter: {1,12}(?P<step>\d{1,3}(?:,\d{3}){0,3}), lr:",
    ),
    _sample("CycleGAN", b", iters: ", rb"\(epoch: " + EPOCH + rb", iters: " + STEP + rb", time: [\d.]{1,12}, data: "),
    _sample("StyleGAN", b" kimg ", rb"(?<!\w)tick " + STEP + rb" {1,12}kimg [\d.]{1,12} "),
    _sample(
        "Darknet",
        b" avg",
        rb"(?<![\w.,])" + STEP + rb": " + LOSS + rb", [-\w.]{1,24} avg(?: loss)?, [\d.]{1,12} rate, [\d.]{1,16} sec",
    ),
)  # fmt: skip

SPEECH = (
    _sample(
        "icefall",
        b", loss[",
        rb"(?:\((?P<core>\d{1,5})/\d{1,5}\) )?Epoch " + EPOCH + rb", batch " + STEP
        + rb", loss\[[^\]\n]{0,300}?(?<!\w)loss=" + LOSS + rb", ",
    ),
    _sample(
        "ESPnet",
        b"epoch:train:",
        rb"(?<!\w)" + EPOCH + rb"epoch:train:\d{1,12}-" + STEP + rb"batch: [^\n]{0,400}?(?<!\w)loss=" + LOSS + rb", ",
    ),
    _sample(
        "SpeechBrain",
        b" - train loss: ",
        rb"[Ee]poch: " + EPOCH + rb", [^\n]{0,160}?steps: " + STEP + rb", [^\n]{0,80}? - train loss: " + LOSS + ENDS,
    ),
    _sample(
        "WeNet",
        b"TRAIN Batch ",
        rb"TRAIN Batch " + EPOCH + rb"/" + STEP + rb" loss " + LOSS + rb" [^\n]{0,200}? rank (?P<core>\d{1,5})\s*$",
    ),
    _sample(
        "HiFi-GAN",
        b", Gen Loss Total : ",
        rb"(?<!\w)Steps : " + STEP + rb", Gen Loss Total : " + LOSS + rb",(?:[^\n]{0,80}? s/b : "
        rb"(?P<pace>[\d.]{1,9}))?",
    ),
    _sample("Tacotron 2", b" Grad Norm ", rb"^Train loss " + STEP + rb" " + LOSS + rb" Grad Norm "),
    _sample("Coqui", b"GLOBAL_STEP: ", rb"--> [^\n]{0,80}GLOBAL_STEP: " + STEP + rb"\s*$", is_part=True),
    _sample("Coqui", b"| > loss: ", rb"^\s{0,12}\| > loss: " + LOSS + rb" ", is_part=True),
)  # fmt: skip

VISION_AND_SPEECH: tuple[Dialect, ...] = CLASSIFIERS + TUTORIALS + DETECTORS + IMAGES + SPEECH
