"""What a resource costs, who made it, and in which order resources are deleted."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timezone

import pytest

from tui.errors import CloudError, UsageError
from tui.pod.resources import (
    BUCKET,
    DISK,
    GROUP,
    IMAGE,
    POLICY,
    QUEUED,
    SLICE,
    TEMPLATE,
    CloudResource,
    ResourceListing,
    attach_users,
    describe_effect,
    find_resources,
    find_unused,
    in_order_of_cost,
    in_order_of_deletion,
    is_made_by_us,
    slice_costs,
)

OWN = {"labels": {"created-by": "tpu-tui"}, "made_by_us": True}
POD = CloudResource(SLICE, "pod", "z-a", "READY", cost_relevant=True, **OWN)
QUEUE = CloudResource(QUEUED, "q", "z-a", "ACTIVE", cost_relevant=False, **OWN)
FIRST = replace(POD, name="q-0", belongs_to="z-a/q")
DATA = CloudResource(DISK, "data", "z-a", "READY", cost_relevant=True, **OWN)
BASE = CloudResource(IMAGE, "base", cost_relevant=True, **OWN)
STORE = CloudResource(BUCKET, "store", "z", is_empty=True, cost_relevant=False, **OWN)
EVERYTHING = (STORE, BASE, DATA, POD, FIRST, QUEUE)


def test_a_label_says_who_made_it_and_a_description_only_where_there_are_no_labels() -> None:
    assert is_made_by_us({"created-by": "tpu-tui"})
    assert not is_made_by_us({"created-by": "terraform"}, "tpu-tui: mine")
    assert not is_made_by_us({"team": "vision"}, "tpu-tui: mine")
    assert is_made_by_us({}, "tpu-tui: pod-4")
    assert not is_made_by_us({}, "made by tpu-tui: no")


@pytest.mark.parametrize(
    ("state", "costs"),
    [
        ("READY", True),
        ("STOPPED", True),
        ("REPAIRING", True),
        ("PREEMPTED", False),
        ("CREATING", False),
        (None, None),
    ],
)
def test_a_slice_costs_while_it_is_ready_and_its_disks_while_it_is_stopped(
    state: str | None, costs: bool | None
) -> None:
    assert slice_costs(state) is costs


def test_queued_resources_go_with_their_slices_then_slices_disks_and_images_and_buckets_last() -> None:
    assert in_order_of_deletion(EVERYTHING) == [[QUEUE], [POD], [BASE, DATA], [STORE]]


GROUP_OF_VMS = CloudResource(
    GROUP, "g", "z-a", "STABLE", uses=("template/g", "policy/z/g"), cost_relevant=True, **OWN
)
MADE_OF = CloudResource(TEMPLATE, "g", uses=("image/base",), cost_relevant=False, **OWN)
SHAPE = CloudResource(POLICY, "g", "z", cost_relevant=False, **OWN)


def test_groups_go_first_then_their_templates_and_policies_then_images() -> None:
    assert in_order_of_deletion([BASE, SHAPE, MADE_OF, GROUP_OF_VMS]) == [[GROUP_OF_VMS], [SHAPE, MADE_OF], [BASE]]


def test_what_a_group_is_made_of_is_used_by_it_and_unused_when_the_group_is() -> None:
    known = attach_users([BASE, SHAPE, MADE_OF, GROUP_OF_VMS])

    assert [one.used_by for one in known] == [("g",), ("z-a/g",), ("z-a/g",), ()]
    assert [one.ref for one in find_unused(known)] == ["group/z-a/g", "template/g", "policy/z/g", "image/base"]
    live = attach_users([BASE, SHAPE, MADE_OF, replace(GROUP_OF_VMS, used_by=("run-1",))])
    assert find_unused(live) == []
    assert [one.used_by for one in attach_users([BASE, MADE_OF], [GROUP])] == [("g",), None]


def test_what_costs_comes_first_and_the_oldest_of_it_before_the_others() -> None:
    old, new = replace(POD, created="2026-01-01T00:00:00Z"), replace(DATA, created="2026-02-01T00:00:00Z")
    unknown = replace(STORE, cost_relevant=None)
    assert in_order_of_cost([QUEUE, unknown, new, old]) == [old, new, unknown, QUEUE]


def test_unused_is_what_tpu_tui_made_and_nothing_uses() -> None:
    used = replace(POD, name="busy", used_by=("run-1",))
    foreign = replace(POD, name="foreign", labels={}, made_by_us=False)
    full, unknown = replace(STORE, name="full", is_empty=False), replace(STORE, name="dark", is_empty=None)
    undecided = replace(DATA, name="undecided", used_by=None)
    assert find_unused([*EVERYTHING, used, foreign, full, unknown, undecided]) == list(EVERYTHING)


def test_a_disk_that_only_deleted_slices_use_goes_with_them() -> None:
    disk = replace(DATA, used_by=("pod",))
    assert find_unused([POD, disk]) == [POD, disk]
    assert find_unused([replace(POD, used_by=("run-1",)), disk]) == []
    assert find_unused([POD, replace(disk, used_by=("pod", "vm"))]) == [POD]
    assert find_unused([POD, replace(disk, zone="z-b")]) == [POD]


def test_a_name_finds_its_resource_however_it_is_written() -> None:
    listing = ResourceListing(EVERYTHING)
    for name in ("data", "z-a/data", "disk/data", "disk/z-a/data"):
        assert find_resources([name], listing) == [DATA]
    assert find_resources(["gs://store", "store"], listing) == [STORE]
    assert find_resources(["base", "pod"], listing) == [BASE, POD]


def test_a_queued_resource_and_its_slice_of_the_same_name_are_one() -> None:
    slice_ = replace(FIRST, name="q")
    assert find_resources(["q"], ResourceListing((slice_, QUEUE))) == [QUEUE]


def test_a_name_of_several_or_of_none_is_refused_with_the_candidates() -> None:
    with pytest.raises(UsageError, match="name of several resources") as several:
        find_resources(["pod"], ResourceListing((POD, replace(DATA, name="pod"))))
    assert several.value.remedy == "name one of: disk/z-a/pod, slice/z-a/pod"
    with pytest.raises(UsageError, match="no such resource: dat") as none:
        find_resources(["dat"], ResourceListing(EVERYTHING))
    assert none.value.remedy == "did you mean data?"
    with pytest.raises(CloudError, match="did not answer"):
        find_resources(["gone"], ResourceListing(EVERYTHING, (CloudError("the zone did not answer"),)))


def test_each_line_of_a_deletion_says_what_goes_with_it() -> None:
    used = replace(POD, used_by=("run-1",), made_by_us=False)
    full = replace(STORE, is_empty=False)
    assert describe_effect([full, used, QUEUE], [*EVERYTHING, used]) == [
        "queued-resource/z-a/q · ACTIVE · with its slices q-0 and their disks",
        "slice/z-a/pod · READY · with the disks of its workers · used by run-1 · not made by tpu-tui",
        "gs://store · with everything that is stored in it",
    ]


def test_the_row_keeps_the_names_of_the_contract() -> None:
    row = replace(POD, created="2026-01-01T00:00:00Z", chips=4, used_by=("run-1",)).to_json()
    assert list(row)[:11] == [
        "kind",
        "name",
        "zone",
        "state",
        "created",
        "age_s",
        "chips",
        "labels",
        "used_by",
        "made_by_us",
        "cost_relevant",
    ]
    assert (row["kind"], row["used_by"], row["chips"]) == ("slice", ["run-1"], 4)
    later = datetime(2026, 1, 2, tzinfo=timezone.utc)
    assert replace(POD, created="2026-01-01T00:00:00Z").age_s(later) == 86_400
    assert replace(DATA, used_by=None).to_json()["used_by"] is None
