"""What people print themselves, as dialects: a step and a loss in the usual words. They are tried last."""

from __future__ import annotations

from tui.logs.dialect import ENDS, LOSS, RATE, STEP, Dialect, Kind, dialect

_COUNTED = rb"(?:[Ss]tep|[Ii]ter(?:ation)?|[Bb]atch)"

_NOT_EVALUATION = (
    rb"^(?![^\n]{0,120}?\b(?:[Vv]al|VAL|[Ee]val|EVAL|[Tt]est|TEST|[Bb]est|[Dd]ev)\w{0,8}\b[^\n]{0,80}?"
    + _COUNTED
    + rb")"
)
"""No line that speaks of validation, or of the best so far, before its step."""

_KEY = rb"[\w./-]{1,40}=[^\s,|=]{1,30}[ ,|]{1,3}"

HOMEMADE: tuple[Dialect, ...] = (
    dialect(
        "JSON",
        Kind.SAMPLE,
        [b'loss": ', b"loss': "],
        rb"\{(?![^{}\n]{0,800}?['\"](?:mode|split|phase)['\"]: ?['\"](?:val|eval|test))"
        rb"(?=[^{}\n]{0,800}?['\"](?:global_)?(?:step|iter|iteration)['\"]: ?" + STEP + rb"[,}])"
        rb"(?=(?:[^{}\n]{0,800}?['\"]epoch['\"]: ?(?P<epoch>\d{1,9})[.,}])?)"
        rb"[^{}\n]{0,800}?['\"](?:train[/_])?loss['\"]: ?(?:[Aa]rray\()?" + LOSS + rb"(?=[,}])",
    ),
    dialect(
        "names and values",
        Kind.SAMPLE,
        [b"loss="],
        _NOT_EVALUATION + rb"[^\n]{0,200}?(?<![\w.{/-])(?:epoch=(?P<epoch>\d{1,9})(?:/\d{1,9})?[ ,|]{1,3})?"
        rb"(?:global_)?(?:step|iter)=" + STEP + rb"(?:/\d{1,12})?[ ,|]{1,3}(?:" + _KEY + rb"){0,8}(?:train[_/])?loss="
        + LOSS + ENDS,
    ),
    dialect(
        "words",
        Kind.SAMPLE,
        [b"oss: ", b" loss=", b"loss ", b"Loss "],
        _NOT_EVALUATION + rb"[^\n]{0,160}?(?<![\w.{/-])"
        rb"(?:[Ee]poch:? ?\[?(?P<epoch>\d{1,9})(?:/\d{1,9})?\]?[,:| -]{1,4})?"
        rb"\[?" + _COUNTED + rb"[: #]{1,3}\[? {0,4}" + STEP + rb"(?: ?/ ?\d{1,12})?[\],:| -]{1,4}"
        rb"(?:[Tt]rain(?:ing)?[ _])?[Ll]oss[:= ]{1,3}" + LOSS + ENDS + rb"(?!, (?:rate|val loss))"
        rb"(?:[^\n]{0,120}?(?:throughput=|[Tt]okens/s(?:ec)?[:=] ?)" + RATE + ENDS + rb")?",
    ),
)  # fmt: skip
