from __future__ import annotations

import time

import pytest

from tests.logs.shapes import only, snapshot_of
from tui.errors import UsageError
from tui.logs.demux import Demux
from tui.logs.dialects.registry import BUILT_IN, try_dialects
from tui.logs.dialects.training_or_eval import TrainingStage
from tui.logs.dialects.user_dialects import TimedPattern, user_dialects
from tui.logs.state.demux_state import MOST_SOURCES

pytestmark = pytest.mark.py310


HOSTILE = (
    r"(?P<step>\d+)(?:a+)+ (?P<loss>\S+)!",
    r"(?:ab|a|b)*=(?P<step>\d+) (?P<loss>\S+)",
    r"(?:x*)*(?P<step>\d+) (?P<loss>\S+)",
    r".*.*.*.*(?P<step>\d+) (?P<loss>\S+)!",
    r"(?P<step>\d+)\d*\d*\d*\d*=(?P<loss>\S+)",
    r"(?:(?:[a-z]{1,99} ?){1,99})(?P<step>\d+) (?P<loss>\S+)!",
    r"(?P<step>\d+) (?P<loss>\S+)(?:(a+)\3)+b",
    r"(?=(a+)+$)(?P<step>\d+) (?P<loss>\S+)",
    r"(?!.*.*.*.*x)(?P<step>\d+) (?P<loss>\S+)!",
    r"(?:a?){30}a{30}(?P<step>\d+) (?P<loss>\S+)",
    r"(?:a{0,30}){0,30}b(?P<step>\d+) (?P<loss>\S+)",
    r"(?:a|b|ab){1,20}c(?P<step>\d+) (?P<loss>\S+)",
    r"(?:\w+\.)*\w+@(?P<step>\d+) (?P<loss>\S+)",
)
"""Patterns with endless or nearly endless backtracking."""


MAXTEXT = (
    "I0706 16:52:46.073802 140110937163584 metric_logger.py:214] completed step: 500, seconds: 15.688, "
    "TFLOP/s/device: 1.367, Tokens/s/device: 261.087, total_weights: 6121, loss: 0.624, lr: 0.1"
)
MAXTEXT_PEFT = (
    "I0706 16:52:46.058329 140110937163584 peft_trainer.py:474] Train step 500 training loss: 0.623577  "
    "- training perplexity: 1.865590"
)


