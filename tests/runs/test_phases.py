from __future__ import annotations

import json

import pytest

from tui.errors import UsageError
from tui.runs.launch.phases import PhaseTimeouts


def test_the_phases_that_are_named_get_their_time_and_the_others_keep_theirs() -> None:
    assert PhaseTimeouts.parse(["prepare=300", "connect=7.5"]) == PhaseTimeouts(connect=7.5, prepare=300)
    assert PhaseTimeouts.parse([]) == PhaseTimeouts()


@pytest.mark.parametrize(
    "word", ["prepare", "prepare=", "prepare=soon", "prepare=0", "sync=inf", "sync=nan", "launch=3"]
)
def test_what_is_no_time_for_a_phase_is_refused_by_name(word: str) -> None:
    with pytest.raises(UsageError, match=word.partition("=")[0]):
        PhaseTimeouts.parse([word])


def test_timeouts_travel_as_json() -> None:
    timeouts = PhaseTimeouts(sync=5)
    assert PhaseTimeouts(**json.loads(json.dumps(timeouts.to_json()))) == timeouts
