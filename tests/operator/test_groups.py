"""Groups deleted with what tpu-tui made for them, and with nothing else."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tests.operator.conftest import Project
from tui.errors import UsageError
from tui.pod.groups.group_request import GroupRequest
from tui.pod.resources import IMAGE, find_unused

BASE = {"image_family": "debian-12", "image_project": "debian-cloud"}
PYTORCH = GroupRequest("pytorch", "local-a", size=2, machine_type="n1-standard-16", **BASE)
BIG = GroupRequest("big", "local-a", machine_type="ct6e-standard-4t", topology="2x4", **BASE)
PREPARED = {"name": "prepared", "machineType": "zones/local-a/machineTypes/n1-standard-16", "disks": [{"boot": True}]}


async def create(project: Project, request: GroupRequest) -> None:
    groups = project.operator.groups
    _ = [step async for step in groups.create(await groups.prepare(request))]


async def delete(project: Project, name: str, keep: Sequence[str] = ()) -> list[str]:
    plan = await project.operator.groups.plan_deletion(name, keep)
    steps = [step async for step in project.operator.resources.delete(plan.chosen)]
    assert [step.problem for step in steps if step.problem] == []
    return [*plan.stays, *(step.resource.ref for step in steps if step.is_gone)]


async def test_a_group_goes_first_and_then_its_template_and_image(project: Project) -> None:
    await project.compute.instances.boot(project.compute.instances.insert("local-a", PREPARED))
    await create(project, GroupRequest("g", "local-a", size=1, machine_type="n1-standard-16", image_from="prepared"))
    rows = {one.ref: one for one in (await project.operator.resources.list_compute()).resources}

    assert rows["template/g"].used_by == ("local-a/g",)
    assert rows["image/g"].used_by == ("g",)
    assert [one.ref for one in find_unused([*rows.values()])] == ["group/local-a/g", "template/g", "image/g"]
    assert await delete(project, "g") == ["group/local-a/g", "template/g", "image/g"]
    with pytest.raises(UsageError, match="no such group in local-a: g"):
        await delete(project, "g")


async def test_the_policy_of_a_slice_goes_with_its_group(project: Project) -> None:
    await create(project, BIG)
    rows = {one.ref: one for one in (await project.operator.resources.list_compute()).resources}
    group = rows["group/local-a/big"]
    assert (group.chips, group.cost_relevant, group.made_by_us) == (8, True, True)
    assert (rows["policy/local/big"].cost_relevant, rows["policy/local/big"].used_by) == (False, ("local-a/big",))

    (group_first, *others) = await delete(project, "local-a/big")

    assert group_first == "group/local-a/big"
    assert sorted(others) == ["policy/local/big", "template/big"]


async def test_what_is_kept_and_what_others_use_stays_and_is_named(project: Project) -> None:
    await create(project, PYTORCH)
    await create(project, GroupRequest("other", "local-a", size=1, template="pytorch"))

    assert await delete(project, "other") == [
        "template pytorch stays: tpu-tui did not make it for this group",
        "group/local-a/other",
    ]
    await create(project, GroupRequest("other", "local-a", size=1, template="pytorch"))
    left, gone = await delete(project, "pytorch", [IMAGE])
    assert left == "template pytorch stays: local-a/other uses it"
    assert gone == "group/local-a/pytorch"
    _ = await delete(project, "other")
    assert await delete(project, "pytorch", ["template"]) == ["template pytorch stays, as --keep template says"]
    assert await delete(project, "pytorch") == ["template/pytorch"]


async def test_a_slice_that_is_a_group_is_deleted_but_neither_stopped_nor_started(project: Project) -> None:
    await create(project, BIG)
    slice_ = await project.operator.slices.get("local-a/big")

    for action in ("stop", "start"):
        with pytest.raises(UsageError, match=f"group big cannot be {action}") as caught:
            _ = [line async for line in project.operator.slices.change(slice_, action)]
        assert "tpu-tui groups resize local-a/big --size 0" in caught.value.remedy
    lines = [line async for line in project.operator.slices.change(slice_, "delete")]

    assert lines[-1].endswith(" is deleted")
    assert project.compute.groups.all() == []
    assert {one.kind for one in (await project.operator.resources.list_compute()).resources} == set()


async def test_a_template_counts_as_used_while_groups_cannot_be_listed(project: Project) -> None:
    await create(project, PYTORCH)
    project.compute.faults.denied.add("compute.instanceGroupManagers.list")

    listing = await project.operator.resources.list_compute()

    (template,) = [one for one in listing.resources if one.kind == "template"]
    assert template.used_by is None
    assert find_unused(listing.resources) == []
    project.compute.faults.denied.clear()
    _ = await delete(project, "pytorch")