class TestOtherTrainers:
    def test_a_step_that_maxtext_prints_twice_is_one_sample(self) -> None:
        row = only(MAXTEXT_PEFT, MAXTEXT)
        assert (row.core, row.step, row.loss, row.rate) == (None, 500, 0.624, 261.087)
        assert only(MAXTEXT, MAXTEXT_PEFT).rate == 261.087
        history = snapshot_of(MAXTEXT, MAXTEXT_PEFT).history
        assert history is not None
        assert len(history.losses(0)) == 1

    def test_maxtext_of_2023_has_no_tokens(self) -> None:
        row = only("completed step: 7, seconds: 2.5, TFLOP/s: 101.2, loss: 10.5")
        assert (row.step, row.loss, row.rate) == (7, 10.5, None)

    @pytest.mark.parametrize(
        "line",
        [
            "{'loss': '0.9528', 'grad_norm': '0.2897', 'learning_rate': '0.0001002', 'epoch': '1.015'}",
            "{'loss': 0.9528, 'grad_norm': 0.2897, 'learning_rate': 0.0001002, 'epoch': 1.02}",
        ],
    )
    def test_hugging_face_has_an_epoch_and_no_step(self, line: str) -> None:
        row = only(line)
        assert (row.epoch, row.step, row.loss) == (1, None, 0.9528)

    def test_hugging_face_takes_the_step_of_the_bar_below(self) -> None:
        row = only(
            " 33%|███▎      | 508/1524 [2:02:08<3:44:26, 13.27s/it]{'loss': 0.5, 'epoch': 1.0}",
            " " * 60,
            " 33%|███▎      | 510/1524 [2:02:21<3:44:26, 13.27s/it]",
        )
        assert (row.epoch, row.step, row.loss, row.rate) == (1, 510, 0.5, pytest.approx(1 / 13.27))

    def test_hugging_face_takes_no_step_of_another_bar_until_it_is_drawn_again(self) -> None:
        loss = "{'loss': 0.5, 'epoch': 1.0}"
        lines = [
            *(loss, " 33%|███▎      | 508/1524 [2:02:08<3:44:26, 13.27s/it]"),
            *(loss, " 50%|█████     | 5/10 [00:01<00:01,  5.00it/s]"),
            *(loss, " 60%|██████    | 6/10 [00:01<00:01,  5.00it/s]"),
        ]
        assert [only(*lines[:count]).step for count in (2, 4, 6)] == [508, None, 6]

    def test_hugging_face_losses_from_a_buffer_take_no_step_of_a_bar(self) -> None:
        bar = " 33%|███▎      | {}/1524 [2:02:08<3:44:26, 13.27s/it]"
        losses = [f"{{'loss': 0.{number}, 'epoch': 1.0}}" for number in range(1, 10)]
        snapshot = snapshot_of(
            bar.format(500), *losses, bar.format(600), "{'loss': 0.01, 'epoch': 1.0}", bar.format(601)
        )
        (row,) = snapshot.rows()
        assert (snapshot.samples, row.step, row.loss) == (10, None, 0.01)

    def test_a_loss_of_hugging_face_waits_for_a_bar_for_one_line_or_a_second(self) -> None:
        demux = Demux()
        demux.feed(0, b"{'loss': 0.5, 'epoch': 1.0}\n\n", now=1000.0)
        assert demux.snapshot(now=1000.5).samples == 0
        assert demux.snapshot(now=1001.5).samples == 1
        demux.feed(0, b"{'loss': 0.4, 'epoch': 1.0}\nSaving model checkpoint\n", now=1002.0)
        assert [(row.step, row.loss) for row in demux.snapshot(now=1002.0).rows()] == [(None, 0.4)]

    def test_a_bar_that_is_not_redrawn_for_a_second_shows_the_step_of_the_loss_above(self) -> None:
        demux = Demux()
        bar = b"\r  1%|1         | 10/1524 [03:20<8:24:40, 20.00s/it]"
        demux.feed(0, b"{'loss': 0.5, 'epoch': 1.0}\n" + bar, now=1000.0)
        assert [(row.step, row.rate) for row in demux.snapshot(now=1001.5).rows()] == [(10, 0.05)]
        demux.feed(0, b"\r", now=1020.0)
        assert demux.snapshot(now=1021.0).samples == 1

    def test_hugging_face_evaluation_is_no_sample(self) -> None:
        assert (
            snapshot_of(
                "{'eval_loss': 0.91, 'eval_runtime': 3.2, 'epoch': 1.0}", "{'train_loss': 0.9, 'epoch': 3.0}"
            ).samples
            == 0
        )

    def test_lightning_prints_the_old_loss_first(self) -> None:
        row = only(
            "Epoch 0:  22%|██▏       | 4/18 [00:17<01:02,  4.47s/it, loss=9.908, v_num=193315]",
            "Epoch 0:  22%|██▏       | 4/18 [00:17<01:02,  4.47s/it, loss=9.811, v_num=193315]",
        )
        assert (row.epoch, row.step, row.loss) == (0, 4, 9.811)

    def test_lightning_redraws_within_a_line(self) -> None:
        row = only(
            "\r".join(f"Epoch 2:  22%|██ | {n}/18 [00:17<01:02, 4s/it, loss={n}.5, v_num=1]" for n in (1, 2, 3))
        )
        assert (row.epoch, row.step, row.loss) == (2, 3, 3.5)

    def test_keras_takes_its_epoch_from_the_line_before(self) -> None:
        row = only(
            "Epoch 3/10",
            "36/37 [============================>.] - ETA: 0s - loss: 1.0800 - acc: 0.6400",
            "37/37 [==============================] - 5s 141ms/step - loss: 1.0796 - acc: 0.6456 - val_loss: 9.9",
        )
        assert (row.epoch, row.step, row.loss) == (3, 37, 1.0796)

    @pytest.mark.parametrize(
        "line",
        [
            "completed step: 3, seconds:  0.323, TFLOP/s/device: 8671.953,  loss: 13.424",
            "completed step: 3, seconds: 49.962, TFLOP/s/device: 56.062, main_model_loss: 13.424",
        ],
    )
    def test_maxtext_in_other_spacings(self, line: str) -> None:
        assert (only(line).step, only(line).loss) == (3, 13.424)

    def test_accelerate_scripts_print_their_loss_on_the_bar(self) -> None:
        row = only(
            "Steps:   2%|▏         | 11/500 [00:13<09:26,  1.16s/it, lr=1e-5, step_loss=0.0423]\r"
            "Steps:   2%|▏         | 12/500 [00:14<09:26,  1.16s/it, lr=1e-5, step_loss=0.25]"
        )
        assert (row.step, row.loss) == (12, 0.25)
        assert snapshot_of("Steps:   2%|▏   | 11/500 [00:13<09:26,  1.16s/it, val_loss=0.0423]").samples == 0

    def test_torchtitan_in_colours(self) -> None:
        row = only(
            "[titan] root - INFO - \x1b[31mstep:  2  \x1b[32mloss: 14.4458  \x1b[33mgrad_norm: 41.7880  "
            "\x1b[34mmemory:  8.44GiB(13.20%)  \x1b[36mtps: 6,697  tflops: 62.15  mfu: 20.84%\x1b[39m"
        )
        assert (row.step, row.loss, row.rate) == (2, 14.4458, 6697.0)

    def test_torchtitan_minus_one_means_no_loss_on_this_stage(self) -> None:
        row = only("step:  3  loss: -1.0000  grad_norm: 1.0  memory: 1GiB(1%)  tps: 700  tflops: 62.15")
        assert (row.step, row.loss, row.rate) == (3, None, 700.0)

    def test_levanter(self) -> None:
        row = only("Progress on:train 586it/2.06kit rate:5.5s/it remaining:2:16:02 elapsed:55:45 loss=2.45")
        assert (row.step, row.loss) == (586, 2.45)

    def test_megatron(self) -> None:
        row = only(
            " iteration     5800/  500000 | consumed samples:  1 | elapsed time per iteration (ms): 300.2 "
            "| learning rate: 1.0E-4 | lm loss: 2.496638E+00 | loss scale: 1.0 |"
        )
        assert (row.step, row.loss) == (5800, 2.496638)

    def test_a_run_without_core_numbers_has_a_row_for_each_worker(self) -> None:
        demux = Demux()
        for worker in (0, 1):
            demux.feed(worker, MAXTEXT.encode() + b"\n")
        assert [(row.core, row.worker) for row in demux.snapshot().rows()] == [(None, 0), (None, 1)]

    def test_the_end_of_a_very_long_line_is_searched(self) -> None:
        bar = "Epoch 2:  22%|██ | {}/18 [00:17<01:02, 4s/it, loss={}.5, v_num=1]"
        row = only("".join(bar.format(step, step) for step in range(2000)))
        assert (row.step, row.loss) == (1999, 1999.5)

    def test_matches_are_counted_by_dialect(self) -> None:
        assert snapshot_of(MAXTEXT, MAXTEXT_PEFT, "noise").dialects == {"MaxText": 1, "names and values": 1}


