"""The lines of trainers of pictures and speech, as dialects. Sources: each one's public code and logs."""

from __future__ import annotations

from tui.logs.dialect import ENDS, EPOCH, LOSS, NUMBER, OF, RATE, STEP, Dialect, Kind, dialect

_STEP_OF = rb"\[ {0,9}" + STEP + rb"/\d{1,12}\]"
"""`[  50/1251]`"""


def _sample(name: str, hint: bytes, pattern: bytes, **more: bool) -> Dialect:
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
        rb"[Ll]oss[:=] {0,2}" + LOSS + ENDS + rb"(?:[^\n]{0,80}?, " + RATE + rb"/s )?",
    ),
    _sample(
        "PyTorch examples",
        b"Data (t): ",
        rb"(?<!\w)Train Epoch: " + EPOCH + rb" \[ {0,9}" + STEP + rb"/\d{1,12} \([^)\n]{1,6}%\)\] Data \(t\): "
        rb"[^\n]{0,60}?, " + RATE + rb"/s, [^\n]{0,400}? Loss: " + LOSS + rb" \(",
    ),
    # `loss: 6.87 (6.88)` is the median of some steps and the mean of all.
    dialect(
        "torchvision",
        Kind.SAMPLE,
        [b"Epoch: [", b"Training  ["],
        rb"(?<!\w)(?:Epoch: \[" + EPOCH + rb"(?:" + OF + rb")?\]|Training) {1,2}" + _STEP_OF
        + rb" {1,2}(?=(?:[^\n]{0,800}? (?:img/s|ips): " + RATE + rb")?)[^\n]{0,300}? (?:total_)?loss: " + LOSS
        + rb" ",
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
        + rb" samples/sec(?:[^\n]{0,160}?(?<![\w-])(?:loss|cross-entropy)=" + LOSS + ENDS + rb")?",
    ),
    _sample(
        "InsightFace",
        b"Global Step: ",
        rb"Speed " + RATE + rb" samples/sec\s{1,6}Loss " + LOSS + rb"\s[^\n]{0,80}?\sEpoch: " + EPOCH
        + rb"\s{1,6}Global Step: " + STEP + ENDS,
    ),
)  # fmt: skip

DETECTORS = (
    _sample(
        "detectron2",
        b"  total_loss: ",
        rb"(?<!\w)eta: [^\n]{1,24}?  iter: " + STEP + rb"  total_loss: " + LOSS + ENDS,
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
    # A table whose columns are parts of a loss: their sum is told nowhere.
    _sample(
        "Ultralytics",
        b"G     ",
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
)  # fmt: skip

VISION_AND_SPEECH: tuple[Dialect, ...] = CLASSIFIERS + DETECTORS + SPEECH
