from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path

import pytest

from tests.logs.shapes import SAMPLE_LOG, training
from tui.logs.demux import Demux
from tui.logs.log_time import WALL_TIME, format_time
from tui.logs.saved_log import open_log
from tui.reports.curves import MOST_POINTS
from tui.reports.facts import summary_of_log
from tui.reports.html import nice_ticks, write_html
from tui.reports.json_csv import to_document, write_csv, write_curves, write_json
from tui.reports.layout import sections
from tui.reports.markdown import escape, write_markdown
from tui.reports.summary import RunFacts, Summary, WorkerSummary, summarize
from tui.reports.text import write_text
from tui.reports.write import WRITERS, write_report
from tui.runs.record.run_status import Restart

EPOCH_END = "Epoch 1 train end 18:02:10, Epoch Time=0:00:28, Replica Train Samples=9, Reduced GlobalRate="
EVIL = "</td><script>alert(1)</script> | [x](javascript:y) `z` \x1b[31m*b* @all"


def summary_of(*lines: str, facts: RunFacts | None = None, worker: int | None = 0) -> Summary:
    """Return the summary of a run of one worker with these lines, or (without a worker) of a saved log."""
    began = None if worker is None else 1000.0
    demux = Demux(steps=True)
    demux.feed(worker, "".join(f"{line}\n" for line in lines).encode(), now=began)
    return summarize(facts or RunFacts("demo-1"), demux.snapshot(now=began))


def failed_run(**changes: object) -> Summary:
    demux = Demux(addresses={0: "10.0.0.1", 1: "10.0.0.2"})
    lines = [training(core=core, step=step, rate="50.00", global_rate="40.00") for step in (0, 10) for core in (0, 1)]
    demux.feed(0, "\n".join(lines).encode() + b"\n", now=1000.0)
    demux.feed(1, f"{training(core=3, step=10, loss='nan')}\n".encode(), now=1000.0)
    facts = RunFacts(
        title="demo-1",
        slice="pod",
        argv=("python", "train.py", "--name", "two words"),
        env={"A": "1", "API_TOKEN": "hush", "EVIL": EVIL},
        state="failed",
        cause="worker 1 exited with code 3",
        started="2026-01-01T00:00:00+00:00",
        ended="2026-01-02T01:02:03+00:00",
        workers=(WorkerSummary(0, "h0", "10.0.0.1", exit_code=0), WorkerSummary(1, EVIL, "10.0.0.2", exit_code=3)),
    )
    return summarize(RunFacts(**{**facts.__dict__, **changes}), demux.snapshot(now=1001.0))


def test_every_format_holds_the_time_that_the_job_waited_for_data(tmp_path: Path) -> None:
    summary = summary_of(training(core=0), "Epoch 1 waited for data 1.50 s, 7.5% of the time; longest")
    written = write_report(summary, ["md", "txt", "html", "json"], tmp_path)
    texts = {path.suffix: path.read_text() for path in written}
    for suffix in (".md", ".txt", ".html"):
        assert "Waited for data in the last epoch: 7.5 % of the time" in texts[suffix], suffix
    assert json.loads(texts[".json"])["data_wait_share"] == 0.075


def test_the_rate_that_the_job_reports_at_its_end_is_an_average() -> None:
    text = write_text(summary_of(training(core=0), "Avg. Global Rate: 812.50 examples per second"))
    assert "Average rate, reported by the job: 812.50 examples/s." in text


def test_redrawn_bars_are_samples_of_one_line_and_of_a_worker() -> None:
    bar = "Epoch 0:  {0}0%|#   | {0}/10 [00:0{0}<00:08,  1.00it/s, loss=2.5]"
    summary = summary_of("\r".join(map(bar.format, (1, 2))), facts=RunFacts("x", is_run=False), worker=None)
    text = write_text(summary)
    assert "A saved log of 1 line with 2 training samples." in text
    assert "Ended at epoch 0, step 2 of 10, on 1 worker; loss 2.5" in text


