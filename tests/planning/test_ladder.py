from __future__ import annotations

import pytest

from tui.planning import FinishedRun, make_ladders


def run(kind: str, rate: float | None, *, succeeded: bool = True, name: str = "run") -> FinishedRun:
    return FinishedRun(name, kind, succeeded, rate)


def test_each_rung_is_compared_with_the_smallest() -> None:
    (ladder,) = make_ladders([run("v3-32", 7600.0), run("v3-8", 2000.0)])

    assert [(rung.accelerator_type, rung.rate_per_core, rung.efficiency) for rung in ladder.rungs] == [
        ("v3-8", 250.0, 1.0),
        ("v3-32", 237.5, 0.95),
    ]
    assert (ladder.go_up, ladder.next_type) == (True, "v3-64")


def test_a_rung_that_scales_badly_ends_the_ladder() -> None:
    (ladder,) = make_ladders([run("v2-8", 2000.0), run("v2-32", 7900.0), run("v2-128", 16_000.0)])

    assert (ladder.go_up, ladder.next_type) == (False, None)
    assert "v2-128 keeps 50%" in ladder.advice
    assert "v2-32 is the largest size worth using" in ladder.advice


@pytest.mark.parametrize(
    ("kind", "cores", "following"),
    [
        ("v4-8", 4, "v4-16"),
        ("v5p-16", 8, "v5p-32"),
        ("v5litepod-8", 8, "v5litepod-16"),
        ("v6e-1", 1, "v6e-4"),
        ("tpu7x-8", 8, "tpu7x-16"),
    ],
)
def test_cores_are_counted_as_in_the_generation(kind: str, cores: int, following: str) -> None:
    (ladder,) = make_ladders([run(kind, 100.0)])

    assert (ladder.rungs[0].cores, ladder.rungs[0].rate_per_core) == (cores, 100.0 / cores)
    assert ladder.next_type == following


def test_one_size_is_no_comparison() -> None:
    (ladder,) = make_ladders([run("v4-16", 100.0), run("v4-16", 90.0)])

    assert (ladder.go_up, ladder.next_type) == (False, "v4-32")
    assert ladder.advice == "nothing to compare with: run on v4-32, too, and compare its rate per core with v4-16's"
    assert ladder.rungs[0].verdict == "the only size with a rate"
    (local,) = make_ladders([FinishedRun("run", "local-2", True, 100.0, cores=2)])
    assert local.advice.startswith("nothing to compare with: run on twice as many cores, too")


def test_a_rehearsal_counts_only_where_there_is_no_real_run_and_is_named() -> None:
    made_up = FinishedRun("made-up", "v3-8", True, 9000.0, rehearsal=True)
    (alone,) = make_ladders([made_up, run("v3-32", 8000.0)])
    assert alone.rungs[0].rehearsal
    assert alone.rungs[0].verdict == "smallest (baseline); a rehearsal: its rate is made up"
    assert alone.advice.endswith("; the rate on v3-8 is made up, by a rehearsal")
    (real,) = make_ladders([made_up, run("v3-8", 2000.0, name="real")])
    assert (real.rungs[0].run, real.rungs[0].rehearsal) == ("real", False)


def test_the_fastest_run_that_succeeded_counts() -> None:
    (ladder,) = make_ladders(
        [
            run("v3-8", 1000.0, name="slow"),
            run("v3-8", 9000.0, succeeded=False, name="failed"),
            run("v3-8", 2000.0, name="fast"),
            run("v3-8", float("nan"), name="nan"),
        ]
    )

    assert (ladder.rungs[0].run, ladder.rungs[0].rate_total) == ("fast", 2000.0)


def test_no_larger_size_is_advised_after_one_without_success_or_rate() -> None:
    for top, printed in ((run("v3-32", 1.0, succeeded=False), "no successful run"), (run("v3-32", None), "no rate")):
        (ladder,) = make_ladders([run("v3-8", 2000.0), top])
        assert not ladder.go_up
        assert printed in ladder.advice
        assert ladder.rungs[1].efficiency is None
    worked, failed = run("v3-8", None, name="worked"), run("v3-8", 1.0, succeeded=False, name="failed")
    assert make_ladders([worked, failed])[0].rungs[0].run == "worked"


def test_generations_are_not_compared_and_the_largest_type_has_no_next_one() -> None:
    first, second = make_ladders([run("v3-2048", 1.0), run("v2-8", 1.0), run("local-4", 1.0)])

    assert [first.generation, second.generation] == ["v2", "v3"]
    assert [rung.efficiency for ladder in (first, second) for rung in ladder.rungs] == [1.0, 1.0]
    assert (second.go_up, "largest" in second.advice) == (False, True)
