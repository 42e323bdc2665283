"""The lines of trainers of language models, as dialects. Sources: each one's public code and logs."""

from __future__ import annotations

from typing import Any

from tui.logs.dialects.dialect import ENDS, EPOCH, LOSS, NUMBER, OF, RATE, STEP, Dialect, Kind, dialect
from tui.logs.dialects.rates import BAR_RATE
from tui.logs.state.rate_kinds import RateKind

_SHORT = rb"\d{1,6}(?:\.\d{1,6})?[KMGBT]?"
"""A number as people read it: `22.8K`."""


_LONG = 8192
"""Bytes of a line that tells everything there is: some hundred figures."""


def _sample(name: str, hint: bytes, pattern: bytes, **more: Any) -> Dialect:
    return dialect(name, Kind.SAMPLE, [hint], pattern, **more)


NANO = (
    _sample("nanoGPT", b": loss ", rb"(?<![\w{])iter " + STEP + rb": loss " + LOSS + rb", time \d"),
    _sample(
        "nanochat",
        b"| loss: ",
        rb"(?<!\w)step " + STEP + rb"(?:" + OF + rb")? \(\d{1,3}(?:\.\d{1,4})?%\) {1,2}\| loss: " + LOSS + rb" \|"
        rb"(?:[^\n]{0,160}? tok/s(?:ec)?: " + RATE + ENDS + rb")?",
        rate=RateKind.TOKENS_OF_ALL,
    ),
    _sample(
        "nanochat", b"| Training loss: ", rb"(?<!\w)Step " + STEP + OF + rb" \| Training loss: " + LOSS + rb" ?\|"
    ),
    _sample(
        "llm.c",
        b" tok/s",
        rb"(?<!\w)step {1,8}" + STEP + OF + rb" \| (?:train )?loss {1,8}" + LOSS + rb" [^\n]{0,160}? "
        + RATE + rb" tok/s",
        rate=RateKind.TOKENS_OF_ALL,
    ),
    # Evaluation tells `val_loss:` in the loss's place; some versions tell no training loss at all.
    _sample(
        "modded-nanogpt",
        b" train_time:",
        rb"(?<![\w{])step:" + STEP + OF + rb"(?: train_loss:" + LOSS + rb")? train_time:\d",
    ),
    _sample("XLNet", b"] | gnorm ", rb"\] \[" + STEP + rb"\] \| gnorm [^\n]{0,80}? \| loss {1,4}" + LOSS + rb" \|"),
    _sample("GPT-2", b"] loss=", rb"^\[" + STEP + rb" \| [\d.]{1,12}\] loss=" + LOSS + rb" avg="),
    _sample("modded-nanogpt", b" | loss ", rb"^" + STEP + rb" \| loss " + LOSS + rb" \| lr " + NUMBER + rb" \|"),
)  # fmt: skip

LIGHTNING_AND_TORCH = (
    _sample(
        "litgpt",
        b" iter time: ",
        rb"(?<!\w)(?:Ep(?:och)? " + EPOCH + rb" \| )?iter \d{1,12} (?:\| )?st[eE]p " + STEP + rb"(?::| \|)"
        rb"(?: loss(?: train)?(?: \(curr\))?:? " + LOSS + rb",?(?: val[^|\n]{0,40}\|)?)? iter time: \d",
    ),
    _sample(
        "torchtune",
        b" | loss:",
        rb"(?<!\w)Step " + STEP + rb" \| loss:" + LOSS + rb" (?:[^\n]{0,300}?tokens_per_second_per_gpu:" + RATE
        + ENDS + rb")?",
        rate=RateKind.TOKENS_A_DEVICE,
    ),
    _sample(
        "torchtune", b"|Loss: ", rb"(?<![\w|])" + EPOCH + rb"\|" + STEP + rb"\|Loss: " + LOSS + rb"(?=: |$)",
        last_only=True,
    ),
    _sample(
        "lingua",
        b"  acc: ",
        rb"(?<![\w{])step: " + STEP + rb"  acc: \d{1,6}  loss: {1,4}" + LOSS + rb"  (?:[^\n]{0,160}? wps: " + RATE
        + ENDS + rb")?",
        rate=RateKind.TOKENS_A_DEVICE,
    ),
    _sample(
        "mlx",
        b": Train loss ",
        rb"(?<!\w)Iter " + STEP + rb": Train loss " + LOSS + rb", (?:Learning|It/)(?:[^\n]{0,1200}? Tokens/sec "
        + RATE
        + ENDS + rb")?",
        rate=RateKind.TOKENS_OF_ALL,
    ),
)  # fmt: skip

