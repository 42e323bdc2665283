"""Tests that a straggler and a loss that is no number stay in status, list and report once the run is over."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.console.stage import a_slice, begin, make_run, training_line, write
from tui.commands.status import _found
from tui.console.render.finding_lines import find_live_core_problems
from tui.logs.demux import Demux
from tui.reports.facts import facts_of_run, summary_of_run
from tui.reports.findings import findings_of, findings_of_run, marks_of_run, sentence, sentences
from tui.reports.markdown import write_markdown
from tui.reports.rates import rate_in_short, rate_in_words
from tui.reports.status import status_document
from tui.reports.summary import RunFacts, summarize
from tui.runs.read.latest_figures import FiguresCache, LatestFigures
from tui.runs.read.sample_reader import RunReader
from tui.runs.record.findings import Finding
from tui.runs.record.run_directory import RunDirectory
from tui.runs.record.run_status import status_of

SLOW, BROKEN = 13, 22
START = 1_700_000_000.0


@pytest.fixture
def directory(tmp_path: Path) -> RunDirectory:
    """Make a run of 32 cores, of which one makes every third step only and another one gets a loss of nan."""
    made = RunDirectory.create(tmp_path / "runs", make_run(a_slice()))
    begin(made)
    for step in range(1, 91):
        for worker in made.run.workers:
            lines = []
            for core in range(worker.index * 8, worker.index * 8 + 8):
                if core == SLOW and step % 3:
                    continue
                loss: float | str = "nan" if core == BROKEN and step > 60 else 6.9 - step / 40
                printed, rate = (step // 3, 83.0) if core == SLOW else (step, 250.0)
                lines.append(training_line(core, 1, printed, loss, rate))
            write(made, worker.index, b"".join(lines), START + 5 * step)
    return made


def note(directory: RunDirectory, stall: str, core: int, **row: object) -> None:
    found = [{"core": core, "worker": core // 8, **row}]
    directory.append_event(
        "note", worker=core // 8, text="x", stall=stall, workers=[core // 8], cores=[core], found=found
    )


def end(directory: RunDirectory, state: str = "stopped") -> None:
    if state == "stopped":
        directory.append_event("stop_requested", by="user")
    for worker in directory.run.workers:
        directory.append_event("exit", worker=worker.index, exit_code=143, signal="TERM")
    directory.append_event("state", state=state)


def document(directory: RunDirectory, *, with_logs: bool = True) -> dict[str, object]:
    reader = RunReader(directory)
    while reader.poll():
        pass
    return status_document(status_of(directory), reader.snapshot(START + 455) if with_logs else None)


def row_of(directory: RunDirectory, **how: bool) -> dict[str, object]:
    (row,) = document(directory, **how)["straggler_costs"]  # type: ignore[misc]
    assert isinstance(row, dict)
    return row


def test_the_status_has_the_progress_and_the_time_left_of_a_live_run(directory: RunDirectory) -> None:
    assert document(directory)["progress"] is None
    write(directory, 0, b"64 training samples in 8 shards: 500 steps an epoch, 0 samples dropped\n", START + 450)
    write(directory, 0, b"resnet50, 10 classes, batch 8 on each of 8 cores, 2 epochs\n", START + 450)
    progress = document(directory)["progress"]
    assert isinstance(progress, dict)
    step = document(directory)["step"]
    assert isinstance(step, int)
    assert (progress["epochs"], progress["steps"], progress["share_of"]) == (2, 500, "epochs")
    assert progress["share"] == pytest.approx(step / 1000, rel=0.01)
    assert progress["seconds_left"] == pytest.approx(5 * (1000 - step), rel=0.2)
    end(directory)
    progress = document(directory)["progress"]
    assert isinstance(progress, dict)
    assert progress["seconds_left"] is None


def test_a_straggler_is_still_reported_when_its_run_is_over(directory: RunDirectory) -> None:
    note(directory, "behind", SLOW, steps_behind=40, pace=0.34)
    live = row_of(directory)
    end(directory)
    over, printed = document(directory), row_of(directory)
    assert over["stragglers"] == [SLOW]
    assert printed == live
    assert (printed["core"], printed["worker"], printed["address"], printed["reason"]) == (
        SLOW,
        1,
        "10.164.0.44",
        "behind",
    )
    assert (printed["steps_behind"], printed["until"], printed["recovered"]) == (60, None, False)
    assert printed["pace"] == pytest.approx(1 / 3, abs=0.02)
    assert printed["share"] == pytest.approx(2 / 3, abs=0.02)
    assert str(printed["from"]).endswith("+00:00")
    assert over["nan_cores"] == [BROKEN]


def test_without_logs_what_the_keeper_reported_is_enough(directory: RunDirectory) -> None:
    note(directory, "behind", SLOW, steps_behind=40, pace=0.34)
    note(directory, "loss", BROKEN, loss="nan", epoch=1, step=62)
    note(directory, "end", SLOW, steps_behind=60, pace=0.333)
    end(directory)
    printed, row = document(directory, with_logs=False), row_of(directory, with_logs=False)
    assert (printed["stragglers"], printed["nan_cores"]) == ([SLOW], [BROKEN])
    assert (row["steps_behind"], row["pace"], row["share"]) == (60, 0.333, 0.667)


def test_without_a_report_of_the_keeper_the_logs_are_enough(directory: RunDirectory) -> None:
    end(directory)
    row = row_of(directory)
    assert (row["core"], row["steps_behind"], row["from"]) == (SLOW, 60, None)


def test_a_core_that_the_logs_show_behind_is_not_if_its_worker_is_unreachable(directory: RunDirectory) -> None:
    directory.append_event("link", worker=SLOW // 8, status="lost", detail="no route")
    assert (document(directory)["stragglers"], document(directory)["nan_cores"]) == ([], [BROKEN])


def test_a_core_that_recovered_is_marked_and_no_longer_a_straggler(directory: RunDirectory) -> None:
    note(directory, "behind", 5, steps_behind=40, pace=0.4)
    directory.append_event("note", text="x", stall="over", workers=[], cores=[5], of=["behind", "slow"])
    end(directory)
    printed = document(directory)
    rows = {row["core"]: row for row in printed["straggler_costs"]}  # type: ignore[attr-defined]
    assert printed["stragglers"] == [SLOW]
    assert rows[5]["recovered"]
    assert rows[5]["until"] > rows[5]["from"]
    assert list(rows) == [SLOW, 5]


def test_status_and_facts_hold_the_restarts_with_their_causes(directory: RunDirectory) -> None:
    directory.append_event("state", state="preparing", attempt=1, cause="restart 1 of 2: worker 1 exited with 3")
    end(directory)
    (row,) = document(directory, with_logs=False)["restarts"]  # type: ignore[misc]
    assert (row["attempt"], row["cause"]) == (1, "worker 1 exited with 3")
    assert [restart.cause for restart in facts_of_run(status_of(directory)).restarts] == ["worker 1 exited with 3"]


def test_a_worker_that_failed_first_had_no_stragglers(directory: RunDirectory) -> None:
    directory.append_event("failure", worker=SLOW // 8, exit_code=1, cause="worker 1 exited with 1")
    directory.append_event("stop_requested", by="policy")
    end(directory, "failed")
    assert document(directory)["stragglers"] == []


def test_the_report_of_an_ended_run_holds_the_cost_of_its_straggler(directory: RunDirectory) -> None:
    note(directory, "behind", SLOW, steps_behind=40)
    end(directory)
    text = write_markdown(summary_of_run(directory))
    late = "Core 13 (worker 1, 10.164.0.44) was 60 steps behind when the run ended, at 33 % of the median pace"
    assert f"- {late}." in text.splitlines()
    assert "Core 22 (worker 2) has a loss that is not a finite number, since epoch 1, step " in text


def test_the_report_of_a_live_run_or_a_saved_log_names_a_straggler_once(directory: RunDirectory) -> None:
    reader = RunReader(directory)
    while reader.poll():
        pass
    for facts in (facts_of_run(status_of(directory)), RunFacts("out.log", is_run=False)):
        remarks = [text for text in summarize(facts, reader.snapshot(START + 455)).remarks if "ore 13" in text]
        late = "Core 13 (worker 1, 10.164.0.44) is 60 steps behind, at 33 % of the median pace"
        assert remarks == [f"{late}."]


def test_a_report_repeats_no_note_about_a_core_whose_finding_it_has(directory: RunDirectory) -> None:
    note(directory, "loss", BROKEN, loss="nan", epoch=1, step=999)
    directory.append_event("note", text="worker 2 writes again", stall="over", workers=[2], cores=[])
    directory.append_event("note", text="some cores recovered", stall="over", workers=[], cores=[BROKEN], of=["loss"])
    end(directory)
    assert facts_of_run(status_of(directory)).notes == ("worker 2 writes again",)


def test_status_describes_the_findings_during_the_run_and_afterwards(directory: RunDirectory) -> None:
    note(directory, "behind", SLOW, steps_behind=40)
    live = dict(_found(document(directory), status_of(directory)))
    assert live["stragglers"] == "core 13 (worker 1, 10.164.0.44) is 60 steps behind, at 33 % of the median pace"
    end(directory)
    over = dict(_found(document(directory), status_of(directory)))
    assert over["stragglers"].startswith(
        "core 13 (worker 1, 10.164.0.44) was 60 steps behind when the run ended, at 33"
    )
    assert over["nan"].startswith("the loss was nan on core 22 (worker 2, 10.164.0.45)")


def test_a_line_of_the_list_names_what_is_wrong(directory: RunDirectory) -> None:
    figures = FiguresCache().get(directory)
    assert figures.nan_cores == (BROKEN,)
    assert marks_of_run(status_of(directory), LatestFigures()) == ""
    assert marks_of_run(status_of(directory), figures) == "nan c22 · behind c13"
    note(directory, "behind", SLOW, steps_behind=40)
    for core in (1, 2, 3):
        note(directory, "slow", core, pace=0.5)
    end(directory)
    assert marks_of_run(status_of(directory), figures) == "nan c22 · behind c13 · slow c1,c2 +1"


def test_the_step_that_a_keeper_saw_is_approximate_and_that_of_the_logs_is_exact(directory: RunDirectory) -> None:
    note(directory, "loss", BROKEN, loss="nan", epoch=1, step=75)
    rough = findings_of_run(status_of(directory), None)
    assert (
        sentence(rough[0], is_over=False)
        == "the loss is nan on core 22 (worker 2, 10.164.0.45), seen by epoch 1, step 75"
    )
    printed = dict(_found(document(directory), status_of(directory)))
    assert printed["nan"] == "the loss is nan on core 22 (worker 2, 10.164.0.45), since epoch 1, step 61"


def test_a_slow_core_that_keeps_step_is_reported_like_one_that_is_behind(directory: RunDirectory) -> None:
    note(directory, "slow", 7, steps_behind=0, pace=0.4)
    end(directory)
    row = next(row for row in document(directory, with_logs=False)["straggler_costs"])  # type: ignore[attr-defined]
    assert (row["core"], row["reason"], row["pace"], row["share"]) == (7, "slow", 0.4, 0.6)
    assert marks_of_run(status_of(directory), None) == "slow c7"
    printed = dict(_found(document(directory, with_logs=False), status_of(directory)))
    assert printed["stragglers"] == (
        "core 7 (worker 0, 10.164.0.43) was slow when the run ended, at 40 % of the median pace: "
        "the others waited for it 60 % of the time"
    )


def test_where_lines_name_no_cores_the_workers_are_named() -> None:
    demux = Demux()
    for step in range(30):
        for worker in range(6):
            loss = "nan" if worker else "1.5"
            line = f"completed step: {step}, Tokens/s/device: 50, loss: {loss}"
            demux.feed(worker, f"{line}\n".encode(), now=START + step)
    snapshot = demux.snapshot(START + 30)
    recorded = (Finding("loss", None, 2, loss="nan"),)
    assert [text for text, _ in sentences(findings_of(recorded, snapshot), is_over=False)] == [
        *(f"the loss is nan on worker {worker}, since step 0" for worker in (2, 1, 3)),
        "also workers 4-5",
    ]
    (nan, _) = find_live_core_problems(None, snapshot, frozenset())[0]
    assert nan == "nan: workers 1-5, since step 0"
    assert (
        "Workers 1-5 have a loss that is not a finite number, since step 0."
        in summarize(RunFacts("a"), snapshot).remarks
    )
    assert (snapshot.noun, snapshot.rate_source) == ("worker", "median worker")


def test_a_core_is_reported_once_if_several_sources_found_it(directory: RunDirectory) -> None:
    note(directory, "loss", BROKEN, loss="nan", epoch=1, step=62)
    note(directory, "loss", BROKEN, loss="nan", epoch=1, step=63)
    note(directory, "behind", SLOW)
    reader = RunReader(directory)
    while reader.poll():
        pass
    found = findings_of_run(status_of(directory), reader.snapshot(START + 455))
    assert sorted((one.kind, one.core) for one in found) == [("behind", SLOW), ("loss", BROKEN)]


@pytest.mark.parametrize(
    ("line", "short", "words", "unit"),
    [
        (
            "Epoch 1: 10%|#  | 9/90 [00:02<00:20,  4.00it/s, loss=2.5]",
            "4.0 it/s each",
            "4.00 it/s (median worker)",
            "it/s",
        ),
        (
            "Epoch 1: 10%|#  | 9/90 [00:02<00:20, 31.25s/it, loss=2.5]",
            "0.032 it/s each",
            "0.032 it/s (median worker)",
            "it/s",
        ),
        (
            "| Training Device=xla:0/{0} Epoch=1 Step=9 Loss=2.5 Rate=8.00 GlobalRate=8.00 Time=02:38:57",
            "32.0 ex/s",
            "32.00 examples/s, all cores",
            "examples/s",
        ),
    ],
)
def test_a_rate_has_its_unit_and_only_additive_rates_are_added(line: str, short: str, words: str, unit: str) -> None:
    demux = Demux()
    for worker in range(4):
        demux.feed(worker, (line.format(worker) + "\n").encode(), now=START)
    snapshot = demux.snapshot(START)
    assert (rate_in_short(snapshot), snapshot.rate_unit) == (short, unit)
    printed = rate_in_words(snapshot.rate_total, snapshot.rate_median, snapshot.rate_unit, snapshot.rate_source)
    assert printed is not None
    assert printed.startswith(words)


def test_cores_of_a_worker_that_hangs_share_a_sentence() -> None:
    hung = [Finding("behind", core, 1, "10.0.0.2", pace=0.25, steps_behind=90) for core in (4, 5, 6, 7)]
    slow = Finding("slow", 9, 2, "10.0.0.3", pace=0.5)
    listed = [text for text, _ in sentences([*hung, slow], is_over=False)]
    assert listed == [
        "worker 1 (cores 4-7, 10.0.0.2) is 90 steps behind, at 25 % of the median pace",
        "core 9 (worker 2, 10.0.0.3) is slow, at 50 % of the median pace: the others wait for it 50 % of the time",
    ]
    unplaced = [Finding("behind", core, None, None, steps_behind=90) for core in (4, 5)]
    assert [text for text, _ in sentences(unplaced, is_over=True)] == [
        f"core {core} was 90 steps behind when the run ended" for core in (4, 5)
    ]
