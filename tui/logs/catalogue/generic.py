"""What people print themselves, as dialects: a step or an epoch and a loss in the usual words. Tried last."""

from __future__ import annotations

from tui.logs.dialects.dialect import ENDS, EPOCH, LOSS, OF, RATE, STEP, Dialect, Kind, dialect
from tui.logs.dialects.grammar import (
    BEGINS_WITH_WORKER,
    EVALUATION,
    LOG_LINE,
    LOGGED,
    NAMED_EPOCH,
    NAMED_LOSS,
    NAMED_RANK,
    NAMED_STEP,
    ONLY_LOSS,
    PLAIN,
    RATED,
    TRACKED,
    UNTIL,
    WHOSE_STEP,
    nowhere,
    perhaps,
    somewhere,
)
from tui.logs.dialects.rates import BAR_RATE

_EVALUATED = (
    rb"(?:['\"](?:(?:mode|split|phase|stage|event|type|kind)['\"]: ?"
    rb"['\"](?:[Vv]al|[Ee]val|[Tt]est|[Dd]ev|[Cc]onfig|[Ss]ummary|[Cc]heckpoint|[Bb]est|[Ff]inal)"
    rb"|(?:best|val|eval|test|config|final)\w{0,12}['\"]: ?\{)"
    rb"|(?i:config|param(?:eter)?s|arg(?:ument)?s|settings|options)\w{0,12} ?[:=] ?\{)"
)
"""What says in a JSON object, or before it, that no step is told."""

_HINTS = (
    b"oss:", b"oss=", b"oss ", b"oss\t", b"oss(", b"oss]", b"oss_mean", b"oss.avg", b"oss/train", b"LOSS",
    b"oss_train", b"oss': ", b'oss": ', b"ost=", b"ost =",
    b"Cost ", b"Cost:",
)  # fmt: skip

_MADE_OF = (
    b"C loss", b"E loss", b"L loss", b"R loss", b"T loss", b"C Loss", b"E Loss", b"L Loss", b"R Loss", b"T Loss",
    b"ntropy",
)  # fmt: skip

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
        + rb"/(?:\d{1,12}|\?) \[" + BAR_RATE + rb"[^\]\n]{0,60}?(?:[\w.]{1,12}/s|s/[a-z]{1,12}), "
        rb"(?:[\w./-]{1,40}[=:] ?[^,\]\s]{1,30}(?:, | )){0,12}(?:_?(?:reduced_)?train[_/]|step_|batch_|avr_"
        rb"|avg_)?[Ll]oss"
        rb"(?:_step|_mean|_avg|/train(?:/total)?)?(?:=|: ?)" + LOSS + rb"(?=[,\] ])"
        rb"(?:[^\]\n]{0,80}?throughput=" + RATE + rb")?",
    ),
)  # fmt: skip
"""tqdm's with a loss behind them."""


_OUT_OF = rb"(?: ?/ ?| of {1,6})\d{1,12}"

_TAGS = (
    rb"\s{0,8}(?:\[(?!" + EVALUATION + rb")[A-Za-z][^\]\n]{0,24}\] ?){1,3}"
    rb"(?:[\[(] {0,6}| {0,8}(?=\d{1,12} ?/ ?\d{1,12} {1,4}\w{0,12}[Ll]oss))"
)
"""What a line is about, in brackets before a place: `[proc 0][Train](1000/40000)`, `[base] 120/500 loss=`."""

_STEPS_OF = rb"(?!" + EVALUATION + rb")[A-Za-z]{2,16} (?:[Ss]tep|[Ii]ter(?:ation)?) "
"""Whose steps they are: `policy step 250/2000`."""

_MARKS = rb"[^\w\n\xc3-\xe1\xe3-\xee]"
"""No letter, not of other alphabets either."""

