"""What the API's states mean for a run whose workers do not answer."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tui.pod.job_options import JobOptions
from tui.pod.run import Run
from tui.pod.slice import Slice, Symptom
from tui.pod.worker import Worker
from tui.runs.health.slice_diagnosis import diagnose

RUN = Run(
    "pod-20261121-101500-00aa",
    "pod",
    JobOptions(("true",)),
    (Worker(0),),
    zone="z",
    slice_created="2026-11-21T09:00:00Z",
)
BEFORE, AFTER = "2026-11-21T09:00:00Z", "2026-11-21T11:00:00Z"


def slice_in(state: str | None, created: str = BEFORE, **fields: object) -> Slice:
    return Slice("pod", zone="z", state=state, created=created, **fields)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("state", "kind", "remedy"),
    [
        ("PREEMPTED", "preempted", "slices delete pod"),
        ("SUSPENDED", "preempted", "slices delete pod"),
        ("TERMINATED", "terminated", "slices delete pod"),
        ("STOPPED", "stopped", "slices start pod"),
        ("STOPPING", "stopped", "slices start pod"),
        ("DELETING", "deleted", "slices create pod"),
        ("HIDDEN", "deleted", "slices create pod"),
    ],
)
def test_final_states_come_with_a_remedy(state: str, kind: str, remedy: str) -> None:
    diagnosis = diagnose(RUN, slice_in(state))
    assert (diagnosis.kind, diagnosis.is_final, diagnosis.is_cause) == (kind, True, True)
    assert f"slice pod {'is being' if kind == 'deleted' else 'was'} {kind}" in diagnosis.text
    assert state in diagnosis.text
    assert remedy in diagnosis.remedy


def test_the_remedy_recreates_the_slice_as_the_api_or_the_run_record_describes_it() -> None:
    spot = replace(RUN, accelerator_type="v3-32", versions={"runtime": "tpu-vm-pt-2.0"}, spot=True)
    again = "tpu-tui slices create pod --zone z --type v3-32 --version tpu-vm-pt-2.0 --spot makes it again"
    assert diagnose(spot, None).remedy == again
    now = slice_in("PREEMPTED", accelerator_type="v3-32", runtime_version="tpu-vm-pt-2.0", preemptible=True)
    assert diagnose(RUN, now).remedy == f"tpu-tui slices delete pod --zone z, then {again}"
    firm = replace(now, preemptible=False, spot=False, runtime_version="odd; rm -rf ~")
    assert diagnose(spot, firm).remedy.endswith(
        "create pod --zone z --type v3-32 --version 'odd; rm -rf ~' makes it again"
    )


@pytest.mark.parametrize(
    ("state", "kind"), [("REPAIRING", "maintenance"), ("RESTARTING", "maintenance"), ("STARTING", "changing")]
)
def test_temporary_states_are_not_final(state: str, kind: str) -> None:
    diagnosis = diagnose(RUN, slice_in(state))
    assert (diagnosis.kind, diagnosis.is_final, diagnosis.is_cause) == (kind, False, True)


def test_a_slice_that_does_not_exist_was_deleted() -> None:
    diagnosis = diagnose(RUN, None)
    assert (diagnosis.kind, diagnosis.is_final, diagnosis.text) == ("deleted", True, "slice pod is deleted")


def test_a_slice_of_the_same_name_created_at_another_time_is_another_one() -> None:
    assert diagnose(RUN, slice_in("READY", AFTER)).kind == "replaced"


def test_a_ready_slice_is_not_the_cause_but_its_health_may_be() -> None:
    assert diagnose(RUN, slice_in("READY", health="HEALTHY")).kind == "ready"
    assert not diagnose(RUN, slice_in("READY")).is_cause
    sick = diagnose(RUN, slice_in("READY", health="UNHEALTHY_MAINTENANCE", health_description="host 3 is serviced"))
    assert (sick.kind, sick.is_final) == ("maintenance", False)
    assert "host 3 is serviced" in sick.text
    assert diagnose(RUN, slice_in("READY", health="TIMEOUT")).kind == "unhealthy"


def test_symptoms_of_single_workers_are_shown_without_control_characters() -> None:
    symptom = Symptom("OUT_OF_MEMORY", "2", "killed \x1b[31mpython\n")
    text = diagnose(RUN, slice_in("READY", symptoms=(symptom,))).text
    assert "OUT_OF_MEMORY on worker 2 killed" in text
    assert "\x1b" not in text
    assert "\n" not in text


def test_a_state_that_is_not_documented_is_unknown() -> None:
    diagnosis = diagnose(RUN, slice_in("MELTED"))
    assert (diagnosis.kind, diagnosis.is_final, diagnosis.is_cause) == ("unknown", False, False)