PARALLEL = (
    _sample(
        "GPT-NeoX",
        b"| iteration ",
        rb"samples/sec: " + RATE + rb" \| iteration {1,12}" + STEP + rb"/ {0,12}\d{1,12} \|[^\n]{0,600}? \| "
        rb"(?:lm_)?loss: " + LOSS + rb"(?= ?\|)",
        rate=RateKind.EXAMPLES_OF_ALL,
    ),
    _sample(
        "DeepSpeed",
        b" iter time (s): ",
        rb"(?<!\w)steps: " + STEP + rb" loss: " + LOSS + rb" iter time \(s\): " + NUMBER + rb" samples/sec: "
        + RATE + ENDS,
        rate=RateKind.EXAMPLES_OF_ALL,
    ),
    _sample(
        "nanotron",
        b"iteration: ",
        rb"(?<!\w)iteration: " + STEP + OF + rb" \|[^\n]{0,200}?(?: tokens_per_sec: (?P<rate>" + _SHORT + rb") \|"
        rb"[^\n]{0,200}?)? lm_loss: " + LOSS + rb"(?= \|)",
        rate=RateKind.TOKENS_OF_ALL,
    ),
    _sample(
        "NeMo Automodel",
        b" | epoch ",
        rb"^(?![^\n]{0,120}\[(?:val|test))[^\n]{0,160}?(?<!\w)step " + STEP + rb" \| epoch " + EPOCH + rb" \| loss "
        + LOSS + rb" \|(?:[^\n]{0,160}? tps " + RATE + rb"\()?",
        rate=RateKind.TOKENS_OF_ALL,
    ),
    _sample(
        "PithTrain",
        b"| cross-entropy-loss ",
        rb"(?<!\w)step " + STEP + OF + rb" \|[^\n]{0,80}? \| cross-entropy-loss " + LOSS
        + rb" \|(?:[^\n]{0,160}? tokens-per-second " + RATE + rb" )?",
        rate=RateKind.TOKENS_OF_ALL,
    ),
    _sample(
        "NVIDIA DLLogger",
        b" Training Iteration: ",
        rb"Training Epoch: " + EPOCH + rb" Training Iteration: " + STEP + rb" {1,3}step_loss : " + LOSS + ENDS,
    ),
)  # fmt: skip

DEEPSPEED = (
    # What it tells of itself, whatever the job prints of its loss.
    dialect(
        "DeepSpeed",
        Kind.SAMPLE,
        [b"] step="],
        rb"\[Rank \d{1,6}\] step=" + STEP + rb", skipped=\d{1,12}, lr=\[",
        is_doubtful=True,
    ),
    dialect(
        "DeepSpeed",
        Kind.SAMPLE,
        [b"/global_step="],
        rb"epoch=" + EPOCH + rb"/micro_step=\d{1,12}/global_step=" + STEP + rb", RunningAvgSamplesPerSec="
        rb"[\d.]{1,24}, CurrSamplesPerSec=" + RATE + rb",",
        is_doubtful=True,
        rate=RateKind.EXAMPLES_OF_ALL,
    ),
)  # fmt: skip
"""Steps without a loss."""

REINFORCED = (
    _sample(
        "verl",
        b" - actor/",
        rb"^step:" + STEP + rb" - (?=(?:[^\n]{0,6000}? perf/throughput:" + RATE + rb"(?![\d.]))?)"
        rb"(?=(?:[^\n]{0,6000}? training/epoch:" + EPOCH + rb"(?![\d]))?)[^\n]{0,6000}? actor/(?:pg_)?loss:" + LOSS
        + ENDS,
        reach=_LONG,
        rate=RateKind.TOKENS_A_DEVICE,
    ),
    _sample(
        "TRL",
        b"'loss/policy_avg': ",
        rb"\{'eps': [^{}\n]{0,2000}?'loss/policy_avg': " + LOSS + rb", [^{}\n]{0,2000}?'episode': " + STEP
        + rb", 'epoch': " + EPOCH + rb"(?:\.\d{1,20})?\}",
    ),
)  # fmt: skip
"""Policies: their loss is the actor's."""

JSON_LINES = (
    _sample(
        "LLaMA-Factory",
        b'"current_steps": ',
        rb'\{"current_steps": ' + STEP + rb', "total_steps": \d{1,12}, "loss": ' + LOSS
        + rb', [^{}\n]{0,400}?"epoch": ' + EPOCH + rb"(?:\.\d{1,20})?[,}]"
        + rb'(?:[^{}\n]{0,400}?"throughput": ' + RATE + rb"[,}])?",
        rate=RateKind.TOKENS_OF_ALL,
    ),
    _sample(
        "caikit",
        b'"name": "loss"',
        rb'\{"name": "loss", "data": \{"epoch": ' + EPOCH + rb'(?:\.\d{1,20})?, "step": ' + STEP + rb', "value": '
        + LOSS + rb"[,}]",
    ),
)  # fmt: skip

