"""Findings about cores: a recovery is recorded only when it is seen, never for a core that ended or is missing."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from tui.logs.demux import Demux
from tui.logs.snapshot import Snapshot
from tui.logs.state import stragglers
from tui.pod.job_options import JobOptions
from tui.pod.run import Run, make_run_id
from tui.pod.worker import Worker
from tui.runs.health.core_watch import CoreWatch
from tui.runs.health.reachability import Reachability
from tui.runs.keeper_timeouts import KeeperTimeouts
from tui.runs.record.event_log import Event
from tui.runs.record.run_directory import RunDirectory
from tui.runs.record.run_status import status_of

CORES = range(8)
LAGGING = 5


class Pod:
    """Four workers of two cores each, whose lines arrive ten seconds apart."""

    def __init__(self, home: Path) -> None:
        workers = tuple(Worker(index, internal_ip=f"10.0.0.{index}") for index in range(4))
        run = Run(make_run_id("w"), "pod", JobOptions(("true",)), workers, cores_per_worker=2)
        self.directory = RunDirectory.create(home / "runs", run)
        self.directory.append_event("state", state="running")
        self.demux = Demux()
        self.reachability = Reachability(KeeperTimeouts())
        self.now = 1_700_000_000.0
        self.step = 0
        self.lagging_step = 0
        self.lagging_rate = "9.00"

    def train(self, *, behind: bool = True, only: tuple[int, ...] = tuple(CORES), loss: str = "2.5") -> None:
        """Print the next step of all cores; the lagging core makes only every third step."""
        self.step, self.now = self.step + 1, self.now + 10
        goes_on = not behind or self.step % 3 == 0
        if goes_on:
            self.lagging_step = self.lagging_step + 1 if behind else self.step
        for core in only if goes_on else [core for core in only if core != LAGGING]:
            step = self.lagging_step if core == LAGGING else self.step
            shown = loss if core == LAGGING else "2.5"
            rate = self.lagging_rate if core == LAGGING else "9.00"
            line = f"| Training Device=xla:0/{core} Epoch=1 Step={step} Loss={shown} Rate={rate} GlobalRate={rate}"
            self.demux.feed(core // 2, f"{line} Time=02:38:57\n".encode(), now=self.now)

    @property
    def snapshot(self) -> Snapshot:
        return self.demux.snapshot(self.now)

    def watch(self) -> CoreWatch:
        return CoreWatch(self.directory, self.reachability, KeeperTimeouts(behind_after=0.0))

    def stall_events(self, stall: str) -> list[Event]:
        return [event for event in self.directory.events()[0] if event.get("stall") == stall]


@pytest.fixture
def pod(tmp_path: Path) -> Pod:
    return Pod(tmp_path)


async def flagged(pod: Pod) -> CoreWatch:
    """Return a watch that has reported the lagging core."""
    watch = pod.watch()
    for _ in range(30):
        pod.train()
    await watch.check_snapshot(pod.snapshot)
    (event,) = pod.stall_events("behind")
    assert (event.worker, event.get("cores")) == (2, [LAGGING])
    return watch


async def test_a_finding_begins_when_the_core_was_first_seen_behind(pod: Pod) -> None:
    watch = CoreWatch(pod.directory, pod.reachability, KeeperTimeouts(behind_after=0.3))
    for _ in range(30):
        pod.train()
    first_look = datetime.now(timezone.utc)
    await watch.check_snapshot(pod.snapshot)
    assert not pod.stall_events("behind")
    while not pod.stall_events("behind"):
        await asyncio.sleep(0.02)
        await watch.check_snapshot(pod.snapshot)
    (finding,) = status_of(pod.directory).findings
    assert finding.since is not None
    found = datetime.fromisoformat(pod.stall_events("behind")[0].time)
    assert found - datetime.fromisoformat(finding.since) >= timedelta(seconds=0.25)
    assert abs(datetime.fromisoformat(finding.since) - first_look) < found - first_look


async def test_a_core_that_hangs_is_recorded_although_it_is_silent(pod: Pod) -> None:
    for step in range(40):
        pod.train(behind=False, only=tuple(core for core in CORES if core != LAGGING or step < 5))
    assert pod.snapshot.row_at(LAGGING).state == "silent"
    await pod.watch().check_snapshot(pod.snapshot)
    assert [event.get("cores") for event in pod.stall_events("behind")] == [[LAGGING]]


async def test_a_core_that_hangs_is_recorded_although_the_others_have_finished(
    pod: Pod, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stragglers, "LASTING_S", 0.0)
    for core in CORES:
        line = f"| Training Device=xla:0/{core} Epoch=1 Step={{}} Loss=2.5 Rate=9.00 GlobalRate=9.00 Time=02:38:57\n"
        with pod.directory.log_path(core // 2).open("a") as log:
            log.writelines(map(line.format, range(5 if core == LAGGING else 40)))
    watch = CoreWatch(pod.directory, pod.reachability, KeeperTimeouts(behind_after=0.1))
    await watch.check()
    while not pod.stall_events("behind"):
        await asyncio.sleep(0.02)
        await watch.check()
    assert [event.get("cores") for event in pod.stall_events("behind")] == [[LAGGING]]


async def test_a_core_that_trains_level_with_the_others_has_recovered_and_its_finding_stays(pod: Pod) -> None:
    watch = await flagged(pod)
    pod.train(behind=False)
    await watch.check_snapshot(pod.snapshot)
    (over,) = pod.stall_events("over")
    assert over.get("text") == f"core {LAGGING} has caught up"
    (finding,) = status_of(pod.directory).findings
    assert (finding.core, finding.worker, finding.address) == (LAGGING, 2, "10.0.0.2")
    assert (finding.recovered, finding.until) == (True, over.time)
    assert finding.since == pod.stall_events("behind")[0].time
    assert finding.pace is not None
    assert 0.3 < finding.pace < 0.4


async def test_a_core_whose_workers_have_ended_has_not_recovered(pod: Pod) -> None:
    watch = await flagged(pod)
    for worker in range(4):
        pod.demux.set_ended(worker, True)
    await watch.check_snapshot(pod.snapshot)
    pod.train(behind=False)
    pod.reachability.mark_ended(LAGGING // 2)
    await watch.check_snapshot(pod.snapshot)
    assert not pod.stall_events("over")


async def test_a_core_that_reaches_the_others_only_because_they_have_stopped_has_not_recovered(pod: Pod) -> None:
    watch = await flagged(pod)
    pod.step -= 1
    pod.train(behind=False, only=(LAGGING,))
    await watch.check_snapshot(pod.snapshot)
    assert not pod.stall_events("over")
    pod.train(behind=False)
    await watch.check_snapshot(pod.snapshot)
    assert len(pod.stall_events("over")) == 1


async def test_a_core_that_is_not_among_the_newest_lines_has_not_recovered(pod: Pod) -> None:
    watch = await flagged(pod)
    pod.demux = Demux()
    for _ in range(5):
        pod.train(only=tuple(core for core in CORES if core != LAGGING))
    await watch.check_snapshot(pod.snapshot)
    assert not pod.stall_events("over")


async def test_nothing_is_found_while_a_run_is_being_stopped(pod: Pod) -> None:
    watch = await flagged(pod)
    pod.directory.append_event("stop_requested", by="user")
    pod.train(behind=False)
    await watch.check_snapshot(pod.snapshot)
    assert not pod.stall_events("over")
    await watch.conclude_with(pod.snapshot)
    assert not pod.stall_events("end")


async def test_a_finding_open_at_the_end_is_recorded_with_its_newest_figures(pod: Pod) -> None:
    watch = await flagged(pod)
    for _ in range(30):
        pod.train()
    await watch.conclude_with(pod.snapshot)
    (end,) = pod.stall_events("end")
    assert end.get("text") == f"core {LAGGING} was 40 steps behind when the run ended"
    (finding,) = status_of(pod.directory).findings
    assert (finding.steps_behind, finding.is_open, finding.recovered) == (40, True, False)


async def test_a_keeper_that_takes_over_does_not_repeat_a_finding_and_records_its_end(pod: Pod) -> None:
    await flagged(pod)
    successor = pod.watch()
    pod.train()
    await successor.check_snapshot(pod.snapshot)
    assert len(pod.stall_events("behind")) == 1
    pod.train(behind=False)
    await successor.check_snapshot(pod.snapshot)
    assert len(pod.stall_events("over")) == 1


async def test_a_slow_core_that_keeps_step_is_recorded_as_slow_and_recovers(pod: Pod) -> None:
    watch = pod.watch()
    pod.lagging_rate = "3.60"
    for _ in range(40):
        pod.train(behind=False)
    await watch.check_snapshot(pod.snapshot)
    assert not pod.stall_events("behind")
    (slow,) = pod.stall_events("slow")
    assert slow.get("text") == f"core {LAGGING}: at 40 % of the median pace for 0 s"
    (finding,) = status_of(pod.directory).findings
    assert (finding.kind, finding.core, finding.pace, finding.is_open) == ("slow", LAGGING, 0.4, True)
    pod.lagging_rate = "9.00"
    for _ in range(40):
        pod.train(behind=False)
    await watch.check_snapshot(pod.snapshot)
    assert [event.get("cores") for event in pod.stall_events("over")] == [[LAGGING]]


async def test_a_core_of_a_worker_out_of_reach_is_not_found_behind(pod: Pod) -> None:
    pod.reachability.mark_unreachable(LAGGING // 2)
    watch = pod.watch()
    for _ in range(30):
        pod.train()
    await watch.check_snapshot(pod.snapshot)
    assert not pod.stall_events("behind")


async def test_a_loss_that_is_a_number_again_is_recorded_and_its_finding_stays(pod: Pod) -> None:
    watch = pod.watch()
    pod.train(behind=False, loss="nan")
    await watch.check_snapshot(pod.snapshot)
    pod.train(behind=False)
    await watch.check_snapshot(pod.snapshot)
    assert pod.stall_events("over")[0].get("text") == f"core {LAGGING}: the loss is a number again"
    (finding,) = status_of(pod.directory).findings
    assert (finding.kind, finding.loss, finding.epoch, finding.step) == ("loss", "nan", 1, 1)
    assert finding.recovered


async def test_where_lines_name_no_cores_the_findings_are_of_workers(pod: Pod) -> None:
    def train(step: int, losses: dict[int, str]) -> None:
        for worker, loss in losses.items():
            pod.demux.feed(worker, f"completed step: {step}, loss: {loss}\n".encode(), now=pod.now + 10 * step)

    watch = pod.watch()
    for step in range(30):
        train(step, {0: "2.5", 1: "nan", 2: "2.5"} | ({3: "2.5"} if step < 3 else {}))
        await watch.check_snapshot(pod.demux.snapshot(pod.now + 10 * step))
    train(29, {2: "inf", 3: "2.5"})
    await watch.check_snapshot(pod.demux.snapshot(pod.now + 290))
    train(30, {0: "2.5", 1: "2.5", 2: "inf", 3: "2.5"})
    await watch.check_snapshot(pod.demux.snapshot(pod.now + 300))
    notes = [(event.get("stall"), event.get("text")) for event in pod.directory.events()[0] if event.get("stall")]
    assert notes == [
        ("loss", "the loss is nan on worker 1 by step 0"),
        ("behind", "worker 3: 4 steps behind the median for 0 s"),
        ("loss", "the loss is inf on worker 2 by step 29"),
        ("over", "worker 1: the loss is a number again"),
        ("over", "worker 3 has caught up"),
    ]
    recovered = {(one.kind, one.core, one.worker): one.recovered for one in status_of(pod.directory).findings}
    assert recovered == {("loss", None, 1): True, ("behind", None, 3): True, ("loss", None, 2): False}


@pytest.mark.parametrize(
    "fields",
    [
        {"cores": "all", "found": 7},
        {"cores": [[], {}, "x", 2**80, True], "found": [7, None, {"core": "x"}]},
        {
            "cores": [LAGGING],
            "found": [{"core": LAGGING, "pace": "quick", "steps_behind": 1e300, "worker": -(2**99)}],
        },
        {"cores": list(range(100_000)), "found": [{}] * 100_000},
    ],
)
def test_a_note_that_makes_no_sense_harms_nothing(pod: Pod, fields: dict[str, Any]) -> None:
    pod.directory.append_event("note", text="x", stall="behind", workers=[2], **fields)
    pod.directory.append_event("note", text="x", stall="over", of=7, workers={}, **fields)
    findings = status_of(pod.directory).findings
    assert len(findings) <= 512
    assert all(one.core is None or isinstance(one.core, int) for one in findings)


def test_notes_of_earlier_versions_are_findings_too(pod: Pod) -> None:
    old = {"text": "core 5: 45 steps behind the median for 120 s", "stall": "behind", "workers": [2], "cores": [5]}
    pod.directory.append_event("note", worker=2, **old)
    pod.directory.append_event("note", text="x", stall="loss", workers=[0, 1], cores=[1, 2])
    assert [(one.kind, one.core, one.worker, one.pace) for one in status_of(pod.directory).findings] == [
        ("behind", 5, 2, None),
        ("loss", 1, 0, None),
        ("loss", 2, 1, None),
    ]
    pod.directory.append_event("note", text="level", stall="over", workers=[], cores=[5])
    assert [one.recovered for one in status_of(pod.directory).findings] == [True, False, False]


def test_a_new_attempt_begins_without_open_findings_and_the_earlier_ones_stay(pod: Pod) -> None:
    pod.directory.append_event("note", worker=2, text="x", stall="behind", workers=[2], cores=[5])
    pod.directory.append_event("state", state="preparing", attempt=1)
    (finding,) = status_of(pod.directory).findings
    assert (finding.is_open, finding.recovered) == (False, False)