GOOD = r"(?P<step>\d+) (?P<loss>\S+)"


class TestUserDialects:
    def test_a_users_pattern_is_read(self) -> None:
        own = user_dialects({"mine": {"pattern": r"@(?P<s>\d+) L=(?P<loss>\S+)", "columns": {"step": "s"}}})
        demux = Demux(dialects=(*own, *BUILT_IN))
        demux.feed(None, b"@12 L=0.5\n@13 L=nan\n@14 L=oops\n")
        (row,) = demux.snapshot().rows()
        assert row.step == 13
        assert row.to_json()["loss"] == "nan"

    @pytest.mark.parametrize(
        ("entry", "why"),
        [
            ({}, "no pattern"),
            (7, "no pattern"),
            ({"pattern": "(?P<step>"}, "not a regular expression"),
            ({"pattern": r"(?P<step>\d+)"}, "no group for loss"),
            ({"pattern": r"(?P<step>\d+)(?P<loss>\d)(?P<speed>x)"}, "'speed' is not a column"),
            ({"pattern": "x", "columns": {"speed": "x"}}, "no such column"),
            ({"pattern": "x", "columns": 3}, "columns is not a table"),
            ({"pattern": "x", "patern": "y"}, "unknown key 'patern'"),
            ({"pattern": GOOD, "contains": 3}, "contains is neither a text nor a list"),
            ({"pattern": GOOD, "contains": [""]}, "contains is neither a text nor a list"),
            ({"pattern": GOOD, "samples": ["12 3.5", "x"]}, "does not match its sample 'x'"),
            ({"pattern": GOOD, "contains": "loss", "samples": "12 3.5"}, "contains nothing of what contains says"),
        ],
    )
    def test_an_invalid_dialect_is_refused_by_name(self, entry: object, why: str) -> None:
        with pytest.raises(UsageError) as raised:
            user_dialects({"mine": entry})
        assert "'mine'" in raised.value.sentence
        assert why in raised.value.sentence

    @pytest.mark.parametrize("pattern", HOSTILE)
    def test_a_pattern_that_backtracks_without_end_does_not_delay_the_reader(self, pattern: str) -> None:
        own = user_dialects({"mine": pattern})
        demux = Demux(dialects=(*own, *BUILT_IN))
        began = time.thread_time()
        for line in (b"a" * 2000, b"1" * 2000, b"ab" * 1000, b"a1 " * 700, b"x.x1." * 400, b"abc" * 600):
            demux.feed(None, (line + b"\x00\n") * 100 + b"step=5: loss=2.5\n")
            demux.finish()
        assert time.thread_time() - began < 3.0
        assert (5, 2.5) in [(row.step, row.loss) for row in demux.snapshot().rows()]

    def test_a_pattern_that_takes_too_long_is_given_up_and_reported(self) -> None:
        own = user_dialects({"mine": r"(?:a?){30}a{30}(?P<step>\d+) (?P<loss>\S+)"})
        demux = Demux(dialects=(*own, *BUILT_IN))
        assert demux.dialect_error is None
        demux.feed(None, b"a" * 29 + b" no match in this one\n" + (b"a" * 2000 + b"\n") * 100)
        demux.finish()
        assert demux.dialect_error is not None
        assert "dialect 'mine' in the profile cannot be used" in demux.dialect_error.sentence
        assert "could hold up everything" in demux.dialect_error.sentence

    def test_a_line_without_the_texts_that_every_match_contains_is_not_searched(self) -> None:
        pattern = r"(?P<step>\d+)(?:a|a)*(?P<loss>\S+)!"
        own = user_dialects({"mine": {"pattern": pattern, "contains": ["cost", "loss"]}})
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(TimedPattern, "finditer", lambda *_: pytest.fail("searched"))
            demux = Demux(dialects=(*own, *BUILT_IN))
            demux.feed(None, b"1" * 2000 + b"\n")
            demux.finish()
        assert demux.state.samples == 0

    def test_lines_with_the_text_that_every_match_contains_are_read(self) -> None:
        pattern = r"(?P<step>\d+) is (?P<loss>\S+)"
        own = user_dialects({"mine": {"pattern": pattern, "contains": "is", "samples": ["12 is 2.5"]}})
        demux = Demux(dialects=(*own, *BUILT_IN))
        demux.feed(None, b"12 is 2.5\n13 at 3.5\n14 is 4.5\n" + b"nothing of it\n" * 1000)
        demux.finish()
        assert demux.state.samples == 2

    @pytest.mark.parametrize(
        "pattern",
        [
            r"(?P<step>\d+)/\d+ (?:[\w.]{1,30}=[^,\s]{1,30}, ){0,8}loss=(?P<loss>[\d.]+)",
            r"step[ =:]+(?P<step>\d+).*loss[ =:]+(?P<loss>\S+)",
            r"^\[(?P<worker>\d+)\] it (?P<step>\d+)/\d+ \| l (?P<loss>[\d.]+)(?: \| (?P<rate>[\d.]+) ex/s)?",
            r"(?i)STEP (?P<step>\d+), LOSS (?P<loss>-?\d+\.\d+)",
        ],
    )
    def test_ordinary_patterns_are_accepted(self, pattern: str) -> None:
        assert user_dialects({"mine": pattern})[0].name == "mine"


