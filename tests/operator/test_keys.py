"""A user's key for an instance group is added to the project's metadata."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from tests.cloud.compute_pod import GroupPod, group_pod
from tests.sshd import make_key
from tui.cloud.compute.project_metadata import change_project_metadata
from tui.errors import CloudError, UsageError
from tui.operator import Operator
from tui.operator.keys import KeyPlan
from tui.pod.slice import Slice

SET = "compute.projects.setCommonInstanceMetadata"


@asynccontextmanager
async def operator_of(pod: GroupPod, tmp_path: Path) -> AsyncIterator[tuple[Operator, str]]:
    """Open an operator whose user is ada; yield it with her public key."""
    key = tmp_path / "key"
    public = key.with_suffix(".pub").read_text() if key.exists() else make_key(key)
    async with Operator(replace(pod.settings, user="ada", identity=key)) as operator:
        yield operator, " ".join(public.split()[:2])


async def add(operator: Operator, name: str) -> tuple[Slice, KeyPlan]:
    slice_ = await operator.slices.get(name)
    plan = await operator.keys.plan(slice_)
    async with aclosing(operator.keys.add(slice_, plan)) as steps:
        async for _ in steps:
            pass
    return slice_, plan


async def test_a_key_for_a_group_is_added_to_the_project_and_found_there(tmp_path: Path) -> None:
    async with group_pod(tmp_path) as pod, operator_of(pod, tmp_path) as (operator, public):
        await pod.group()
        pod.compute.networks.metadata.update({"ssh-keys": "bob:ssh-rsa BBBB bob", "team": "vision"})

        slice_, plan = await add(operator, "tpus")

        assert (plan.found, plan.place) == (None, "the project's metadata")
        assert pod.compute.networks.metadata == {
            "ssh-keys": f"bob:ssh-rsa BBBB bob\nada:{public} ada",
            "team": "vision",
        }
        async with operator_of(pod, tmp_path) as (later, _):
            assert (await later.keys.plan(slice_)).found == "project"


async def test_a_group_that_blocks_the_projects_keys_is_refused_before_anything_is_asked(tmp_path: Path) -> None:
    async with group_pod(tmp_path) as pod, operator_of(pod, tmp_path) as (operator, _):
        await pod.group(metadata={"block-project-ssh-keys": "TRUE"})
        with pytest.raises(UsageError, match="its template blocks the project's keys"):
            await add(operator, "tpus")
        assert pod.compute.networks.metadata == {}


async def test_a_change_of_the_metadata_in_between_is_kept(tmp_path: Path) -> None:
    async with group_pod(tmp_path) as pod:
        calls: list[dict[str, str]] = []

        def change(metadata: dict[str, str]) -> dict[str, str]:
            calls.append(metadata)
            if len(calls) == 1:
                pod.compute.networks.metadata["team"] = "vision"
            return {**metadata, "mine": "1"}

        _ = [step async for step in change_project_metadata(pod.settings, change)]

        assert calls == [{}, {"team": "vision"}]
        assert pod.compute.networks.metadata == {"team": "vision", "mine": "1"}


async def test_a_missing_permission_is_named(tmp_path: Path) -> None:
    async with group_pod(tmp_path) as pod:
        pod.compute.faults.denied.add(SET)
        with pytest.raises(CloudError, match=SET):
            _ = [step async for step in change_project_metadata(pod.settings, dict)]
