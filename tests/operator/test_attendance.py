"""The watch over a run's keeper: each change is reported once, and a short absence is not."""

from __future__ import annotations

import pytest

from tui.operator.run_watcher import (
    RESTART_PAUSES_S,
    RESTART_WINDOW_S,
    UNATTENDED_AFTER_S,
    KeeperWatch,
    RestartLimiter,
)
from tui.pod.job_options import JobOptions
from tui.pod.run import Run, RunState
from tui.runs.record.keeper_file import KeeperStatus
from tui.runs.record.run_status import RunStatus

pytestmark = pytest.mark.py310

RUN = Run(id="r", slice="pod", job=JobOptions(("true",)), workers=())
THERE, AWAY = KeeperStatus(True, 10.0, 1), KeeperStatus(False, 10.0, 1)


class Watched:
    """A keeper watch with a clock that tests set."""

    def __init__(self) -> None:
        self.now = 0.0
        self._watch = KeeperWatch(lambda: self.now)

    def check(self, attended: KeeperStatus, state: RunState = RunState.RUNNING) -> KeeperStatus | None:
        return self._watch.take_change(RunStatus(RUN, state, attended, ()))


@pytest.fixture
def watched() -> Watched:
    return Watched()


def test_an_absence_is_reported_once(watched: Watched) -> None:
    assert watched.check(THERE) is None
    assert watched.check(AWAY) is None
    watched.now = UNATTENDED_AFTER_S
    assert watched.check(AWAY) is AWAY
    watched.now = 100.0
    assert watched.check(AWAY) is None


def test_a_return_is_reported_once_and_a_second_absence_again(watched: Watched) -> None:
    for watched.now in (0.0, 2.0):
        watched.check(AWAY)
    assert watched.check(THERE) is THERE
    assert watched.check(THERE) is None
    assert watched.check(AWAY) is None
    watched.now = 4.0
    assert watched.check(AWAY) is AWAY


def test_a_short_gap_between_two_keepers_is_not_reported(watched: Watched) -> None:
    watched.check(AWAY)
    watched.now = UNATTENDED_AFTER_S / 2
    assert watched.check(THERE) is None
    watched.now = UNATTENDED_AFTER_S
    assert watched.check(AWAY) is None


def test_a_run_that_is_over_needs_no_keeper(watched: Watched) -> None:
    for watched.now in (0.0, 100.0):
        assert watched.check(AWAY, RunState.SUCCEEDED) is None


def test_a_keeper_that_started_and_ended_unseen_is_a_new_absence(watched: Watched) -> None:
    watched.check(AWAY)
    watched.now = UNATTENDED_AFTER_S
    assert watched.check(AWAY) is AWAY
    gone_again = KeeperStatus(False, 20.0, 2)
    assert watched.check(gone_again) is gone_again
    assert watched.check(gone_again) is None


def test_pauses_between_keepers_grow_and_their_number_is_limited() -> None:
    now = [0.0]
    restarts = RestartLimiter(lambda: now[0])
    assert [restarts.next_pause() for _ in RESTART_PAUSES_S] == list(RESTART_PAUSES_S)
    assert restarts.next_pause() is None
    now[0] = RESTART_WINDOW_S
    assert restarts.next_pause() == RESTART_PAUSES_S[0]
