from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tui.cloud.hosts_file import HostsFile, read_hosts, slice_name
from tui.errors import UsageError
from tui.pod.slice import Slice


def write_file(tmp_path: Path, text: str, name: str = "lab.hosts") -> Path:
    path = tmp_path / name
    path.write_text(text)
    return path


def read(tmp_path: Path, text: str) -> Slice:
    return read_hosts(write_file(tmp_path, text))


def test_workers_come_in_the_order_of_the_lines(tmp_path: Path) -> None:
    slice_ = read(tmp_path, "10.0.0.2\n# a comment\n\n  ada@node-1:2222  # the second\nnode-3.example.com\n")

    fields = [(w.index, w.name, w.internal_ip, w.user, w.port) for w in slice_.workers]
    assert fields == [
        (0, "10.0.0.2", "10.0.0.2", None, 22),
        (1, "node-1", None, "ada", 2222),
        (2, "node-3.example.com", None, None, 22),
    ]
    assert (slice_.name, slice_.source, slice_.state, slice_.is_ready) == ("lab", "hosts_file", None, True)


def test_ipv6_addresses_may_be_written_with_or_without_brackets(tmp_path: Path) -> None:
    slice_ = read(tmp_path, "[fe80::1]:2200\nroot@[2001:db8::2]\n2001:db8::3\n")

    assert [(w.internal_ip, w.port, w.user) for w in slice_.workers] == [
        ("fe80::1", 2200, None),
        ("2001:db8::2", 22, "root"),
        ("2001:db8::3", 22, None),
    ]


@pytest.mark.parametrize(
    ("file", "name"),
    [("lab.hosts", "lab"), ("my lab.v2.txt", "my-lab.v2"), ("hosts", "hosts"), ("Büro.hosts", "B-ro")],
)
def test_the_slice_is_named_after_the_file(file: str, name: str) -> None:
    assert slice_name(Path("/somewhere") / file) == name


@pytest.mark.parametrize(
    "line",
    [
        "two words",
        "host:",
        "host:0",
        "host:70000",
        "host:ssh",
        "[fe80::1",
        "[node-1]:22",
        "1:2:3",
        "a@",
        "@a",
        "-oX=1",
    ],
)
def test_an_invalid_line_is_named_by_file_and_line(tmp_path: Path, line: str) -> None:
    path = write_file(tmp_path, f"10.0.0.1\n# fine so far\n{line}\n")

    with pytest.raises(UsageError) as caught:
        read_hosts(path)

    assert f"{path}, line 3" in caught.value.why
    assert caught.value.remedy


def test_a_worker_named_twice_is_refused_with_both_lines(tmp_path: Path) -> None:
    path = write_file(tmp_path, "10.0.0.1\n10.0.0.1:23\n\nroot@10.0.0.1\n")

    with pytest.raises(UsageError) as caught:
        read_hosts(path)

    assert caught.value.why == f"{path}, lines 1 and 4"


@pytest.mark.parametrize("again", ["LAB-1", "lab-1.", "ada@Lab-1:22"])
def test_capitals_and_a_final_dot_do_not_distinguish_machines(tmp_path: Path, again: str) -> None:
    with pytest.raises(UsageError, match="is named twice"):
        read(tmp_path, f"lab-1\n{again}\n")


@pytest.mark.parametrize(("text", "what"), [("", "names no worker"), ("# none\n\n", "names no worker")])
def test_a_file_without_workers_is_refused(tmp_path: Path, text: str, what: str) -> None:
    with pytest.raises(UsageError, match=what):
        read(tmp_path, text)


def test_a_file_that_is_no_text_is_refused_in_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no such hosts file"):
        read_hosts(tmp_path / "absent")
    with pytest.raises(UsageError, match="it is not a regular file"):
        read_hosts(tmp_path)
    binary = tmp_path / "binary"
    binary.write_bytes(b"\xff\xfe\x00\x80")
    with pytest.raises(UsageError, match="is not text"):
        read_hosts(binary)
    huge = tmp_path / "huge"
    with huge.open("wb") as file:
        file.truncate(2 << 30)
    with pytest.raises(UsageError, match="it has more than 16 MiB"):
        read_hosts(huge)
    huge.write_bytes(b"host\n" * (1 << 20))
    with pytest.raises(UsageError, match="not a hosts file"):
        read_hosts(huge)
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(UsageError, match="names no worker"):
        read_hosts(pipe)
    with subprocess.Popen(["echo", "10.0.0.1"], stdout=subprocess.PIPE) as echo:
        assert echo.stdout is not None
        assert len(read_hosts(Path(f"/dev/fd/{echo.stdout.fileno()}")).workers) == 1


def test_a_device_without_an_end_is_refused() -> None:
    with pytest.raises(UsageError) as refused:
        read_hosts(Path("/dev/zero"))

    assert refused.value.why == "/dev/zero: it is not a regular file"


async def test_the_inventory_has_the_one_slice_and_suggests_it(tmp_path: Path) -> None:
    inventory = HostsFile(write_file(tmp_path, "10.0.0.1\n"))

    slice_ = await inventory.get("lab", None)

    assert await inventory.host_keys(slice_) is slice_
    with pytest.raises(UsageError) as caught:
        await inventory.get("lap", None)
    assert caught.value.remedy == "did you mean lab?"


async def test_a_changed_file_is_read_again(tmp_path: Path) -> None:
    path = write_file(tmp_path, "10.0.0.1\n")
    inventory = HostsFile(path)
    await inventory.slices()

    path.write_text("10.0.0.1\n10.0.0.2\n")

    assert len((await inventory.slices()).slices[0].workers) == 2
