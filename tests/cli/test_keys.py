"""`keys add` on a first day: a user's own key is refused, added to the metadata, and accepted."""

from __future__ import annotations

import getpass
import re
import signal
import stat
from pathlib import Path

import pytest

from tests.cli.commands import Question
from tests.cli.conftest import LocalPod
from tests.sshd import make_key
from tui.settings import save_profile

pytestmark = pytest.mark.timing


@pytest.fixture(scope="module")
def newcomer(pod: LocalPod) -> str:
    """Save a profile that uses the pod without its key, and return the profile's name."""
    endpoints = {"tpu": pod.announced["tpu_api"]["grpc"], "compute": pod.announced["compute_api"]}
    place = {"project": "local", "zones": ["local-a"], "endpoints": endpoints, "token": pod.announced["token"]}
    values = {**place, "user": getpass.getuser()}
    save_profile(pod.shell.home, "new", values)
    return "new"


def test_the_refusal_names_keys_add_and_a_key_that_it_adds_is_accepted(pod: LocalPod, newcomer: str) -> None:
    refused = pod.run("--profile", newcomer, "exec", "local", "--", "true")
    assert refused.code == 3
    assert "`tpu-tui keys add local`" in refused.errors
    assert "gcloud compute tpus tpu-vm ssh local" in refused.errors

    tried = pod.call("--profile", newcomer, "keys", "add", "local", "--dry-run", "--json")
    key = pod.shell.home / ".ssh" / "google_compute_engine"
    assert (tried.code, tried.document["added"], tried.document["made"], key.exists()) == (0, False, False, False)

    unconfirmed = pod.call("--profile", newcomer, "keys", "add", "local")
    assert (unconfirmed.code, key.exists()) == (2, False)
    assert "--yes" in unconfirmed.errors

    added = pod.run("--profile", newcomer, "keys", "add", "local", "--yes", "--json")
    assert added.code == 0, added.errors
    assert (added.document["made"], added.document["added"]) == (True, True)
    assert [row["accepted"] for row in added.document["workers"]] == [True] * 4
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    assert Path(f"{key}.pub").read_text().startswith("ssh-rsa AAAA")
    assert pod.call("--profile", newcomer, "exec", "local", "--", "true").code == 0

    made = key.read_bytes()
    again = pod.call("--profile", newcomer, "keys", "add", "local", "--json")
    assert (again.code, again.document["added"], again.document["found"]) == (0, False, "slice"), again.errors
    assert key.read_bytes() == made

    invalid = pod.call("--profile", newcomer, "--user", "fred a:b", "keys", "add", "local", "--yes")
    assert (invalid.code, "not a valid user name" in invalid.errors) == (2, True)


def test_a_key_named_by_identity_is_added_to_the_others(pod: LocalPod, newcomer: str, tmp_path: Path) -> None:
    make_key(tmp_path / "other")
    words = ("--profile", newcomer, "--identity", str(tmp_path / "other"), "keys", "add", "local", "--yes", "--json")
    first, second = pod.call(*words).document, pod.call(*words).document
    assert (first["added"], first["made"], second["added"], second["found"]) == (True, False, False, "slice")
    assert first["key"] == str(tmp_path / "other")


def test_a_key_for_an_instance_group_is_added_to_the_project(pod: LocalPod, newcomer: str, tmp_path: Path) -> None:
    make_key(tmp_path / "key")
    words = ("--profile", newcomer, "--identity", str(tmp_path / "key"))
    image = ("--image-family", "debian-12", "--image-project", "debian-cloud")
    group = ("groups", "create", "vms", "--size", "1", "--machine-type", "ct6e-standard-1t", *image)
    assert pod.call("--profile", "local", *group).code == 0
    assert "`tpu-tui keys add vms`" in pod.call(*words, "exec", "vms", "--", "true").errors
    preview = pod.call(*words, "keys", "add", "vms", "--dry-run")
    assert "on the worker of vms, through the project's metadata, which all its VMs use" in preview.errors

    added = pod.call(*words, "keys", "add", "vms", "--yes", "--json")

    assert (added.code, added.document["added"], added.document["found"]) == (0, True, None), added.errors
    assert pod.call(*words, "exec", "vms", "--", "true").code == 0
    assert pod.call(*words, "keys", "add", "vms", "--json").document["found"] == "project"


def test_read_only_and_machines_without_metadata_are_refused(pod: LocalPod, newcomer: str, tmp_path: Path) -> None:
    answer = pod.call("--profile", newcomer, "--read-only", "keys", "add", "local", "--yes")
    assert answer.code == 2
    assert "--read-only" in answer.errors
    hosts = tmp_path / "lab.txt"
    hosts.write_text("127.0.0.1\n")
    answer = pod.call("--hosts", str(hosts), "keys", "add", "lab", "--yes")
    assert answer.code == 2
    assert "ssh-copy-id" in answer.errors


def test_a_user_at_a_terminal_is_asked_and_may_decline(pod: LocalPod, newcomer: str, tmp_path: Path) -> None:
    make_key(tmp_path / "third")
    words = ("--profile", newcomer, "--identity", str(tmp_path / "third"), "keys", "add", "local")
    with Question(pod.shell, *words) as question:
        question.waits_for("[y/N] ")
        answer = question.answers("n\n")
    with Question(pod.shell, *words) as left:
        left.waits_for("[y/N] ")
        left.process.send_signal(signal.SIGINT)
        assert left.ends().code == 130
    assert answer.code == 2
    assert re.search(rf"log in as {getpass.getuser()} on the 4 workers of local.*\[y/N\]", answer.errors)
    answer = pod.call(*words, "--dry-run")
    assert "Would let" in answer.errors
