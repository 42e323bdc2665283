from __future__ import annotations

import pytest

from tui.errors import UsageError
from tui.runs.launch.phases import PhaseTimeouts


def test_named_phases_get_the_given_timeout_and_the_others_keep_the_default() -> None:
    assert PhaseTimeouts.parse(["prepare=300", "connect=7.5"]) == PhaseTimeouts(connect=7.5, prepare=300)
    assert PhaseTimeouts.parse([]) == PhaseTimeouts()


@pytest.mark.parametrize(
    "word", ["prepare", "prepare=", "prepare=soon", "prepare=0", "sync=inf", "sync=nan", "launch=3"]
)
def test_an_invalid_timeout_of_a_phase_is_refused_by_name(word: str) -> None:
    with pytest.raises(UsageError, match=word.partition("=")[0]):
        PhaseTimeouts.parse([word])
