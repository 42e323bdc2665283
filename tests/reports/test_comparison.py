from __future__ import annotations

import pytest

from tests.logs.shapes import training
from tui.logs.demux import Demux
from tui.reports.comparison import compare, comparison_rows, comparison_texts
from tui.reports.summary import RunFacts, Summary, summarize

pytestmark = pytest.mark.py310

NAMES = (
    "run is_run slice accelerator_type workers cores epoch step samples loss lowest_loss max_accuracy rate_total "
    "rate_newest rate_per_core rate_median rate_unit efficiency speedup seconds restarts state cause argv code_hash"
)
"""The names of an object that `compare --json` prints, in their order."""


def run(title: str, *, cores: int, rate: float, steps: int = 6, **facts: object) -> Summary:
    """Return the summary of a run whose cores print this rate, the first one a tenth of it because of compilation."""
    demux = Demux()
    for step in range(steps):
        for core in range(cores):
            printed = rate / 10 if step == 0 else rate
            line = training(core=core, step=step, loss=f"{8 - step}.00000", rate=f"{printed:.2f}")
            demux.feed(core // 8, (line + "\n").encode(), now=1000.0 + step)
    return summarize(RunFacts(title, **facts), demux.snapshot(now=1000.0))  # type: ignore[arg-type]


def test_scaling_is_reported_against_the_first() -> None:
    small, large = compare([run("small", cores=8, rate=100.0), run("large", cores=32, rate=90.0)])
    assert (small.rate_total, small.rate_per_core, small.efficiency, small.speedup) == (800.0, 100.0, 1.0, 1.0)
    assert (large.rate_total, large.rate_per_core, large.efficiency, large.speedup) == (2880.0, 90.0, 0.9, 3.6)


def test_compilation_in_the_first_point_does_not_count() -> None:
    assert compare([run("a", cores=2, rate=50.0)])[0].rate_total == 100.0


def test_the_columns_hold_losses_steps_and_ends() -> None:
    (one,) = compare([run("a", cores=2, rate=50.0, state="failed", cause="worker 0 exited with code 3", attempt=2)])
    document = one.to_json()
    assert (document["step"], document["loss"]["median"], document["lowest_loss"]) == (5, 3.0, 3.0)
    ends = [document[name] for name in ("state", "cause", "restarts")]
    assert ends == ["failed", "worker 0 exited with code 3", 2]


def test_the_lowest_loss_is_reported_as_the_log_printed_it() -> None:
    demux = Demux()
    demux.feed(
        0, f"{training(core=0, step=0, loss='6.10000')}\n{training(core=0, step=1, loss='7.00000')}\n".encode()
    )
    assert compare([summarize(RunFacts("a"), demux.snapshot())])[0].to_json()["lowest_loss"] == 6.1


def test_a_log_without_figures_is_still_a_column() -> None:
    empty = summarize(RunFacts("empty", is_run=False), Demux().snapshot())
    compared = compare([run("a", cores=2, rate=50.0), empty])
    assert compared[1].efficiency is None
    rows = {row[0]: row[1:] for row in comparison_rows(compared)}
    assert rows["cores"] == ("2", "0")
    assert rows["rate, run's median"] == rows["rate, newest"] == ("100.00 examples/s", "–")
    assert compare([empty, run("a", cores=2, rate=50.0)])[1].efficiency is None


@pytest.mark.parametrize(("expected", "per_core", "efficiency"), [(None, None, None), (4, 100.0, 0.5)])
def test_the_rate_of_a_job_that_names_no_cores_is_divided_by_those_of_its_slice(
    expected: int | None, per_core: float | None, efficiency: float | None
) -> None:
    runs = []
    for rate, cores in ((400, 2), (400, expected)):
        demux = Demux()
        demux.feed(0, f"epoch 1 step 9 loss 2.5 throughput: {rate} samples/s\n".encode())
        runs.append(summarize(RunFacts("a", cores_expected=cores), demux.snapshot()))
    one = compare(runs)[1]
    assert (one.rate_total, one.rate_per_core, one.efficiency, one.speedup) == (400.0, per_core, efficiency, 1.0)
    assert dict(row[::2] for row in comparison_rows([one, one, one])).get("cores") == (expected and str(expected))


def test_only_the_differences_of_the_commands_are_shown() -> None:
    first = run("a", cores=1, rate=1.0, argv=("python", "train.py", "--lr", "0.1"))
    second = run("b", cores=1, rate=1.0, argv=("python", "train.py", "--lr", "0.2"))
    assert comparison_texts(compare([first, second])) == [("command", "--lr 0.1", "--lr 0.2")]
    assert comparison_texts(compare([first, first])) == []


def test_values_are_shown_with_their_options_even_if_other_runs_have_the_options_too() -> None:
    words = ("python", "-m", "job", "--epochs", "2", "--steps")
    first = run("a", cores=1, rate=1.0, argv=(*words, "600", "--interval", "0.5", "--straggler", "37"))
    second = run(
        "b", cores=1, rate=1.0, argv=(*words, "90", "--interval", "0.1", "--fast", "--shift", "-3", "my data")
    )
    third = run("c", cores=1, rate=1.0, argv=words)
    assert comparison_texts(compare([first, second, third])) == [
        (
            "command",
            "--steps 600  --interval 0.5  --straggler 37",
            "--steps 90  --interval 0.1  --fast  --shift -3 'my data'",
            "--steps",
        )
    ]


def test_the_lowest_loss_is_never_above_the_last_one() -> None:
    demux = Demux()
    for step in range(400):
        for core in range(3):
            loss = f"{5 - step / 100 + (0.3 if step < 399 else 0):.5f}"
            demux.feed(0, f"{training(core=core, step=step, loss=loss)}\n".encode(), now=1000.0 + step + core / 10)
    # One more step that a single core has printed, with a loss above the others'.
    demux.feed(0, f"{training(core=0, step=400, loss='9.00000')}\n".encode(), now=1400.5)
    (one,) = compare([summarize(RunFacts("a"), demux.snapshot(now=1401.0))])
    assert one.summary.loss is not None
    assert one.lowest_loss is not None
    assert one.lowest_loss <= one.summary.loss.median


def test_the_newest_rate_is_the_one_that_status_shows() -> None:
    summary = run("a", cores=2, rate=50.0)
    (one,) = compare([summary])
    assert one.to_json()["rate_newest"] == summary.snapshot.rate_total == 100.0


def test_remote_text_stays_on_one_line_and_unknown_is_null() -> None:
    (one,) = compare([run("a", cores=1, rate=1.0, cause="it said\n\x1b[31mno")])
    ((name, cause),) = comparison_texts([one])
    assert name == "cause"
    assert "\n" not in cause
    assert "\x1b" not in cause
    document = one.to_json()
    assert " ".join(document) == NAMES
    assert document["max_accuracy"] is None
