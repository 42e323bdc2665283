"""Why a group lost a VM."""

from __future__ import annotations

import pytest

from tests.cloud.group_documents import operation
from tui.cloud.instance_groups.vm_losses import explain_losses
from tui.pod.worker import Worker

LOST = Worker(2, hostname="tpus-x", machine_id="11")
VM, GROUP = "instances/tpus-x", "instanceGroupManagers/tpus"
LAUNCH, BEFORE, AFTER, LATER = (f"2026-11-24T{hour}:00:00.000-08:00" for hour in ("07", "06", "08", "09"))
USER = "ada@example.com"
AGENT = "123@cloudservices.gserviceaccount.com"


def reason(*operations: dict[str, object], is_left: bool = True) -> str | None:
    left = (Worker(0, hostname="tpus-x", machine_id="12"),) if is_left else ()
    return explain_losses(operations, "tpus", (LOST,), left, LAUNCH).get(2)


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("compute.instances.preempted", "was preempted"),
        ("compute.instances.hostError", "was lost with its host (host error)"),
        ("compute.instances.repair.recreateInstance", "was repaired by tpus, which recreated it"),
    ],
)
def test_a_system_event_explains_more_than_what_followed_it(kind: str, text: str) -> None:
    event = operation(kind, VM, AFTER, user="system", targetId="11")
    deletion = operation("delete", VM, LATER, user=AGENT, targetId="11")
    creation = operation("insert", VM, LATER, user=AGENT, targetId="12")
    assert reason(event, deletion, creation) == text


def test_a_request_to_the_group_explains_the_deletion_that_carried_it_out() -> None:
    deletion = operation("delete", VM, LATER, user=AGENT, targetId="11")
    resize = operation("compute.instanceGroupManagers.resize", GROUP, AFTER, user=USER)
    recreation = operation("compute.instanceGroupManagers.recreateInstances", GROUP, AFTER, user=USER)
    assert reason(deletion, resize, is_left=False) == f"was deleted by a resize of tpus by {USER}"
    assert reason(deletion, recreation) == f"was recreated by tpus by {USER}"


def test_a_resize_does_not_explain_a_vm_that_the_group_made_again() -> None:
    resize = operation("compute.instanceGroupManagers.resize", GROUP, AFTER, user=USER)
    stop = operation("stop", VM, AFTER, user=USER, targetId="11")
    assert reason(resize, stop) == f"was stopped by {USER}"


def test_events_of_earlier_runs_and_of_other_machines_explain_nothing() -> None:
    assert reason(operation("compute.instances.preempted", VM, BEFORE, targetId="11")) is None
    assert reason(operation("compute.instances.preempted", VM, AFTER, targetId="10")) is None
    assert reason(operation("compute.instances.preempted", "instances/tpus-y", AFTER)) is None
    assert reason(operation("compute.instances.preempted", VM, "not a time")) is None


def test_a_user_name_is_text_only() -> None:
    deletion = operation("delete", VM, AFTER, user="a{group}\n@example.com", targetId="11")
    assert reason(deletion) == "was deleted by a{group} @example.com"
