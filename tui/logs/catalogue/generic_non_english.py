"""What people print themselves in words that are not English: a step or an epoch, and a loss."""

from __future__ import annotations

from collections.abc import Sequence

from tui.logs.dialects.dialect import ENDS, EPOCH, LOSS, OF, STEP, Dialect, Kind, dialect
from tui.logs.dialects.grammar import LOG_LINE


def _words(words: Sequence[str]) -> bytes:
    return rb"(?:" + b"|".join(word.encode() for word in words) + rb")"


_LOSSES = (
    "损失", "損失", "손실", "Perte", "perte", "Perda", "perda", "Perdita", "perdita", "Pérdida", "pérdida", "Verlust",
    "Потери", "потери", "Kayıp", "kayıp",
)  # fmt: skip
_EVALUATIONS = (
    "验证", "测试", "评估", "最", "検証", "テスト", "評価", "검증", "테스트", "평가", "алид", "Тест", "тест",
    "[Vv]al", "[Tt]est", "[Ee]val", "[Bb]est", "[Mm]eilleur", "[Mm]elhor", "[Mm]ejor",
)  # fmt: skip
_STEPS = (
    "步骤", "步数", "步", "迭代次数", "迭代", "批次", "ステップ", "스텝", "배치", "반복",
    "Étape", "étape", "Schritt", "Adım", "adım", "Шаг", "шаг",
)  # fmt: skip
_EPOCHS = (
    "轮次", "轮数", "轮", "エポック", "에포크", "에폭", "Époque", "époque", "Época", "época", "эпоха", "Эпоха",
    "ЭПОХА", "Epoche", "Epoca", "Epoka",
)  # fmt: skip
_STEPS_TOO = (
    *_STEPS, "[Pp]asso?", "[Ll]ote",
    "(?<![A-Za-z])[Ss]tep", "(?<![A-Za-z])[Ii]ter(?:ation)?", "(?<![A-Za-z])[Bb]atch",
)  # fmt: skip
_EPOCHS_TOO = (*_EPOCHS, "(?<![A-Za-z])[Ee]po(?:ch|que|ca)", "EPOCH")
"""With English words, which may stand beside a loss of another language."""

_IS = rb"[^\w\n]{1,8}"
_LEARNT = _words(("训练", "訓練", "学習", "훈련", "학습")) + rb"?"
_LOSS = _words(_LOSSES) + rb"[^\d\n]{1,16}?" + LOSS + ENDS
_ENGLISH_LOSS = rb"(?<![A-Za-z_])(?:[Tt]rain(?:ing)?[ _])?[Ll]oss[ :=]{1,4}" + LOSS + ENDS


def _counted(names: Sequence[str], before: Sequence[str], after: Sequence[str]) -> bytes:
    """Where a number begins that counts these; or those, with what says so before it and behind."""
    digits = rb"(?=\d{1,12} ?"
    return (
        rb"[^\n]{0,160}?(?:" + _words(names) + _IS + "|第 ?".encode() + digits + _words(before) + rb")|"
        + digits + "번째 ?".encode() + _words(after) + rb"))"
    )  # fmt: skip


def _spoken(loss: bytes, steps: Sequence[str], epochs: Sequence[str], hints: Sequence[str]) -> tuple[Dialect, ...]:
    """Lines that tell a step with a loss, and those that tell an epoch alone."""
    training = rb"(?=(?:(?!" + _words(_EVALUATIONS) + rb")[^\n]){0,200}?" + loss + rb")"
    step = _counted(steps, ("步", "批"), ("스텝", "배치"))
    epoch = rb"(?=" + _counted(epochs, ("轮", "个"), ("에포크", "에폭")) + EPOCH + rb"(?!\d))"
    name, some = "words of other languages", [hint.encode() for hint in hints]
    return (
        dialect(
            name, Kind.SAMPLE, some, LOG_LINE + training + rb"(?=" + step + STEP + rb"(?![\w.]))" + epoch + rb"?[^\n]"
        ),
        dialect(
            name,
            Kind.SAMPLE,
            some,
            LOG_LINE + training + rb"(?!" + step + rb"\d)" + epoch + rb"[^\n]",
            is_summary=True,
        ),
    )


LANGUAGES: tuple[Dialect, ...] = (
    dialect(
        "epoch alone",
        Kind.EPOCH,
        [name.encode() for name in _EPOCHS],
        rb"^[^\w\n]{0,40}?" + _words(_EPOCHS) + _IS + EPOCH + rb"(?:" + OF + rb")?[^\w\n]{0,40}$",
        moment="begin",
        hints_end=True,
    ),
    *_spoken(_LOSS, _STEPS_TOO, _EPOCHS_TOO, _LOSSES),
    *_spoken(_ENGLISH_LOSS, _STEPS, _EPOCHS, (*_STEPS, *_EPOCHS)),
    # Beneath a line that names the epoch.
    dialect(
        "words of other languages",
        Kind.SAMPLE,
        [hint.encode() for hint in _LOSSES],
        rb"^\s{0,8}" + _LEARNT + _LOSS,
        is_bar=True,
        is_summary=True,
    ),
)
"""Those that tell a step before those that tell an epoch alone."""