_DRAWN = (
    _MARKS + rb"{0,8}\[(?:\d{1,3}:)?\d\d:\d\d\](?=[^\w\n]{0,6}(?:\[[=#>.-]|\xe2[\x94-\x97]))" + _MARKS + rb"{1,400}"
)
"""A clock and a bar, as indicatif draws them before how far it has come."""

_SAID = rb"(?:^|(?<=[\]:|-] )(?<!Error: )(?<!tion: )(?<![Tt]est: )(?<![Ee]val: )(?<![Vv]al: )|(?<=INFO ))[^\w\n]{0,8}"
"""Where a sentence begins."""

_OF_MANY = rb"(?=[^\n]{0,200}?\d ?/ {0,6}\d)"
"""Soon told: most lines hold nothing of how much."""


_AT_STEP = (
    rb"(?:at|for|after|@) (?:[Gg]lobal )?(?:[Ss]tep|[Ii]ter(?:ation)?|[Bb]atch)[ :#]{1,3}" + STEP
    + rb"(?:" + OF + rb")?(?:[ ,(]{1,3}(?:at |of |@ ?)?[Ee]poch[ :#]{0,3}" + EPOCH + rb"(?:" + OF + rb")?\)?)?"
)  # fmt: skip
"""Whose a loss is, said in words."""

_LOSS_OF = (
    rb"(?:(?:(?:[Mm]ini-?)?[Bb]atch|[Tt]rain(?:ing)?|[Aa]vg|[Aa]verage|[Tt]otal) ){0,2}(?:[Ll]oss|[Cc]ost) "
)  # fmt: skip


_BOTH = (
    rb"[ ,|;-]{1,4}(?:[Vv]al|[Tt]est|[Dd]ev|[Ee]val)[a-z]{0,7}[ _]?[Ll]oss(?!=)"
    rb"(?![^\n]{0,200}?(?:/s|\d ?ms)(?![a-z]))"
)
"""An evaluation's loss right behind the training's, in a line that says nothing about speed."""


def _placed(before: bytes) -> Dialect:
    """A place in an epoch without a name: `Epoch: [3][120/391]`, `Epoch 3 120/391`."""
    epoch = NAMED_EPOCH.replace(b"[Ee]poch|", b"[Ee]pochs?|[Tt]rain(?:ing)?|TRAIN|") + rb"(?:" + OF + rb")?\]?"
    return dialect(
        "place in an epoch",
        Kind.SAMPLE,
        _HINTS,
        LOG_LINE + _OF_MANY + rb"(?=" + UNTIL + rb"{0,40}?" + epoch + before + rb" {0,9}" + STEP
        + rb" ?/ ?\d{1,12}(?![\d./:])" + UNTIL + rb"{0,60}?" + NAMED_LOSS + rb")"
        + perhaps(NAMED_RANK) + BEGINS_WITH_WORKER + RATED + _ONCE,
    )  # fmt: skip


_OF_BOTH = (
    rb"(?:[Ll]oss(?:es)?[^\w\n]{1,4}[Tt]rain(?:ing)?[ :=]{1,3}"
    rb"|[Tt]rain(?:ing)?/(?:[Vv]al(?:id(?:ation)?)?|[Tt]est)[ _][Ll]oss ?[:=] {0,4})" + LOSS + rb"(?![\w%.])"
)
_BOTH_HINTS = (
    b"oss: T", b"oss: t", b"oss - T", b"oss - t", b"oss | T", b"oss | t", b"oss] T", b"oss] t", b"oss (T", b"oss (t",
    b"/Val Loss", b"/val loss", b"/val_loss", b"/Valid Loss", b"/Test Loss", b"/test loss", b"/Validation Loss",
)  # fmt: skip
"""`Loss: Train 0.45 | Val 0.40`, `Train/Val Loss: 0.45/0.40`; without that word they may be accuracies."""

