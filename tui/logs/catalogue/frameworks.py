"""The lines of trainers other than PyTorch/XLA's own, as dialects. Sources: each one's public code and logs."""

from __future__ import annotations

from tui.logs.catalogue.generic import BARS, HOMEMADE
from tui.logs.catalogue.generic_non_english import LANGUAGES
from tui.logs.catalogue.jax import BENEATH, JAX
from tui.logs.catalogue.language_models import LANGUAGE
from tui.logs.catalogue.rl_and_benchmarks import OTHERS
from tui.logs.catalogue.vision_and_speech import VISION_AND_SPEECH
from tui.logs.dialects.dialect import ENDS, GROUPED, NUMBER, STEP, Dialect, Kind, dialect
from tui.logs.dialects.multiline import HEADERS
from tui.logs.dialects.rates import BAR_RATE, PACE
from tui.logs.state.rate_kinds import RateKind

_LOSS = rb"(?P<loss>" + NUMBER + rb")"

_PAIR = rb" {1,4}(?!(?:main_model_)?loss:)[\w/.()%-]{1,60}: {1,4}[^\s,]{1,30},"
"""A name and a number of MaxText's line, with its comma."""

_TQDM = rb"(?:\|[^|\n]{0,300}\|)? ?(?P<step>\d{1,12})/(?:\d{1,12}|\?) \[" + BAR_RATE
"""tqdm from its bar (which Colab leaves out) to its clock."""

_LOSS_NAME = rb"(?:(?:reduced_)?train[_/]|step_|batch_)?loss(?:_step)?"
"""A training loss as progress bars name it; `val_loss` and `train_loss_epoch` are others."""

_LIGHTNING = rb"(?<![\w/])Epoch (?P<epoch>\d{1,9})"

MAXTEXT = (
    dialect(
        "MaxText",
        Kind.SAMPLE,
        [b"completed step: "],
        rb"completed step: (?P<step>\d{1,12}),(?:(?! {1,4}Tokens/s/device:)" + _PAIR + rb"){1,8}"
        rb"(?: {1,4}Tokens/s/device: {1,4}(?P<rate>" + NUMBER + rb"),)?(?:" + _PAIR + rb"){0,8}"
        rb" {1,4}(?:main_model_)?loss: {1,4}" + _LOSS + ENDS,
        rate=RateKind.TOKENS_A_DEVICE,
    ),
    dialect(
        "MaxText",
        Kind.SAMPLE,
        [b"training loss: "],
        rb"Train step (?P<step>\d{1,12}) training loss: " + _LOSS + ENDS,
    ),
)

HUGGING_FACE = (
    dialect(
        "Hugging Face Trainer",
        Kind.SAMPLE,
        [b"{'loss'", b'{"loss"'],
        rb"\{(?P<q>['\"])loss(?P=q): (?P<v>['\"]?)" + _LOSS + rb"(?P=v)(?=, [^{}]{0,2000}?"
        rb"(?P=q)epoch(?P=q): (?P=v)(?P<epoch>\d{1,9})(?:\.\d{1,20})?(?:[eE][-+]\d{1,3})?(?P=v)[,}])"
        rb"(?=(?:[^{}]{0,2000}?(?P=q)(?:step|global_step|global_step/max_steps)(?P=q): ['\"]?(?P<step>\d{1,12})"
        rb"(?:/\d{1,12})?['\"]?[,}])?)(?=(?:[^{}]{0,2000}?(?P=q)throughput(?P=q): ['\"]?(?P<rate>" + NUMBER + rb")"
        rb"['\"]?[,}])?)[^{}]{0,2600}\}",
        rate=RateKind.TOKENS_OF_ALL,
    ),
)