class TestSummary:
    def test_names_the_causes(self) -> None:
        remarks = failed_run().remarks
        assert "Cause: worker 1 exited with code 3." in remarks
        assert "Worker 1 exited with code 3." in remarks
        assert "Core 3 (worker 1) has a loss that is not a finite number, since epoch 1, step 10." in remarks
        assert "Core 2 printed no training line, though higher ordinals did." in remarks

    def test_workers_with_the_same_end_are_reported_in_one_sentence(self) -> None:
        codes = [3, 0, 3, None, None]
        signals = [None, None, None, "KILL", "KILL"]
        ends = enumerate(zip(codes, signals, strict=True))
        workers = tuple(WorkerSummary(worker, exit_code=code, signal=signal) for worker, (code, signal) in ends)
        remarks = failed_run(workers=workers).remarks
        assert "Workers 0,2 exited with code 3." in remarks
        assert "Workers 3-4 were killed by signal KILL." in remarks

    def test_a_loss_that_is_nan_on_every_core_is_not_unknown(self) -> None:
        summary = summary_of(training(core=0, step=10, loss="nan"))
        assert to_document(summary)["loss"] == {"median": "nan", "min": "nan", "max": "nan"}
        assert summary_of().loss is None

    def test_has_the_duration_of_the_run(self) -> None:
        assert failed_run().seconds == 86_400 + 3723

    def test_figures_of_each_worker(self) -> None:
        first, second = failed_run().workers
        assert (first.cores, first.samples, first.loss, first.rate) == (2, 4, 6.875, 100.0)
        assert (second.exit_code, str(second.loss), second.rate) == (3, "nan", 258.47)

    def test_the_rates_of_the_workers_add_up_to_that_of_the_run_without_silent_cores(self) -> None:
        demux = Demux()
        for step in range(20):
            for core in range(4 if step < 2 else 3):
                line = training(core=core, step=step, loss=f"{core}.0", rate="50.00")
                demux.feed(core // 2, f"{line}\n".encode(), now=1000.0 + 10 * step)
        summary = summarize(RunFacts("demo-1"), demux.snapshot(now=1200.0))
        assert summary.snapshot.rate_total == 150.0
        assert [(worker.cores, worker.loss, worker.rate) for worker in summary.workers] == [(2, 0.5, 100), (2, 2, 50)]

    @pytest.mark.parametrize(("reported", "agree"), [("80.00", True), ("160.00", False)])
    def test_checks_that_the_rates_add_up(self, reported: str, agree: bool) -> None:
        lines = [training(core=0, global_rate="40.00"), training(core=1, global_rate="40.00"), EPOCH_END + reported]
        summary = summary_of(*lines, facts=RunFacts("x", is_run=False), worker=None)
        assert summary.rate_check is not None
        assert summary.rate_check.rates_agree is agree
        differ = "in epoch 1: 80.00 examples/s, but the job reports 160.00: the two differ."
        assert any(remark.endswith(differ) for remark in summary.remarks) is not agree

    def test_cores_are_called_missing_from_a_sum_of_rates_only_where_some_are(self) -> None:
        lines = [training(core=0, global_rate="40.00"), training(core=1, global_rate="40.00"), EPOCH_END + "160.00"]
        facts = RunFacts("x", state="succeeded", cores_expected=4, workers=(WorkerSummary(0),))
        remarks = " ".join(summary_of(*lines, facts=facts).remarks)
        assert "but the job reports 160.00: the sum lacks cores 2-3, which printed no line." in remarks

    def test_the_place_of_a_loss_is_that_of_the_first_core_where_they_differ(self) -> None:
        remarks = summary_of(*(training(core=core, step=10 * core, loss="nan") for core in (2, 1))).remarks
        assert (
            "Cores 1-2 (worker 0) have a loss that is not a finite number, the first, core 1, since epoch 1, step 10."
            in remarks
        )

    def test_a_core_of_the_worker_that_failed_is_called_failed_where_people_read_it(self) -> None:
        summary = failed_run(first_failure=1)
        (table,) = [part.table for part in sections(summary) if part.title == "Cores"]
        assert table is not None
        assert (table.rows[0][0], table.rows[0][-1]) == ("3", "failed")
        assert "failed" not in {row["state"] for row in to_document(summary)["cores"]}

    def test_the_table_of_cores_names_the_first_nan_in_plain_words(self) -> None:
        rows = {row["core"]: row for row in csv.DictReader(io.StringIO(write_csv(failed_run())))}
        assert (rows["3"]["first_nan"], rows["0"]["first_nan"]) == ("epoch 1 step 10", "")
        assert rows["3"]["state"] == "nan"

    def test_restarts_are_part_of_the_outcome(self) -> None:
        restarts = tuple(Restart(attempt, "2026-01-01T00:00:00Z", "worker 1 exited with 3") for attempt in (1, 2))
        summary = failed_run(state="succeeded", cause=None, attempt=2, restarts=restarts)
        outcome = sections(summary)[0].sentences
        lasted = "1 d 01:02:03"
        assert outcome[0] == f"Succeeded after {lasted} and 2 restarts: in the end every worker exited with code 0."
        assert outcome[1] == "Restarts 1-2: worker 1 exited with 3."
        row = {"attempt": 1, "time": "2026-01-01T00:00:00Z", "cause": "worker 1 exited with 3"}
        assert to_document(summary)["restarts"][0] == row

    def test_what_happened_during_the_run_is_not_part_of_its_setup(self) -> None:
        printed = {part.title: part.sentences for part in sections(failed_run(notes=("worker 0: load: 6.8",)))}
        assert printed["Setup"] == ()
        assert printed["Notes"] == ("worker 0: load: 6.8",)

    def test_a_worker_that_never_trained_is_named(self) -> None:
        assert "Worker 3 printed no training line." in summary_of_log(open_log(SAMPLE_LOG)).remarks

    def test_a_saved_log_has_the_facts_of_its_cluster(self) -> None:
        facts = summary_of_log(open_log(SAMPLE_LOG)).facts
        assert (facts.slice, facts.accelerator_type, facts.zone) == ("my-tpu-slice", "v3-32", "europe-west4-a")
        assert [worker.hostname for worker in facts.workers][1] == "my-instance-group-n3q2"

    def test_an_empty_run_still_makes_every_report(self) -> None:
        summary = summary_of(facts=RunFacts("empty", state="lost"))
        assert all(write(summary) for write in WRITERS.values())


class TestEveryFormat:
    @pytest.mark.parametrize("name", sorted(WRITERS))
    def test_holds_no_secret_and_no_escape_sequence(self, name: str) -> None:
        text = WRITERS[name](failed_run())
        assert "hush" not in text
        assert "\x1b" not in text

    def test_a_core_with_problems_is_among_those_shown(self) -> None:
        lines = [training(core=core, loss="nan" if core == 200 else "1.00") for core in range(256)]
        text = write_text(summary_of(*lines))
        cores = text[text.index("128 of 256, those with problems first") :].splitlines()[3:]
        assert [int(row.split()[0]) for row in cores[:3]] == [200, 0, 1]

    @pytest.mark.parametrize("name", ["html", "md", "txt"])
    @pytest.mark.py310
    def test_the_failed_worker_is_named_before_the_progress(self, name: str) -> None:
        text = WRITERS[name](failed_run())
        places = [text.index(words) for words in ("Failed after", "Cause:", "Worker 1 exited", "Ended at epoch")]
        assert places == sorted(places)

    def test_text_is_aligned_and_whole(self) -> None:
        text = write_text(failed_run())
        assert "Failed after 1 d 01:02:03." in text
        assert "python train.py --name 'two words'" in text
        rows = [line for line in text.splitlines() if re.match(r"\s+\d  +[01]  ", line)]
        assert len({row.index("training") for row in rows if "training" in row}) == 1

    def test_markdown_tables_have_as_many_cells_as_columns(self) -> None:
        tables = re.findall(r"(?:^\|.*\n)+", write_markdown(failed_run()), re.MULTILINE)
        assert len(tables) == 3
        for table in tables:
            assert len({len(re.findall(r"(?<!\\)\|", row)) for row in table.splitlines()}) == 1

    def test_markdown_escapes_markup_in_remote_text(self) -> None:
        text = re.sub(r"(?<!`)(`+)(?!`).*?(?<!`)\1(?!`)", "", write_markdown(failed_run()))
        assert not re.search(r"(?<!\\)<script>", text)
        assert "\\<script>" in text
        assert escape("a_b _c_ *c* https://x") == "a_b \\_c\\_ \\*c\\* &#104;ttps://x"
        assert escape("# a # b") == "\\# a # b"
        assert escape("AT&T &lt; 3 > 2") == "AT&T \\&lt; 3 > 2"
        assert escape("1,234.50") == "1,234.50"

    def test_markdown_shows_commands_letter_by_letter(self) -> None:
        run = failed_run(argv=("python", "-m", "job", "--out", "gs://bucket/a_b", "a|b", "`x`"))
        assert "| Command | ``python -m job --out gs://bucket/a_b 'a\\|b' '`x`'`` |" in write_markdown(run)

    @pytest.mark.parametrize("write", [write_markdown, write_text, write_html])
    def test_times_are_reported_to_the_second(self, write: Callable[[Summary], str]) -> None:
        text = write(failed_run(started="2026-11-21T14:01:51.262177+02:00", ended="2020-08-06T02:38:57"))
        assert "2026-11-21 12:01:51 UTC" in text
        assert "2020-08-06 02:38:57" in text
        assert "262177" not in text

    @pytest.mark.parametrize("name", sorted(WRITERS))
    def test_a_rehearsal_is_named_at_the_top(self, name: str) -> None:
        sentence = "no model was trained"
        text = WRITERS[name](failed_run(argv=("python3", "-m", "tui.localpod.rehearsal", "--steps", "9")))
        assert sentence in re.sub(r"(?s)<style>.*</style>", "", text).lower()[:900]
        assert sentence not in WRITERS[name](failed_run()).lower()

    def test_html_escapes_markup_in_remote_text(self) -> None:
        seen: list[str] = []

        class Tags(HTMLParser):
            def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
                seen.append(tag)
                assert not [name for name, _ in attrs if name.startswith("on")]

        Tags().feed(write_html(failed_run()))
        assert "script" not in seen
        assert seen.count("svg") == 2
        assert "table" in seen

    def test_a_curve_is_not_drawn_where_the_loss_was_no_number(self) -> None:
        losses = [*["2.00"] * 4, *["nan"] * 4, "1.00", "nan", *["0.50"] * 3]
        lines = [training(core=0, step=step, loss=loss, rate="9.00") for step, loss in enumerate(losses)]
        page = write_html(summary_of(*lines))
        [loss, rate] = re.findall(r'class="curve" d="([^"]*)"', page)
        assert [len(stretch.split(" L")) for stretch in loss.split("M")[1:]] == [4, 1, 3]
        assert rate.count("M") == 1

    def test_json_is_strict_and_has_names_for_numbers_that_are_not_finite(self) -> None:
        document = json.loads(write_json(failed_run()), parse_constant=lambda text: pytest.fail(text))
        assert document["cores"][2]["loss"] == "nan"
        assert document["exit_codes"] == [0, 3]
        assert document["env"]["API_TOKEN"] != "hush"
        assert document == to_document(failed_run())

    def test_csv_has_a_row_for_each_core(self) -> None:
        rows = list(csv.DictReader(io.StringIO(write_csv(failed_run()))))
        assert [row["core"] for row in rows] == ["0", "1", "3"]
        assert rows[2]["loss"] == "nan"
        assert rows[0]["address"] == "10.0.0.1"
        assert "warning" not in rows[0]

    def test_csv_and_json_hold_each_cores_curve_with_its_own_steps(self) -> None:
        demux = Demux(steps=True)
        for step in range(0, 2000, 10):
            for core in (0, 1) if step % 30 else (0, 1, 7):
                line = training(core, step if core != 7 else step // 3, f"{9 - step / 400 + core:.5f}")
                demux.feed(0, f"{line}\n".encode(), now=1000.0 + step)
        summary = summarize(RunFacts("demo-1"), demux.snapshot(now=3000.0))
        curves = to_document(summary)["curves"]
        assert list(curves) == ["0", "1", "7"]
        for core, curve in curves.items():
            assert {len(values) for values in curve.values()} == {len(curve["step"])}
            assert 20 < len(curve["step"]) <= 64
            for step, time, loss in zip(curve["step"], curve["time"], curve["loss"], strict=True):
                real = step * 3 if core == "7" else step
                assert loss == pytest.approx(9 - real / 400 + int(core), abs=1e-5)
                assert time == format_time(1000.0 + real, WALL_TIME)
        rows = list(csv.DictReader(io.StringIO(write_curves(summary))))
        assert len(rows) == sum(len(curve["step"]) for curve in curves.values())
        assert [int(row["step"]) for row in rows if row["core"] == "7"] == curves["7"]["step"]
        assert json.loads(write_json(summary)) == to_document(summary)

    def test_curves_of_a_log_without_dates_have_no_time_and_a_nan_is_named(self) -> None:
        lines = [training(3, step, "nan" if step > 5 else "2.00000", clock=f"10:00:{step:02}") for step in range(9)]
        summary = summary_of(*lines, facts=RunFacts("x", is_run=False), worker=None)
        curve = to_document(summary)["curves"]["3"]
        assert curve["step"] == list(range(9))
        assert curve["loss"] == [2.0] * 6 + ["nan"] * 3
        assert curve["time"] == [None] * 9

    def test_cores_without_numbers_have_curves_of_their_own(self) -> None:
        demux = Demux(addresses={0: "=1+1", 1: "10.0.0.2"}, steps=True)
        for worker in (0, 1):
            demux.feed(worker, b"step 1: loss 2.5\nstep 2: loss 2.25\n", now=1000.0)
        summary = summarize(RunFacts("demo-1"), demux.snapshot(now=1001.0))
        assert [len(curve["loss"]) for curve in to_document(summary)["curves"].values()] == [2, 2]
        assert "'=1+1" in write_curves(summary)
        assert ",=1+1" not in write_curves(summary)

    def test_the_curves_of_the_largest_pod_are_bounded(self) -> None:
        demux = Demux(steps=True)
        for step in range(24):
            data = "".join(f"{training(core, step)}\n" for core in range(16_384))
            demux.feed(0, data.encode(), now=1000.0 + step)
        curves = summarize(RunFacts("demo-1"), demux.snapshot(now=1100.0)).curves
        assert len(curves) == 16_384
        assert sum(len(curve.points["step"]) for curve in curves) <= MOST_POINTS
        assert {(curve.points["step"][0], curve.points["step"][-1]) for curve in curves} == {(0, 23)}


@pytest.mark.parametrize(
    ("low", "high", "ticks", "decimals"),
    [
        (2.594, 4.713, [2.0, 3.0, 4.0, 5.0], 0),
        (0.0, 7900.0, [0.0, 2000.0, 4000.0, 6000.0, 8000.0], 0),
        (0.00012, 0.00034, [0.0001, 0.0002, 0.0003, 0.0004], 4),
        (0.5, 0.5, [0.4, 0.6], 1),
        (0.0, 0.0, [0.0, 0.5], 1),
    ],
)
def test_ticks_are_round_numbers_around_the_figures(
    low: float, high: float, ticks: list[float], decimals: int
) -> None:
    found, found_decimals = nice_ticks(low, high)
    assert found == pytest.approx(ticks)
    assert found_decimals == decimals


def test_a_chart_names_points_along_its_axis_and_a_nan_is_red() -> None:
    lines = [training(core=core, step=step, loss="nan" if core else "2.00") for step in range(7) for core in (0, 1)]
    page = write_html(summary_of(*lines))
    labels = re.findall(r'<text[^>]*y="214"[^>]*>([^<]*)</text>', page)
    assert [label.rpartition(" ")[2] for label in labels[:4]] == ["0", "2", "4", "6"]
    assert '<td class="right bad">nan</td>' in page
