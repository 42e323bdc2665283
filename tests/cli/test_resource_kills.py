"""Killed commands leave nothing that `resources` does not list. `make chaos` kills a hundred of them."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.chaos.leftovers import LeftoverHunt
from tests.pods import pod_process_in
from tests.stores import needs_store

ROUNDS = 4


@needs_store
@pytest.mark.timing
@pytest.mark.parametrize("seed", [27, 29])
def test_whatever_a_killed_command_leaves_is_listed_and_removed(seed: int, tmp_path: Path) -> None:
    with pod_process_in(tmp_path) as pod:
        hunt = LeftoverHunt(tmp_path, pod.announcement, random.Random(seed))
        for _ in range(ROUNDS):
            hunt.round()
        hunt.clean()
        hunt.close()
    assert hunt.killed.total() == ROUNDS


@needs_store
@pytest.mark.timing
def test_the_deletion_of_a_group_that_is_killed_and_repeated_leaves_nothing(tmp_path: Path) -> None:
    with pod_process_in(tmp_path) as pod:
        hunt = LeftoverHunt(tmp_path, pod.announcement, random.Random(28))
        hunt.prepare_vm()
        while hunt.killed.total() < 2:
            hunt.round_of_group()
        hunt.close()