PROGRESS_BARS = (
    dialect(
        "Lightning",
        Kind.SAMPLE,
        [b"Epoch "],
        _LIGHTNING + rb":(?: :)? {0,4}\d{0,3}%?" + _TQDM + rb"[^\]\n]{0,300}?[ ,]" + _LOSS_NAME + rb"=" + _LOSS
        + ENDS,
        last_only=True,
    ),
    # Since its second version the bar tells no loss unless it is asked to; a validation's figures come at its end.
    dialect(
        "Lightning",
        Kind.SAMPLE,
        [b"Epoch "],
        rb"(?<![A-Za-z] )" + _LIGHTNING + rb":(?: :)? {0,4}\d{0,3}%\|[^|\n]{0,300}\| ?" + STEP + rb"/(?:\d{1,12}|\?) "
        rb"\[" + BAR_RATE + rb"[^\]\n,]{1,60}, {1,4}[^\]\n,]{1,20}(?:it/s|s/it)(?:, v_num=\w{0,40})?\]",
        last_only=True,
    ),
    dialect(
        "Lightning",
        Kind.SAMPLE,
        [b"\xe2\x80\xa2"],
        _LIGHTNING + rb"/-?\d{1,9} {1,4}(?:\xe2[\x94\x95][\x80-\xbf]| ){1,200}(?P<step>\d{1,12})/\d{1,12} "
        rb"(?=(?:[^\n]{0,60}? (?P<its>\d{1,9}(?:\.\d{1,9})?)it/s )?)[^\n]{0,200}?(?<![\w/])" + _LOSS_NAME + rb": "
        + _LOSS + ENDS,
        last_only=True,
    ),
    dialect(
        "Keras epoch",
        Kind.EPOCH,
        [b"Epoch "],
        rb"(?:^|(?<=[\d\]:>) \t\x08]))Epoch (?P<epoch>\d{1,9})/\d{1,9}\s*$",
        moment="begin",
    ),
    dialect(
        "Keras",
        Kind.SAMPLE,
        [b" - loss: "],
        rb"(?:(?<=#\d{3})|(?<![\d/#]))(?<!poch )(?P<step>\d{1,12})/(?P<total>\d{1,12}|Unknown) "
        rb"(?:\[[=>.\s]{1,200}\]|[^\s\d]{1,400}) -? ?(?=(?:[^\n]{0,40}?" + PACE + rb")?)[^\n]{0,400}? ?- loss: "
        + _LOSS + ENDS,
        last_only=True,
        is_bar=True,
    ),
    dialect(
        "Keras",
        Kind.SAMPLE,
        [b" - loss: "],
        rb"^ ?- \d{1,9}s(?=(?: " + PACE + rb")?)(?: \d{1,9}[mu]?s/(?:step|epoch|sample))? - "
        rb"(?:[^\n]{0,400}? - )??loss: " + _LOSS + ENDS,
        is_bar=True,
    ),
    dialect(
        "TensorFlow.js",
        Kind.SAMPLE,
        [b"us/step - "],
        rb"^\d{1,12}ms \d{1,9}us/step - (?:\w{1,40}=\S{1,20} ){0,8}?loss=" + _LOSS + rb"(?=\s|$)",
        is_bar=True,
    ),
    dialect(
        "levanter",
        Kind.SAMPLE,
        [b"Progress on:train"],
        rb"Progress on:train:? {0,2}(?P<step>\d{1,9}(?:\.\d{1,4})?[kMG]?)(?:it)?/\S{1,20} "
        rb"rate:(?:(?P<its>\d{1,9}(?:\.\d{1,9})?[kM]?)it/s|(?P<pace>\d{1,9}(?:\.\d{1,9})?)s/it|\S{1,30})"
        rb"(?: remaining:\S{1,30})?(?: elapsed:\S{1,30})?(?: postfix:| )(?:[\w./]{1,40}=[^,\s]{1,30}, ){0,8}"
        + _LOSS_NAME + rb"=" + _LOSS + ENDS,
        last_only=True,
    ),
)  # fmt: skip

ACCELERATE = (
    dialect(
        "accelerate",
        Kind.SAMPLE,
        [b"it/s, ", b"s/it, "],
        rb"(?:^ {0,8}|(?:Steps|Training|[Tt]rain|Epoch \[?(?P<epoch>\d{1,9})/\d{1,9}\]?)(?![\w/])[^|\n/\[]{0,40}?)"
        rb"\d{1,3}%" + _TQDM + rb"[^\]\n]{0,60}?(?:it/s|s/it), "
        rb"(?:[\w./-]{1,40}=[^,\]\s]{1,30}, ){0,8}" + _LOSS_NAME + rb"=" + _LOSS + rb"(?=[,\]])",
        last_only=True,
    ),
)  # fmt: skip
"""Bars that stand behind other text."""

