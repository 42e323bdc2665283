from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tui.errors import UsageError
from tui.settings import Settings, load, save_profile

pytestmark = pytest.mark.py310


class Machine:
    """A user's home with the files of tpu-tui and gcloud."""

    def __init__(self, root: Path) -> None:
        self.user_home = root / "user"
        self.home = root / "tpu-tui"
        self.gcloud = self.user_home / ".config" / "gcloud"
        self.environ = {"HOME": str(self.user_home), "TPU_TUI_HOME": str(self.home)}

    def load(self, **flags: Any) -> Settings:
        return load(flags, self.environ)

    def write_profile(self, name: str, text: str) -> Path:
        path = self.home / "profiles" / f"{name}.toml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def configure_gcloud(self, name: str, text: str, *, active: bool = True) -> None:
        (self.gcloud / "configurations").mkdir(parents=True, exist_ok=True)
        (self.gcloud / "configurations" / f"config_{name}").write_text(text)
        if active:
            (self.gcloud / "active_config").write_text(name)


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_nothing_configured_means_every_zone_and_strict_host_keys(machine: Machine) -> None:
    settings = machine.load()

    assert (settings.project, settings.zones, settings.host_keys) == (None, (), "strict")
    assert {setting.origin for name, setting in settings.origins.items() if name != "home"} == {"default"}


def test_flag_beats_environment_beats_profile_beats_gcloud_beats_default(machine: Machine) -> None:
    def project() -> tuple[Any, str]:
        found = machine.load(**flags).origins["project"]
        return found.value, found.origin

    flags: dict[str, Any] = {}
    machine.configure_gcloud("work", "[core]\nproject = from-gcloud\n")
    assert project() == ("from-gcloud", "gcloud configuration work")
    path = machine.write_profile("default", 'project = "from-profile"\n')
    assert project() == ("from-profile", f"profile default ({path})")
    machine.environ["CLOUDSDK_CORE_PROJECT"] = "from-gcloud-variable"
    assert project() == ("from-gcloud-variable", "environment CLOUDSDK_CORE_PROJECT")
    machine.environ["TPU_TUI_PROJECT"] = "from-environment"
    assert project() == ("from-environment", "environment TPU_TUI_PROJECT")
    flags["project"] = "from-flag"
    assert project() == ("from-flag", "flag")


def test_zones_repeat_and_a_dash_means_every_zone(machine: Machine) -> None:
    machine.write_profile("default", 'zones = ["us-central1-a", "us-central2-b"]\n')

    assert machine.load().zones == ("us-central1-a", "us-central2-b")
    assert machine.load(zone=["europe-west4-a", "europe-west4-b", "europe-west4-a"]).zones == (
        "europe-west4-a",
        "europe-west4-b",
    )
    assert machine.load(zone=["-"]).zones == ()
    assert machine.load(zone=["europe-west4-a,europe-west4-b"]).zones == ("europe-west4-a", "europe-west4-b")


def test_the_zone_variable_may_hold_several_zones(machine: Machine) -> None:
    machine.environ["TPU_TUI_ZONE"] = "us-central1-a,us-central1-b"

    assert machine.load().zones == ("us-central1-a", "us-central1-b")
    assert machine.load().origins["zones"].origin == "environment TPU_TUI_ZONE"


def test_gclouds_zone_and_account_are_read_from_its_files(machine: Machine) -> None:
    machine.configure_gcloud("default", "[core]\naccount = me@example.com\n[compute]\nzone = us-central2-b\n")

    settings = machine.load()

    assert settings.zones == ("us-central2-b",)
    assert settings.account == "me@example.com"


def test_gclouds_own_variables_choose_directory_and_configuration(machine: Machine) -> None:
    machine.configure_gcloud("one", "[core]\nproject = first\n")
    machine.configure_gcloud("two", "[core]\nproject = second\n", active=False)
    assert machine.load().project == "first"

    machine.environ["CLOUDSDK_ACTIVE_CONFIG_NAME"] = "two"
    assert machine.load().project == "second"

    machine.environ["CLOUDSDK_ACTIVE_CONFIG_NAME"] = "NONE"
    assert machine.load().project is None

    elsewhere = machine.user_home / "elsewhere"
    machine.gcloud.rename(elsewhere)
    del machine.environ["CLOUDSDK_ACTIVE_CONFIG_NAME"]
    assert machine.load().project is None
    machine.environ["CLOUDSDK_CONFIG"] = str(elsewhere)
    assert machine.load().project == "first"


def test_a_broken_gcloud_configuration_is_reported_and_otherwise_ignored(machine: Machine) -> None:
    machine.configure_gcloud("default", "no section here\n")

    settings = machine.load(project="mine")

    assert settings.project == "mine"
    assert "cannot be read" in settings.origins["account"].origin