def test_a_trial_shows_what_each_dialect_matches() -> None:
    own = user_dialects({"mine": r"completed step: (?P<step>\d+), .* loss: (?P<loss>[\d.]+)"})
    total, trials = try_dialects([MAXTEXT.encode(), b"noise", MAXTEXT_PEFT.encode()], (*own, *BUILT_IN))
    counts = {trial.name: trial.matched for trial in trials if trial.matched}
    assert (total, counts) == (3, {"mine": 1, "names and values": 1})
    assert trials[0].to_json() == {
        "dialect": "mine",
        "matched": 1,
        "examples": [{"line": MAXTEXT, "columns": {"step": "500", "loss": "0.624"}}],
    }


def test_a_built_in_dialect_counts_no_line_that_a_profiles_own_has_as_in_a_log() -> None:
    own = user_dialects({"mine": r"(?:step (?P<step>\d+)|loss (?P<loss>[\d.]+))"})
    lines = [b"step 100", b"loss 2.5"]
    _, trials = try_dialects(lines, (*own, *BUILT_IN))
    assert {trial.name: trial.matched for trial in trials if trial.matched} == {"mine": 2}


def test_a_trial_counts_rows_below_a_header_as_a_log_does() -> None:
    lines = [b"step 100", b"loss: 2.5 (131.2 ms/step)", b"step,loss", b"200,2.25", b"done"]
    demux = Demux()
    demux.feed(None, b"\n".join(lines) + b"\n")
    _, trials = try_dialects(lines, BUILT_IN)
    assert {trial.name: trial.matched for trial in trials if trial.matched} == demux.state.matched
    (table,) = (trial for trial in trials if trial.name == "table")
    assert table.examples[-1] == ("200,2.25", {"step": "200", "loss": "2.25"})