TRANSLATION = (
    _sample(
        "fairseq",
        b" loss=",
        rb"\| {0,2}epoch " + EPOCH + rb" {1,9}" + STEP + rb" / \d{1,12} loss=" + LOSS + rb" \([^)\n]{1,16}\), wps="
        + RATE + ENDS.replace(b"\\w.", b"\\w"),
        rate=RateKind.TOKENS_OF_ALL,
    ),
    _sample(
        "fairseq",
        b", loss=",
        rb"(?<!\w)epoch " + EPOCH + rb": {1,4}\d{1,3}%\|[^|\n]{0,300}\| ?" + STEP + rb"/\d{1,12} \[[^\]\n]{0,60}?"
        rb"(?:it/s|s/it), loss=" + LOSS + rb",(?:[^\]\n]{0,160}? wps=" + RATE + rb",)?",
        last_only=True,
        rate=RateKind.TOKENS_OF_ALL,
    ),
    _sample(
        "OpenNMT",
        b"; xent: ",
        rb"(?<!\w)Step {1,8}" + STEP + rb"/ {0,12}\d{1,12}; acc: [^\n]{0,60}?; xent: {1,8}" + LOSS
        + rb"; [^\n]{0,120}?/ {0,6}" + RATE + rb" tok/s",
        rate=RateKind.TOKENS_OF_ALL,
    ),
    _sample(
        "OpenNMT",
        b"; xent: ",
        rb"(?<!\w)Epoch {1,4}" + EPOCH + rb", {1,12}" + STEP + rb"/ {0,12}\d{1,12}; acc: [^\n]{0,60}?; xent: {1,8}"
        + LOSS + rb";(?:[^\n]{0,60}? " + RATE + rb" tgt tok/s)?",
        rate=RateKind.TOKENS_OF_ALL,
    ),
    _sample(
        "OpenNMT-tf",
        b"; Loss = ",
        rb"(?<!\w)Step = " + STEP + rb" ;(?:[^\n]{0,60}? tokens/s = " + RATE + rb" )?[^\n]{0,160}?; Loss = " + LOSS
        + ENDS,
        rate=RateKind.TOKENS_OF_ALL,
    ),
)  # fmt: skip

MORE_TRANSLATION = (
    # The same bar when it trains and when it validates.
    _sample(
        "AllenNLP",
        b" ||: ",
        rb"^(?:[\w.]{1,40}: [^,|\n]{1,20}, ){0,12}loss: " + LOSS + rb"(?:, [\w.]{1,40}: [^,"
        rb"|\n]{1,20}){0,12} \|\|: {1,4}"
        rb"\d{1,3}%\|[^|\n]{0,300}\| ?" + STEP + rb"/(?P<total>\d{1,12}) \[" + BAR_RATE,
        is_bar=True,
        last_only=True,
    ),
    _sample(
        "Marian",
        b" : Cost ",
        rb"(?<!\w)Ep\. " + EPOCH + rb" : Up\. " + STEP + rb" : Sen\. [\d,.KMB]{1,20} : Cost " + LOSS
        + rb"(?:[^\n]{0,120}? : " + RATE + rb" words/s)?",
        rate=RateKind.TOKENS_OF_ALL,
    ),
    _sample(
        "XLM",
        b" words/s - ",
        rb" - {1,12}" + STEP + rb" - {1,12}[\d.]{1,12} sent/s - {1,12}" + RATE
        + rb" words/s - [\w-]{1,40}: {1,4}" + LOSS
        + rb" ",
        rate=RateKind.TOKENS,
    ),
    _sample(
        "ParlAI",
        b" total_exs:",
        rb"\[ time:[\d.]{1,16}s total_exs:\d{1,16}(?: epochs:" + EPOCH + rb"(?:\.\d{1,4})?)?[^\]\n]{0,40}\] \{"
        rb"(?=[^}\n]{0,1200}?'(?:num_updates|total_train_updates)': " + STEP
        + rb"[,}])[^}\n]{0,1200}?'(?:mean_)?loss': "
        + LOSS + rb"[,}]",
    ),
)  # fmt: skip

LANGUAGE: tuple[Dialect, ...] = (
    NANO + LIGHTNING_AND_TORCH + PARALLEL + DEEPSPEED + REINFORCED + JSON_LINES + TRANSLATION + MORE_TRANSLATION
)