def test_a_percent_sign_in_gclouds_values_is_a_plain_character(machine: Machine) -> None:
    machine.configure_gcloud("default", "[core]\nproject = p\naccount = 100%(sure)s@example.com\n")

    assert machine.load().account == "100%(sure)s@example.com"


def test_a_saved_profile_is_read_back_and_private(machine: Machine) -> None:
    path = save_profile(
        machine.home,
        "lab",
        {
            "project": "p",
            "zones": ("a-1", "b-2"),
            "identity": Path("/keys/id"),
            "known_hosts": (Path("/keys/known"),),
            "port": None,
            "endpoints": {"tpu": "127.0.0.1:1"},
            "thresholds": {"straggler": 3},
            "local": {"pid": 1},
        },
    )

    settings = machine.load(profile="lab")

    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [file.name for file in path.parent.iterdir()] == ["lab.toml"]
    assert (settings.profile, settings.project, settings.zones) == ("lab", "p", ("a-1", "b-2"))
    assert (settings.identity, settings.known_hosts) == (Path("/keys/id"), (Path("/keys/known"),))
    assert (settings.port, settings.endpoints, settings.thresholds) == (
        None,
        {"tpu": "127.0.0.1:1"},
        {"straggler": 3.0},
    )


def test_an_invalid_profile_is_not_saved(machine: Machine) -> None:
    save_profile(machine.home, "lab", {"project": "old"})

    with pytest.raises(UsageError, match="route should be one of"):
        save_profile(machine.home, "lab", {"project": "new", "route": "carrier pigeon"})

    assert machine.load(profile="lab").project == "old"


def test_a_misspelt_setting_is_reported_with_file_line_and_the_closest_one(machine: Machine) -> None:
    path = machine.write_profile("default", 'project = "p"\n\nzonse = ["a"]\n')

    with pytest.raises(UsageError) as caught:
        machine.load()

    assert caught.value.what == "no such setting: zonse"
    assert caught.value.why == f"{path}, line 3"
    assert caught.value.remedy == "did you mean zones?"


def test_broken_toml_is_reported_with_file_and_line(machine: Machine) -> None:
    path = machine.write_profile("default", 'project = "p"\nport = = 3\n')

    with pytest.raises(UsageError) as caught:
        machine.load()

    assert f"{path}, line 2" in caught.value.why


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("port = 70000", "port should be a port"),
        ("port = true", "port should be a port"),
        ('host_keys = "none"', "host_keys should be one of strict, accept-new"),
        ("project = 3", "project should be text"),
        ('read_only = "perhaps"', "read_only should be true or false"),
        ('zones = ["projects/p/zones/z"]', "zones should be bare names"),
        ('thresholds = { silent = "much" }', "thresholds should contain numbers only, but silent is not one"),
        ("thresholds = { silent = -5 }", "thresholds should contain numbers from 0 up, but silent is -5"),
        ("thresholds = { silent = nan }", "thresholds should contain numbers from 0 up, but silent is nan"),
        ("thresholds = { stragler = 3 }", "thresholds has no stragler: did you mean straggler"),
        ('endpoints = { tpus = "x" }', "endpoints should contain addresses for tpu, compute, storage"),
    ],
)
def test_an_invalid_value_is_reported_with_file_and_line(machine: Machine, line: str, sentence: str) -> None:
    path = machine.write_profile("default", f"# a comment\n{line}\n")

    with pytest.raises(UsageError) as caught:
        machine.load()

    assert caught.value.what.startswith(sentence)
    assert caught.value.remedy
    assert f"{path}, line 2" in caught.value.why


def test_a_binary_profile_and_a_directory_are_refused_in_a_sentence(machine: Machine) -> None:
    machine.write_profile("default", "").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UsageError, match=r"profile default cannot be read: .*default.toml is not UTF-8 text"):
        machine.load()

    (machine.home / "profiles" / "folder.toml").mkdir()
    with pytest.raises(UsageError, match="profile folder cannot be read"):
        machine.load(profile="folder")


def test_an_unknown_profile_is_reported_with_the_closest_one(machine: Machine) -> None:
    machine.write_profile("europe", "")

    with pytest.raises(UsageError) as caught:
        machine.load(profile="eurpe")

    assert caught.value.remedy == "did you mean europe?"


@pytest.mark.parametrize("name", ["../secrets", "", ".hidden", "a/b"])
def test_a_profile_name_cannot_leave_its_directory(machine: Machine, name: str) -> None:
    with pytest.raises(UsageError, match="is not a valid profile name"):
        save_profile(machine.home, name, {})


def test_paths_in_a_profile_start_at_the_users_home_or_the_profiles_directory(machine: Machine) -> None:
    machine.write_profile("default", '\ufeffidentity = "~/.ssh/key"\r\nhosts = "lab.hosts"\r\n')

    settings = machine.load()

    assert settings.identity == machine.user_home / ".ssh" / "key"
    assert settings.hosts == machine.home / "profiles" / "lab.hosts"