_PART = (
    rb"(?:(?:(?!" + EVALUATION + rb")[A-Za-z]{1,16}[_ ]){1,2}[Ll]oss"
    rb"|[Ll]oss_(?!weight|scal|coef|ratio|fn|type|lambda)[A-Za-z]{1,12}) ?[:=]? {0,4}-?\d{1,9}\.\d{1,9}"
    rb"(?:[eE][-+]\d{1,3})?(?![\w.])"
)
_PAIR = rb"[A-Za-z]{1,16}/[A-Za-z]{1,16} (?:[Ll]oss|[Cc]ost): {1,8}-?\d{1,9}\.\d{1,9}/-?\d"
"""One of several losses that a line tells; two of them behind both their names."""

_TOOK = rb"(?:[^\w\n]{1,8}[Tt]ime:? {0,4}(?:\d{1,6}(?::\d\d|\.\d{1,4})?[hms]? ?){1,3})?"
"""How long an epoch took: `| Time: 0m 26s`."""

_EPOCH_ALONE = (
    rb"^(?=[^\n]{0,160}?(?:[Ee]poch|EPOCH):? {1,4}\[?\d[^\n]{0,60}$)"
    rb"(?:" + PLAIN + rb"{0,100}(?:[\]|-]|INFO) {1,4})?[^\w\n]{0,40}(?:Info: |[Tt]raining |[Ss]tarting )?"
    rb"(?:[Ee]poch|EPOCH):? {1,4}\[?" + EPOCH
    + rb"(?:(?: ?/ ?| of )\d{1,9})?(?i: summary| results?| metrics)?" + _TOOK + rb"[^\w\n]{0,40}$"
)  # fmt: skip

