"""Tests of the permissions of a home, its profiles and its accepted host keys."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tui.errors import UsageError
from tui.pod.job_options import JobOptions
from tui.pod.run import Run
from tui.pod.worker import Worker
from tui.runs.record.run_directory import RunDirectory
from tui.settings import load
from tui.settings.home import loose_home, make_private, read_user_file
from tui.settings.profiles import read_profile, save_profile
from tui.ssh.config.access import Access
from tui.ssh.host_login import Login
from tui.ssh.keys.known_hosts import HostKeys, add_known_host

OTHER_UID = 54321
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="files of another user can be made by root only")


@pytest.fixture
def loose_umask() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_home_is_private_to_its_owner_with_any_umask(tmp_path: Path, loose_umask: None) -> None:
    run = Run("pod-20261123-101500-00aa", "pod", JobOptions(("x",)), (Worker(0),))
    RunDirectory.create(tmp_path / "a" / "home" / "runs", run)
    save_profile(tmp_path / "b", "p", {"project": "p"})
    make_private(tmp_path / "c")
    make_private(tmp_path / "c")
    made = [tmp_path / name for name in ("a", "a/home", "a/home/runs", "b", "b/profiles", "c")]
    assert {mode_of(path) for path in made} == {0o700}


@pytest.mark.parametrize("words", [["dialect", "test", "x"], ["config", "show"], ["runs"]])
def test_no_command_makes_a_home_that_others_can_use(tmp_path: Path, loose_umask: None, words: list[str]) -> None:
    home = tmp_path / "home"
    environment = {**os.environ, "TPU_TUI_HOME": str(home)}
    done = subprocess.run(
        [sys.executable, "-m", "tui.cli", *words], env=environment, cwd=tmp_path, capture_output=True
    )
    assert b"Traceback" not in done.stderr
    assert not home.exists() or mode_of(home) == 0o700


@pytest.mark.parametrize(("mode", "who"), [(0o777, "every user of this machine"), (0o770, "its group"), (0o755, "")])
def test_a_home_that_others_may_write_to_has_a_warning(tmp_path: Path, mode: int, who: str) -> None:
    home = tmp_path / "home"
    home.mkdir()
    home.chmod(mode)
    environment = {**os.environ, "TPU_TUI_HOME": str(home)}
    done = subprocess.run(
        [sys.executable, "-m", "tui.cli", "runs", "--offline"], env=environment, capture_output=True, text=True
    )
    warning = f"{who} may write to {home}, which holds profiles and trusted host keys: chmod 700 {home}"
    assert (f"warning: {warning}\n" in done.stderr) == bool(who)
    assert done.returncode == 0
    assert (warning in load({}, {"TPU_TUI_HOME": str(home)}).origins["home"].origin) == bool(who)
    assert (loose_home(home) or "") == (warning if who else "")


def test_a_profile_that_anyone_may_write_is_not_read(tmp_path: Path) -> None:
    path = save_profile(tmp_path, "p", {"project": "p"})
    path.chmod(0o664)
    assert read_profile(tmp_path, "p", tmp_path).values == {"project": "p"}
    path.chmod(0o666)
    with pytest.raises(UsageError, match="profile p is not read: every user of this machine may write to"):
        read_profile(tmp_path, "p", tmp_path)


@needs_root
def test_a_profile_of_another_user_is_read_only_if_the_home_belongs_to_that_user(tmp_path: Path) -> None:
    path = save_profile(tmp_path, "p", {"project": "p"})
    os.chown(path, OTHER_UID, OTHER_UID)
    with pytest.raises(UsageError, match=f"profile p is not read: .* belongs to user {OTHER_UID}"):
        read_profile(tmp_path, "p", tmp_path)
    os.chown(tmp_path, OTHER_UID, OTHER_UID)
    assert read_profile(tmp_path, "p", tmp_path).values == {"project": "p"}


@needs_root
def test_accepted_host_keys_of_another_user_are_not_trusted(tmp_path: Path) -> None:
    import asyncssh

    path = tmp_path / "home" / "known_hosts"
    key = asyncssh.generate_private_key("ssh-ed25519").convert_to_public()
    add_known_host(path, "10.0.0.1", key)
    assert mode_of(path.parent) == 0o700
    login = Login(host="10.0.0.1", port=22, user="me")
    keys = HostKeys(Access(user="me", own_known_hosts=str(path)))
    assert len(keys.trusted(login).keys) == 1
    os.chown(path, OTHER_UID, OTHER_UID)
    with pytest.raises(UsageError, match="the file of host keys that were accepted here is not read"):
        HostKeys(Access(user="me", own_known_hosts=str(path))).trusted(login)


def test_neither_a_pipe_nor_a_device_is_read_in_place_of_a_file_of_the_user(tmp_path: Path) -> None:
    pipe, device, link = (tmp_path / name for name in ("pipe", "device", "link"))
    os.mkfifo(pipe)
    device.symlink_to("/dev/zero")
    for path in (pipe, device):
        with pytest.raises(OSError, match="it is not a regular file"):
            read_user_file(path)
    (tmp_path / "file").write_text("text")
    link.symlink_to(tmp_path / "file")
    assert read_user_file(link) == b"text"
    assert read_user_file(os.devnull) == b""