def test_a_project_flag_wins_over_a_profiles_hosts_file(machine: Machine) -> None:
    machine.write_profile("default", 'hosts = "/lab.hosts"\n')

    assert machine.load().hosts == Path("/lab.hosts")
    assert machine.load(project="p").hosts is None
    assert machine.load(project="p", hosts=Path("/other.hosts")).hosts == Path("/other.hosts")


def test_read_only_can_be_set_by_flag_and_environment(machine: Machine) -> None:
    assert machine.load(read_only=True).read_only
    machine.environ["TPU_TUI_READ_ONLY"] = "1"
    assert machine.load().read_only
    machine.environ["TPU_TUI_READ_ONLY"] = "maybe"
    with pytest.raises(UsageError, match="TPU_TUI_READ_ONLY should be true or false"):
        machine.load()


def _ended_pid() -> int:
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    return child.pid


LOCAL = 'project = "local"\nzones = ["local-a"]\nendpoints = {{ tpu = "127.0.0.1:1" }}\nlocal = {{ pid = {pid} }}\n'


@pytest.mark.parametrize("environ", [{}, {"CLOUDSDK_CORE_PROJECT": "local"}])
def test_a_live_local_pod_is_used_when_nothing_else_is_configured(machine: Machine, environ: dict[str, str]) -> None:
    machine.write_profile("local", LOCAL.format(pid=os.getpid()))
    machine.environ.update(environ)

    settings = machine.load()

    assert (settings.profile, settings.project, "tpu" in settings.endpoints) == ("local", "local", True)
    assert "local pod is running" in settings.origins["profile"].origin


def test_a_dead_local_pod_is_not_used(machine: Machine) -> None:
    machine.write_profile("local", LOCAL.format(pid=_ended_pid()))

    assert machine.load().profile is None


@pytest.mark.parametrize("configured", ["default profile", "gcloud", "variable", "project flag", "hosts flag"])
def test_a_local_pod_never_replaces_what_is_configured(machine: Machine, configured: str) -> None:
    machine.write_profile("local", LOCAL.format(pid=os.getpid()))
    flags: dict[str, Any] = {}
    if configured == "default profile":
        machine.write_profile("default", "")
    elif configured == "gcloud":
        machine.configure_gcloud("default", "[core]\nproject = p\n")
    elif configured == "variable":
        machine.environ["CLOUDSDK_CORE_PROJECT"] = "p"
    elif configured == "project flag":
        flags["project"] = "p"
    else:
        flags["hosts"] = Path("/lab.hosts")

    assert "tpu" not in machine.load(**flags).endpoints


def test_the_profile_of_a_local_pod_wins_over_gcloud(machine: Machine) -> None:
    machine.write_profile("local", LOCAL.format(pid=os.getpid()))
    machine.configure_gcloud("default", "[core]\nproject = p\n[compute]\nzone = us-central1-a\n")
    machine.environ["CLOUDSDK_CORE_PROJECT"] = "p"

    settings = machine.load(profile="local")

    assert (settings.project, settings.zones) == ("local", ("local-a",))


def test_a_missing_local_profile_is_reported_with_the_command_that_makes_one(machine: Machine) -> None:
    with pytest.raises(UsageError) as caught:
        machine.load(profile="local")

    assert "tpu-tui local up" in caught.value.remedy


def test_every_threshold_that_the_code_reads_can_be_set_and_no_other() -> None:
    from dataclasses import fields

    from tui.checks.check_thresholds import CheckThresholds as OfWorkers
    from tui.logs.state.stragglers import CoreThresholds as OfCores
    from tui.runs.keeper_timeouts import KeeperTimeouts
    from tui.settings.fields import THRESHOLDS
    from tui.ssh.config.access import THRESHOLD_NAMES

    read = [item.name for part in (OfCores, OfWorkers) for item in fields(part)]
    read += [*THRESHOLD_NAMES, *(f"{item.name}_seconds" for item in fields(KeeperTimeouts))]
    assert sorted(read) == sorted(THRESHOLDS)


@pytest.mark.parametrize(
    ("line", "remedy"),
    [
        ("project = 3", 'put it in quotes: project = "3"'),
        ("identity = 3", 'put it in quotes: identity = "3"'),
        ("port = 70000", "correct it; port holds: SSH port, if not the worker's default"),
    ],
)
def test_an_invalid_value_has_a_remedy(machine: Machine, line: str, remedy: str) -> None:
    machine.write_profile("default", f"{line}\n")
    with pytest.raises(UsageError) as caught:
        machine.load()
    assert caught.value.remedy == remedy