HOMEMADE: tuple[Dialect, ...] = (
    dialect(
        "epoch alone",
        Kind.EPOCH,
        [b"Epoch ", b"poch: ", b"EPOCH ", b"# epoch ", b"ing epoch "],
        _EPOCH_ALONE,
        moment="begin",
    ),
    dialect("epoch alone", Kind.EPOCH, [b"epoch "], _EPOCH_ALONE, moment="begin", hints_end=True),
    # A loss before the bar.
    dialect(
        "progress bar",
        Kind.SAMPLE,
        [b"oss:", b"oss=", b"oss "],
        LOG_LINE + rb"(?=[^\n]{0,400}?\d(?:/\?|it)? \[\d)"
        rb"(?=(?:[^\n]{0,80}?" + NAMED_EPOCH + rb")?)" + UNTIL + rb"{0,50}?" + NAMED_LOSS
        + rb"[^\n]{0,120}?(?:" + _BAR + rb"|: )" + STEP + rb"(?:/(?:\d{1,12}|\?)|it) \[" + BAR_RATE + rb"\d",
    ),
    dialect(
        "JSON",
        Kind.SAMPLE,
        [b"oss': ", b'oss":', b'/train": ', b'/out": ', b'/total": '],
        rb"^(?![^\n]{0,800}?" + _EVALUATED + rb")[^\n]{0,400}?\{"
        rb"(?=[^{}\n]{0,800}?['\"](?:train(?:er)?/)?(?:_|global_)?"
        rb"(?:[Ss]tep|iter|iteration|batch|batch_idx|update|num_updates)['\"]: ?"
        rb"['\"]?" + STEP + rb"['\"]?[,}])(?=(?:[^{}\n]{0,800}?['\"]epoch['\"]: ?['\"]?(?P<epoch>\d{1,9})[.,'\"}])?)"
        rb"(?=(?:[^{}\n]{0,800}?['\"](?P<unit>(?:[a-z]{1,12}/|train_)?(?:throughput|[tw]ps|[a-z]{1,12}(?:/s(?:ec)?"
        rb"|_per_s(?:ec(?:ond)?)?)))['\"]: ?['\"]?" + RATE + rb"['\"]?[,}])?)"
        rb"[^{}\n]{0,800}?['\"](?:train(?:ing)?[/_])?(?:total_|lm_)?[Ll]oss(?:/train|/out|/total){0,2}['\"]: ?['\"]?"
        rb"(?:[Aa]rray\()?"
        + LOSS + rb"\)?['\"]?(?=[,}])",
    ),
    dialect(
        "JSON",
        Kind.SAMPLE,
        [b"rain_loss\": ", b"rain_loss': ", b"rain Loss\": ", b"rain Loss': ", b"och Loss\": ", b"och Loss': "],
        # Hugging Face's last line sums up the whole run.
        rb"\{(?![^{}\n]{0,800}?['\"](?:\w{0,12}(?:step|iter|iteration)s?['\"]: ?\d|train_runtime|epoch': \d{1,9}\.))"
        rb"(?=[^{}\n]{0,800}?['\"][Ee]poch['\"]: ?(?P<epoch>\d{1,9})[.,}])[^{}\n]{0,800}?['\"](?:(?:[Tt]rain[_ ]"
        rb"|[Aa]vg[_ ]){1,2}(?:[Ee]poch[_ ])?|[Ee]poch )[Ll]oss['\"]: ?['\"]?" + LOSS + rb"['\"]?(?=[,}])",
        is_summary=True,
    ),
    _placed(rb"[ \t:,|-]{0,6}[\[(]"),
    dialect(
        "place in an epoch",
        Kind.SAMPLE,
        _HINTS,
        LOG_LINE + rb"(?=[^\w\n]{0,8}\[ {0,6}" + EPOCH + _OUT_OF + rb"(?:\][ \t,|-]{0,4}\[|, ) {0,6}" + STEP
        + _OUT_OF + rb"[^\w\n]" + UNTIL + rb"{0,60}?" + NAMED_LOSS + rb")" + RATED + _ONCE,
    ),
    # Two numbers at a line's beginning, right before the loss.
    dialect(
        "place in an epoch",
        Kind.SAMPLE,
        _HINTS,
        LOG_LINE + rb"(?=\s{0,8}(?P<v>\[ {0,6})?" + EPOCH + rb"(?(v) {0,2}[,|]) {1,6}" + STEP
        + rb"(?(v)\]:?(?: {1,3}(?:[Tt]rain(?:ing)?|TRAIN(?:ING)?):?)?) {1,3}" + NAMED_LOSS + rb")" + RATED + _ONCE,
    ),
    dialect(
        "words",
        Kind.SAMPLE,
        _HINTS,
        LOG_LINE + somewhere(NAMED_STEP) + rb"(?=" + UNTIL + rb"{0,80}?" + NAMED_LOSS
        # What is cut off, and what may be an evaluation that tells both losses.
        + rb"(?!, rate|" + _BOTH + rb"))"
        + perhaps(NAMED_EPOCH) + perhaps(NAMED_RANK) + BEGINS_WITH_WORKER + RATED + _ONCE,
    ),
    dialect(
        "words",
        Kind.SAMPLE,
        [b"oss:", b"oss ", b"oss="],
        LOG_LINE + somewhere(NAMED_STEP) + rb"(?=" + UNTIL + rb"{0,80}?" + NAMED_LOSS + rb"(?=" + _BOTH + rb"))"
        + perhaps(NAMED_EPOCH) + perhaps(NAMED_RANK) + BEGINS_WITH_WORKER + RATED + _ONCE,
        is_doubtful=True,
    ),
    dialect(
        "words",
        Kind.SAMPLE,
        _MADE_OF,
        LOG_LINE + rb"(?![^\n]{0,800}?[Ll]oss[^\n]{0,800}?[Ll]oss)" + somewhere(NAMED_STEP) + rb"(?=" + UNTIL
        + rb"{0,80}?" + ONLY_LOSS + rb")" + perhaps(NAMED_EPOCH) + perhaps(NAMED_RANK) + BEGINS_WITH_WORKER + RATED
        + _ONCE,
    ),
    dialect(
        "words",
        Kind.SAMPLE,
        _HINTS,
        LOG_LINE + WHOSE_STEP + UNTIL + rb"{0,40}?" + NAMED_LOSS + rb")" + perhaps(NAMED_EPOCH) + perhaps(NAMED_RANK)
        + BEGINS_WITH_WORKER + RATED + _ONCE,
    ),
    # No loss, but how fast it goes.
    dialect(
        "words",
        Kind.SAMPLE,
        [b"lobalRate", b"lobal Rate", b"lobal_rate"],
        LOG_LINE + somewhere(NAMED_STEP) + TRACKED + perhaps(NAMED_EPOCH) + perhaps(NAMED_RANK) + BEGINS_WITH_WORKER
        + _ONCE,
    ),
    _placed(rb"[ \t:,|>-]{1,8}\(?"),
    # How far of how much, at the line's beginning or with the share beside it; nothing names it.
    dialect(
        "places",
        Kind.SAMPLE,
        _HINTS,
        LOG_LINE + rb"(?=(?:" + _DRAWN + rb"|" + _TAGS + rb"|" + _STEPS_OF
        + rb"|(?P<v>[^\n]{1,160}?[\]|>):-])??" + _MARKS + rb"{0,12})"
        + STEP
        + rb" ?/ ?\d{1,12}(?![\w./:-]| \d\d?:\d\d| \* [Ee]poch)(?(v)(?:[^\w\n]{0,6}\d{1,3}(?:\.\d{1,4})?%"
        rb"| ?(?:steps|its|iters|iterations|batches|updates)(?![A-Za-z])))"
        rb")(?=" + UNTIL + rb"{0,60}?" + NAMED_LOSS + rb")"
        + perhaps(NAMED_EPOCH) + perhaps(NAMED_RANK) + BEGINS_WITH_WORKER + RATED + _ONCE,
    ),
    dialect(
        "words",
        Kind.SAMPLE,
        _BOTH_HINTS,
        LOG_LINE + somewhere(NAMED_STEP) + rb"(?=" + UNTIL + rb"{0,60}?" + _OF_BOTH + rb")" + perhaps(NAMED_EPOCH)
        + RATED + _ONCE,
        is_doubtful=True,
    ),
    # A loss that says itself whose it is.
    dialect(
        "loss at a step",
        Kind.SAMPLE,
        [
            b"oss at ", b"oss for ", b"oss @ ", b"oss after ", b"ost after ", b" at step ", b" @ step ",
            b" at iteration ", b" at batch ",
        ],
        _SAID + _LOSS_OF + rb"(?:\([^()\n]{1,30}\) )?" + _AT_STEP + rb" ?(?:[:=]| is) {0,4}" + LOSS + ENDS,
    ),
    dialect(
        "loss at a step",
        Kind.SAMPLE,
        [b"oss ("],
        _SAID + _LOSS_OF + rb"\((?:[Ee]poch[ :=]{1,2}" + EPOCH + rb"(?:" + OF + rb")?[,;] ?)?"
        rb"(?:[Ss]tep|[Ii]ter(?:ation)?|[Bb]atch)[ :=]{1,2}" + STEP + rb"(?:" + OF + rb")?\) ?[:=] {0,4}" + LOSS
        + ENDS,
    ),
    dialect(
        "loss at a step",
        Kind.SAMPLE,
        [b" at step ", b" @ step ", b" at iteration ", b" at batch "],
        _SAID + rb"(?:(?:[Tt]rain(?:ing)?|[Tt]otal) )?[Ll]oss(?: ?[:=])? {1,4}"
        + LOSS + rb" " + _AT_STEP + rb"(?=[,;|(]|\s*$)",
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
    dialect(
        "epochs",
        Kind.SAMPLE,
        [b"oss after epoch", b"oss at epoch", b"oss for epoch", b"oss in epoch", b"oss at Epoch", b"oss for Epoch"],
        _SAID + _LOSS_OF + rb"(?:after|at|for|in) [Ee]poch[ :#]{1,3}" + EPOCH + rb"(?:" + OF + rb")?"
        rb" ?(?:[:=]| is) {0,4}" + LOSS + ENDS,
        is_summary=True,
    ),
    # Of two losses told behind one name the first is training's.
    dialect(
        "epochs",
        Kind.SAMPLE,
        _BOTH_HINTS,
        LOG_LINE + nowhere(NAMED_STEP.replace(b"?P<step>", b"?:")) + rb"(?="
        + UNTIL + rb"{0,40}?" + NAMED_EPOCH + UNTIL + rb"{0,60}?" + _OF_BOTH + rb")" + RATED + _ONCE,
        is_summary=True,
    ),
    # A step and parts of its loss: their sum is told nowhere, and which of them is the whole only its job knows.
    dialect(
        "parts",
        Kind.SAMPLE,
        (*_HINTS, b" loss_", b" Loss_", b"Dis Cost", b"Gen Cost"),
        LOG_LINE + somewhere(NAMED_STEP) + rb"(?=" + UNTIL + rb"{0,60}?(?:" + _PART + UNTIL + rb"{0,16}?" + _PART
        + rb"|" + _PAIR + rb"))" + perhaps(NAMED_EPOCH) + perhaps(NAMED_RANK) + BEGINS_WITH_WORKER + RATED + _ONCE,
        is_doubtful=True,
    ),
    # Epochs of training, told as such: `Train 3, loss: 0.51`.
    dialect(
        "epochs",
        Kind.SAMPLE,
        _HINTS,
        LOG_LINE + rb"(?=\s{0,8}(?:[Tt]rain(?:ing)?|TRAIN) {1,2}" + EPOCH + rb"[,:;|] " + UNTIL + rb"{0,60}?"
        + NAMED_LOSS + rb")" + RATED + _ONCE,
        is_summary=True,
    ),
    # A number before it that nothing names.
    dialect(
        "epochs",
        Kind.SAMPLE,
        _HINTS,
        rb"^\s{0,8}" + EPOCH + rb"[:.)|]?\s{1,8}(?:[Aa]v(?:era)?ge? )?[Tt]rain(?:ing)?[ _][Ll]oss ?[:=] {0,8}" + LOSS
        + ENDS,
        is_summary=True,
    ),
    # Beneath a line that names the epoch.
    dialect(
        "epochs",
        Kind.SAMPLE,
        _HINTS,
        rb"^" + _MARKS + rb"{0,16}" + LOGGED + rb"(?:(?:[Tt]rain(?:ing)?|TRAIN)"
        rb"(?: metrics| results| set)?:?[ _]{1,6}(?:[-:|] {0,4})?(?:[Aa]vg |[Aa]verage )?"
        rb"|(?:(?:[Aa]vg|[Mm]ean|[Tt]otal)[ _]){1,2})"
        rb"[Ll]oss(?: ?[:=]| is|(?= )) {1,8}" + LOSS + ENDS,
        is_bar=True,
        is_summary=True,
    ),
    dialect(
        "epochs",
        Kind.SAMPLE,
        [b"oss: "],
        rb"^" + _MARKS + rb"{0,16}" + LOGGED + rb"[Ll]oss: {1,8}(?=\d{1,9}\.\d|[nN]a[nN])" + LOSS + ENDS,
        is_bar=True,
        is_summary=True,
        is_first=True,
    ),
    dialect(
        "epochs",
        Kind.SAMPLE,
        [b"val_loss"],
        LOG_LINE + rb"(?=" + UNTIL + rb"{0,40}?" + NAMED_LOSS + rb"[^\w\n]{1,8}[^\n]{0,200}?val_loss ?[:=] {0,4}\d)"
        + nowhere(NAMED_STEP.replace(b"?P<step>", b"?:")) + nowhere(NAMED_EPOCH.replace(b"?P<epoch>", b"?:")) + _ONCE,
        is_bar=True,
        is_summary=True,
    ),
)  # fmt: skip
"""Those that tell a step before those that tell an epoch alone."""