def test_a_profiles_own_dialect_reads_rows_between_rules_in_a_log_and_in_a_trial() -> None:
    own = user_dialects({"mine": r"[|] at (?P<step>\d+) [|] (?P<loss>[\d.]+)"})
    lines = [b"-" * 30, b"| at 7 | 2.5 |", b"| at 8 | 2.25 |", b"-" * 30]
    demux = Demux(dialects=(*own, *BUILT_IN))
    demux.feed(None, b"\n".join(lines) + b"\n")
    assert [(row.step, row.loss) for row in demux.snapshot().rows()] == [(8, 2.25)]
    _, trials = try_dialects(lines, (*own, *BUILT_IN))
    assert {trial.name: trial.matched for trial in trials if trial.matched} == demux.state.matched
    assert demux.state.matched["mine"] == 2


@pytest.mark.parametrize(
    "printed", ["0.125 s/it", "125 ms/step", "sec/batch: 0.125", "8 it/s", "8.0 steps per second"]
)
def test_the_duration_of_a_step_becomes_steps_per_second(printed: str) -> None:
    line = f"step 100 | loss 2.5 | {printed}"
    assert only(line).rate == 8.0
    (trial,) = (trial for trial in try_dialects([line.encode()], BUILT_IN)[1] if trial.matched)
    assert float(trial.examples[0][1]["rate"]) == 8.0


@pytest.mark.parametrize("printed", ["0.0 s/it", "ms/step", "131.2 ms", "12 it/step", "1.5 s/epoch"])
def test_a_figure_that_is_no_pace_is_no_rate(printed: str) -> None:
    assert only(f"step 100 | loss 2.5 | {printed}").rate is None


