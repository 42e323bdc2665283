"""What people print themselves, as dialects: a step or an epoch and a loss in the usual words. Tried last."""

from __future__ import annotations

from tui.logs.dialect import ENDS, EPOCH, LOSS, OF, RATE, STEP, Dialect, Kind, dialect
from tui.logs.vocabulary import (
    BEGINS_WITH_WORKER,
    LOG_LINE,
    NAMED_EPOCH,
    NAMED_LOSS,
    NAMED_RANK,
    NAMED_STEP,
    PLAIN,
    RATED,
    UNTIL,
    nowhere,
    perhaps,
    somewhere,
)

_KEY = rb"[\w./-]{1,40}=[^\s,|=]{1,30}[ ,|]{1,3}"

_HINTS = (b"oss:", b"oss=", b"oss ", b"oss\t", b"oss(", b"oss_mean", b"oss.avg", b"oss/train")

_ONCE = rb"[^\n]"
"""What has looked ahead only must take something, or it is looked for again at the same place."""

_BAR = rb"\d{1,3}%(?:\|[^|\n]{0,300}\|)? ?"
"""tqdm's bar, which Colab leaves out."""

BARS: tuple[Dialect, ...] = (
    dialect(
        "progress bar",
        Kind.SAMPLE,
        [b"/s, ", b"s/it, ", b"s/step, ", b"s/batch, "],
        LOG_LINE + rb"(?=(?:[^\n|]{0,80}?" + NAMED_EPOCH + rb")?)(?:(?!\d{1,3}%)" + PLAIN + rb"){0,120}?" + _BAR
        + STEP
        + rb"/(?:\d{1,12}|\?) \[[^\]\n]{0,60}?(?:[\w.]{1,12}/s|s/[a-z]{1,12}), "
        rb"(?:[\w./-]{1,40}[=:] ?[^,\]\s]{1,30}(?:, | )){0,12}(?:(?:reduced_)?train[_/]|step_|batch_|avr_"
        rb"|avg_)?[Ll]oss"
        rb"(?:_step|_mean|_avg)?(?:=|: ?)" + LOSS + rb"(?=[,\] ])(?:[^\]\n]{0,80}?throughput=" + RATE + rb")?",
    ),
)  # fmt: skip
"""tqdm's with a loss behind them."""

HOMEMADE: tuple[Dialect, ...] = (
    dialect(
        "epoch alone",
        Kind.EPOCH,
        [b"Epoch ", b"Epoch: ", b"EPOCH "],
        rb"^[^\w\n]{0,40}(?:Epoch|EPOCH):? {1,4}\[?" + EPOCH
        + rb"(?:(?: ?/ ?| of )\d{1,9})?(?: Summary)?[^\w\n]{0,40}$",
        moment="begin",
    ),
    # A loss before the bar.
    dialect(
        "progress bar",
        Kind.SAMPLE,
        [b"oss:", b"oss="],
        LOG_LINE + rb"(?=(?:[^\n|]{0,80}?" + NAMED_EPOCH + rb")?)" + UNTIL + rb"{0,50}?" + NAMED_LOSS
        + rb"[^\n]{0,120}?(?:" + _BAR + rb"|: )" + STEP + rb"(?:/(?:\d{1,12}|\?)|it) \[\d",
    ),
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
        "JSON",
        Kind.SAMPLE,
        [b'train_loss": '],
        rb"\{(?![^{}\n]{0,800}?\"\w{0,12}(?:step|iter|iteration)s?\": ?\d)(?=[^{}\n]{0,800}?\"epoch\": ?"
        rb"(?P<epoch>\d{1,9})[.,}])[^{}\n]{0,800}?\"train_loss\": ?" + LOSS + rb"(?=[,}])",
        is_summary=True,
    ),
    dialect(
        "names and values",
        Kind.SAMPLE,
        [b"loss="],
        LOG_LINE + UNTIL + rb"{0,60}?(?<![\w.{/-])(?:epoch=(?P<epoch>\d{1,9})(?:/\d{1,9})?[ ,|]{1,3})?"
        rb"(?:global_)?(?:step|iter)=" + STEP + rb"(?:/\d{1,12})?[ ,|]{1,3}(?:" + _KEY + rb"){0,8}(?:train[_/])?loss="
        + LOSS + ENDS,
    ),
    dialect(
        "words",
        Kind.SAMPLE,
        _HINTS,
        LOG_LINE + somewhere(NAMED_STEP) + rb"(?=" + UNTIL + rb"{0,80}?" + NAMED_LOSS
        # What is cut off, and an evaluation that tells both losses.
        + rb"(?!, rate|[ ,|;-]{1,4}(?:[Vv]al|[Tt]est|[Dd]ev|[Ee]val)[a-z]{0,7}[ _]?[Ll]oss))"
        + perhaps(NAMED_EPOCH) + perhaps(NAMED_RANK) + BEGINS_WITH_WORKER + RATED + _ONCE,
    ),
    # A place in an epoch, in brackets and without a name.
    dialect(
        "words",
        Kind.SAMPLE,
        _HINTS,
        LOG_LINE + rb"(?=" + UNTIL + rb"{0,40}?" + NAMED_EPOCH.replace(b"[Ee]poch|", b"[Ee]pochs?|")
        + rb"(?:" + OF + rb")?\]?[ \t:,|-]{0,6}\[ {0,9}" + STEP + rb" ?/ ?\d{1,12}[^\]\n]{0,16}\]" + UNTIL
        + rb"{0,60}?" + NAMED_LOSS + rb")" + perhaps(NAMED_RANK) + BEGINS_WITH_WORKER + RATED + _ONCE,
    ),
    dialect(
        "epochs",
        Kind.SAMPLE,
        _HINTS,
        LOG_LINE + nowhere(NAMED_STEP.replace(b"?P<step>", b"?:")) + rb"(?="
        + UNTIL + rb"{0,40}?" + NAMED_EPOCH + UNTIL + rb"{0,60}?" + NAMED_LOSS + rb")"
        + perhaps(NAMED_RANK) + BEGINS_WITH_WORKER + RATED + _ONCE,
        is_summary=True,
    ),
    # Beneath a line that names the epoch.
    dialect(
        "epochs",
        Kind.SAMPLE,
        [
            b"rain Loss: ", b"rain loss: ", b"raining loss: ",
            b"raining Loss: ", b"TRAIN Loss: ", b"vg Loss: ", b"vg loss: ",
        ],
        rb"^\s{0,8}(?:[-*] )?(?:[Tt]rain(?:ing)?|TRAIN|[Aa]vg) [Ll]oss: {1,8}" + LOSS + ENDS,
        is_bar=True,
        is_summary=True,
    ),
)  # fmt: skip
"""Those that tell a step before those that tell an epoch alone."""
