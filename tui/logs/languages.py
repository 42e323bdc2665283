"""What people print themselves in words that are not English: a step or an epoch, and a loss."""

from __future__ import annotations

from tui.logs.dialect import ENDS, EPOCH, LOSS, STEP, Dialect, Kind, dialect
from tui.logs.vocabulary import LOG_LINE


def _words(*words: str) -> bytes:
    return rb"(?:" + b"|".join(word.encode() for word in words) + rb")"


_LOSSES = ("损失", "損失", "손실", "Perte", "perte", "Perda", "perda", "Pérdida", "pérdida", "Verlust", "потери")
_EVALUATIONS = (
    "验证", "测试", "评估", "最", "検証", "テスト", "評価", "검증", "테스트", "평가",
    "[Vv]al", "[Tt]est", "[Ee]val", "[Bb]est", "[Mm]eilleur", "[Mm]elhor", "[Mm]ejor",
)  # fmt: skip
_STEP_NAMES = (
    "步骤", "步数", "步", "迭代次数", "迭代", "批次", "ステップ", "스텝", "배치",
    "Étape", "étape", "[Pp]asso?", "[Ll]ote",
    "(?<![A-Za-z])[Ss]tep", "(?<![A-Za-z])[Ii]ter(?:ation)?", "(?<![A-Za-z])[Bb]atch",
)  # fmt: skip
_EPOCH_NAMES = (
    "轮次", "轮数", "轮", "エポック", "에포크", "Époque", "époque", "Época", "época", "эпоха", "Эпоха",
    "(?<![A-Za-z])[Ee]po(?:ch|que|ca)", "EPOCH",
)  # fmt: skip

_IS = rb"[^\w\n]{1,8}"
_NUMBERED = "第".encode() + rb" ?(?=\d{1,12} ?"
_STEP = rb"(?:" + _words(*_STEP_NAMES) + _IS + rb"|" + _NUMBERED + _words("步", "批") + rb"))"
_EPOCH = rb"(?:" + _words(*_EPOCH_NAMES) + _IS + rb"|" + _NUMBERED + _words("轮", "个") + rb"))"
_FAR = rb"[^\n]{0,160}?"
_TRAINING_LOSS = (
    rb"(?=(?:(?!" + _words(*_EVALUATIONS) + rb")[^\n]){0,200}?" + _words(*_LOSSES)
    + rb"[^\d\n]{1,12}?" + LOSS + ENDS + rb")"
)  # fmt: skip
_HINTS = tuple(word.encode() for word in _LOSSES)

LANGUAGES: tuple[Dialect, ...] = (
    dialect(
        "words of other languages",
        Kind.SAMPLE,
        _HINTS,
        LOG_LINE + _TRAINING_LOSS + rb"(?=" + _FAR + _STEP + STEP + rb"(?![\w.]))"
        rb"(?=(?:" + _FAR + _EPOCH + EPOCH + rb"(?!\d))?)[^\n]",
    ),
    dialect(
        "words of other languages",
        Kind.SAMPLE,
        _HINTS,
        LOG_LINE + _TRAINING_LOSS + rb"(?!" + _FAR + _STEP + rb"\d)"
        rb"(?=" + _FAR + _EPOCH + EPOCH + rb"(?!\d))[^\n]",
        is_summary=True,
    ),
)  # fmt: skip
"""Those that tell a step before those that tell an epoch alone."""