def test_a_users_pattern_may_read_the_prefix_that_a_launcher_added() -> None:
    own = user_dialects({"mine": r"^\[rank(?P<worker>\d+)\]: it (?P<step>\d+) l (?P<loss>[\d.]+)"})
    line = b"[rank3]: it 7 l 0.5"
    demux = Demux(dialects=(*own, *BUILT_IN))
    demux.feed(None, line + b"\n")
    (row,) = demux.snapshot().rows()
    assert (row.worker, row.step, row.loss) == (3, 7, 0.5)
    assert try_dialects([line], own)[1][0].matched == 1


@pytest.mark.parametrize("text", ["", "x", "nan", "1e30", "9" * 19, "9" * 5000])
@pytest.mark.parametrize("column", ["worker", "core", "device", "epoch", "step"])
def test_a_line_whose_count_is_none_or_too_large_is_no_sample_of_a_users_pattern(column: str, text: str) -> None:
    pattern = r"(?P<step>\d) (?P<loss>\d)" if column != "step" else r"\d (?P<loss>\d)"
    own = user_dialects({"mine": rf"{column}=(?P<{column}>\S*) {pattern}"})
    demux = Demux(dialects=own)
    demux.feed(None, f"{column}={text} 1 2\n{column}=3 1 2\n".encode())
    assert demux.snapshot().samples == 1


def test_built_in_dialects_read_lines_without_their_prefix_in_a_trial_too() -> None:
    total, trials = try_dialects([b" 1: Epoch 2/3", b"[rank1]: Epoch 3/3", b"[rank1]: x Epoch 3/3 y"], BUILT_IN)
    assert total == 3
    assert {trial.name: trial.matched for trial in trials}["Keras epoch"] == 2


def test_an_evaluation_row_without_an_ordinal_is_no_sample() -> None:
    assert snapshot_of("| Test Device=xla:1 Step=20 Epoch=1 Accuracy=71.20 Time=22:03:40").samples == 0


class TestSamplesOfSeveralLines:
    HEAD = "[step={}/100,epoch=2]"
    LOSS = "    train/CrossEntropyLoss={}"

    def test_a_step_and_its_loss_are_one_sample(self) -> None:
        row = only(self.HEAD.format(7), "    optim/total_grad_norm=2.5", self.LOSS.format(1.5))
        assert (row.epoch, row.step, row.loss) == (2, 7, 1.5)

    def test_a_step_without_a_loss_is_no_sample(self) -> None:
        assert snapshot_of(self.HEAD.format(7)).samples == 0
        assert snapshot_of(self.LOSS.format(1.5)).samples == 0

    def test_the_next_step_takes_no_loss_from_the_previous_one(self) -> None:
        printed = snapshot_of(self.HEAD.format(7), self.LOSS.format(1.5), self.HEAD.format(8))
        assert (printed.samples, printed.rows()[0].step) == (1, 7)

    def test_workers_are_kept_apart(self) -> None:
        demux = Demux()
        for worker in (0, 1):
            demux.feed(worker, f"{self.HEAD.format(7 + worker)}\n".encode())
        for worker in (1, 0):
            demux.feed(worker, f"{self.LOSS.format(2.5 + worker)}\n".encode())
        rows = [(row.worker, row.step, row.loss) for row in demux.snapshot().rows()]
        assert rows == [(0, 7, 2.5), (1, 8, 3.5)]

    def test_unfinished_samples_are_joined_by_worker_and_hold_the_newest_values_only(self) -> None:
        stage = TrainingStage()
        for step in range(1000):
            assert stage.join_parts(0, "OLMo", {"step": b"%d" % step}) is None
        assert stage.join_parts(1, "OLMo", {"loss": b"1.5"}) is None
        assert stage.join_parts(0, "Composer", {"loss": b"1.5"}) is None
        assert stage.join_parts(0, "OLMo", {"loss": b"1.5"}) == {"step": b"999", "loss": b"1.5"}

    def test_workers_beyond_the_limit_share_one_state(self) -> None:
        demux = Demux()
        for worker in range(MOST_SOURCES + 10):
            demux.feed(worker, b"[step=7/100,epoch=2]\n")
        demux.finish()
        assert len(demux.state.sources) == MOST_SOURCES
