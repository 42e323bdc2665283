"""Whether somebody looks after a run: told once when it changes, and not for a moment's absence."""

from __future__ import annotations

import pytest

from tui.operator.keeper_supervision import (
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
    """A watch with a clock of its own."""

    def __init__(self) -> None:
        self.now = 0.0
        self._watch = KeeperWatch(lambda: self.now)

    def look(self, attended: KeeperStatus, state: RunState = RunState.RUNNING) -> KeeperStatus | None:
        return self._watch.changed(RunStatus(RUN, state, attended, ()))


@pytest.fixture
def watched() -> Watched:
    return Watched()


def test_an_absence_is_reported_once(watched: Watched) -> None:
    assert watched.look(THERE) is None
    assert watched.look(AWAY) is None
    watched.now = UNATTENDED_AFTER_S
    assert watched.look(AWAY) is AWAY
    watched.now = 100.0
    assert watched.look(AWAY) is None


def test_a_return_is_reported_once_and_a_second_absence_again(watched: Watched) -> None:
    for watched.now in (0.0, 2.0):
        watched.look(AWAY)
    assert watched.look(THERE) is THERE
    assert watched.look(THERE) is None
    assert watched.look(AWAY) is None
    watched.now = 4.0
    assert watched.look(AWAY) is AWAY


def test_a_moment_between_two_keepers_is_no_news(watched: Watched) -> None:
    watched.look(AWAY)
    watched.now = UNATTENDED_AFTER_S / 2
    assert watched.look(THERE) is None
    watched.now = UNATTENDED_AFTER_S
    assert watched.look(AWAY) is None


def test_a_run_that_is_over_needs_nobody(watched: Watched) -> None:
    for watched.now in (0.0, 100.0):
        assert watched.look(AWAY, RunState.SUCCEEDED) is None


def test_a_keeper_that_came_and_went_unseen_is_a_new_absence(watched: Watched) -> None:
    watched.look(AWAY)
    watched.now = UNATTENDED_AFTER_S
    assert watched.look(AWAY) is AWAY
    gone_again = KeeperStatus(False, 20.0, 2)
    assert watched.look(gone_again) is gone_again
    assert watched.look(gone_again) is None


def test_keepers_follow_one_another_ever_slower_and_not_for_ever() -> None:
    now = [0.0]
    restarts = RestartLimiter(lambda: now[0])
    assert [restarts.next_pause() for _ in RESTART_PAUSES_S] == list(RESTART_PAUSES_S)
    assert restarts.next_pause() is None
    now[0] = RESTART_WINDOW_S
    assert restarts.next_pause() == RESTART_PAUSES_S[0]