LANGUAGE_MODELS = (
    dialect(
        "torchtitan",
        Kind.SAMPLE,
        [b"step:"],
        rb"(?<![\w{])(?<!validate )step: {0,12}(?P<step>\d{1,12}) {1,4}loss: {0,12}" + _LOSS + ENDS
        + rb"(?:[^\n]{0,160}? [tw]ps: {0,12}(?P<rate>" + GROUPED + rb")" + ENDS + rb")?",
        ignored_loss=-1.0,
        rate=RateKind.TOKENS_A_DEVICE,
    ),
    dialect(
        "Megatron",
        Kind.SAMPLE,
        [b" iteration ", b"iteration "],
        rb"(?:(?<=epoch )(?P<epoch>\d{1,9}), |(?<!\w))iteration {1,12}"
        rb"(?P<step>\d{1,12})/ {0,12}\d{1,12} \|[^\n]{0,600}?"
        rb"(?<=\| )(?:lm loss|reduced_train_loss|loss): " + _LOSS + rb"(?= ?\|)",
    ),
    # What a stage of a pipeline tells that has no loss.
    dialect(
        "Megatron",
        Kind.SAMPLE,
        [b"| samples per second: "],
        rb"^ ?iteration {1,12}" + STEP + rb"/ {0,12}\d{1,12} \|(?:(?! (?:lm )?loss: )[^\n]){0,600}?"
        rb"\| samples per second: (?P<rate>" + NUMBER + rb") \|",
        rate=RateKind.EXAMPLES_OF_ALL,
    ),
    dialect(
        "fairseq",
        Kind.SAMPLE,
        [b" loss="],
        rb"\| {0,2}epoch (?P<epoch>\d{1,9})(?: \| training on xla:(?P<device>\d{1,4})/(?P<core>\d{1,6}))?: {1,12}"
        rb"(?P<step>\d{1,12}) / \d{1,12} loss=" + _LOSS + rb", (?:[^\n]{0,120}?wps=(?P<rate>" + NUMBER + rb"), )?"
        rb"[^\n]{0,300}?num_updates=\d",
        rate=RateKind.TOKENS_OF_ALL,
    ),
    dialect(
        "fairseq",
        Kind.SAMPLE,
        [b'"num_updates": '],
        rb"\{\"epoch\": (?P<epoch>\d{1,9}), [^{}]{0,200}?\"loss\": \"" + _LOSS + rb"\", [^{}]{0,600}?"
        rb"\"num_updates\": \"(?P<step>\d{1,12})\"",
    ),
)  # fmt: skip

VISION = (
    dialect(
        "TF object detection",
        Kind.SAMPLE,
        [b" per-step time "],
        rb"(?<!\w)Step " + STEP + rb" per-step time [\d.]{1,12}s loss=" + _LOSS + ENDS,
    ),
    dialect(
        "timm",
        Kind.SAMPLE,
        [b"Train: "],
        rb"(?<!\w)Train: (?P<epoch>\d{1,9}) \[ {0,9}(?P<step>\d{1,12})/\d{1,12} [^\n\]]{0,20}\] {1,4}Loss: {1,4}"
        + _LOSS + rb" [^\n]{0,60}? Time: [^\n]{0,40}? {1,9}(?P<rate>" + NUMBER + rb")/s",
        rate=RateKind.EXAMPLES_OF_ALL,
    ),
    dialect(
        "TPUEstimator",
        Kind.SAMPLE,
        [b"loss = "],
        rb"(?<![\w.] )(?<![\w._-])loss = " + _LOSS + rb", step = (?P<step>\d{1,12})(?!\d)",
    ),
)  # fmt: skip

TRAINERS: tuple[Dialect, ...] = (
    MAXTEXT + HUGGING_FACE + PROGRESS_BARS + LANGUAGE_MODELS + VISION
    + JAX + BENEATH + LANGUAGE + VISION_AND_SPEECH + OTHERS + BARS + ACCELERATE + HOMEMADE + LANGUAGES + HEADERS
)  # fmt: skip
"""Those whose lines say most clearly what they are come first."""
