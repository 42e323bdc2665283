"""Tests of the public excerpts of the unseen sets: all are read correctly except for those listed here."""

from __future__ import annotations

from tests.logs.unseen.measure import HELD_OUT, SETS, load_excerpts, measure

MISSED = {
    "07-xlm-nameless-step",
    "12-monocon-progress",
    "15-yolact",
    "36-graph-u-nets-bars",
    "82-relation-evaluation-same-dress",
    "av-speech-enhancement-bracket-table",
    "biapy-train-and-val-alike",
    "chatglm-efficient-tuning-ppo-dict-behind-bar",
    "cosface-train-epoch-bracket-glued-iteration",
    "cptfm-train-val-without-the-word-loss",
    "fairseq-lua-updates-words-per-second-checkpoint",
    "grpo-sentences",
    "hf-trainer-with-bar",
    "min-max-gpt-deepspeed-logger",
    "multiposenet-block-of-heatmap-losses-fps",
    "neural-enhance-generator-total",
    "open-llama-log-history-over-lines",
    "peptide-phases",
    "pgnet-table",
    "recbox-epoch-after-loss",
    "svoice-solver-train-valid-best",
    "tgan-json-slash-names",
    "tinygrad-llama-numbered",
    "tinygrad-llama-value-before-name",
    "xgboost-bracket-round-eval-before-train",
}
"""Excerpts that are not read correctly yet; one that is read correctly must leave this list."""


def test_every_public_excerpt_is_read_correctly_except_for_the_known_ones() -> None:
    excerpts = (excerpt for name in SETS if name not in HELD_OUT for excerpt in load_excerpts(name))
    results = [measure(excerpt, with_details=False) for excerpt in excerpts]
    assert {result.name for result in results if result.rows} == MISSED
