"""`groups` on a local pod: what is printed, and the shapes of its JSON."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import LocalPod

pytestmark = pytest.mark.timing

OPTIONS = ("--machine-type", "n1-standard-16", "--image-family", "debian-12", "--image-project", "debian-cloud")


def test_a_group_is_created_listed_resized_and_deleted(pod: LocalPod) -> None:
    local = ("--profile", "local", "groups")
    create = (*local, "create", "g", "--size", "1", *OPTIONS, "--tpu-node", "tpu", "--json")
    dry = pod.call(*create, "--dry-run").document
    paths = [one["path"] for one in dry["requests"]]
    assert paths == ["global/instanceTemplates", "zones/local-a/instanceGroupManagers"]
    assert dry["gcloud"][1].startswith("gcloud compute instance-groups managed create g --project=local")

    made = pod.call(*create).document

    row = {"name": "g", "zone": "local-a", "size": 1, "template": "g", "policy": None, "tpu_node": "tpu"}
    assert made["steps"][-1] == "the VM of g runs"
    assert row.items() <= made.items()
    assert pod.call(*local, "list", "--json").document == [{**row, "slice": "g"}]
    grown = pod.call(*local, "resize", "g", "--size", "2", "--json").document
    assert (grown["group"], grown["steps"][-1]) == ("g", "all 2 VMs of g run")
    refused = pod.call(*local, "resize", "g", "--size", "1")
    assert (refused.code, "refusing to delete 1 VM of g" in refused.errors) == (2, True)
    assert pod.call(*local, "delete", "g").code == 2
    gone = pod.call(*local, "delete", "g", "--yes", "--json").document
    assert [(one["kind"], one["deleted"]) for one in gone] == [("group", True), ("template", True)]
    assert pod.call(*local, "list").errors == "No instance groups in project local, local-a.\n"


def test_options_that_do_not_go_together_are_refused(pod: LocalPod) -> None:
    flex = ("--flex-start", "--run-duration", "8h", "--valid-for", "1h", "--detach")
    for words, why in (
        (("--template", "t", "--spot"), "--spot is for a new template"),
        ((*OPTIONS, *flex), "--valid-for needs a command that waits"),
        ((*OPTIONS[:2], "--image-from", "vm"), "there is no VM vm in local-a"),
    ):
        answer = pod.call("--profile", "local", "groups", "create", "g", "--size", "1", *words)
        assert (answer.code, why in answer.errors) == (2, True), answer.errors


def test_a_startup_script_that_fails_names_the_worker_and_the_group_stays(pod: LocalPod, tmp_path: Path) -> None:
    script = tmp_path / "setup.sh"
    script.write_text("#!/bin/sh\necho no such package\nexit 3\n")
    local = ("--profile", "local", "groups")

    answer = pod.call(*local, "create", "s", "--size", "1", *OPTIONS, "--startup-script", str(script), "--json")

    assert answer.code == 1
    assert "the startup script of s failed: worker 0: exit code 3" in answer.errors
    assert "  no such package" in answer.errors
    assert [row["exit_code"] for row in answer.document["startup"]] == [3]
    assert pod.call(*local, "delete", "s", "--yes").code == 0
