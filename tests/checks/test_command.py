"""`tpu-tui check` as a user runs it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.checks.test_workers_over_ssh import install_python
from tests.cli.commands import Shell
from tests.sshd import OpensshWorker, free_port, needs_sshd, sshd

pytestmark = needs_sshd
__all__ = ["sshd"]

Start = Callable[..., OpensshWorker]


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    """Return a terminal of 80 columns with a home whose limits no machine exceeds."""
    home = tmp_path / "home"
    (home / "profiles").mkdir(parents=True)
    limits = "load_per_cpu = 1000\ndisk_free_gib = 0\ndisk_full_gib = 0\nmemory_free_share = 0\n"
    (home / "profiles" / "default.toml").write_text(f"[thresholds]\n{limits}")
    shell = Shell(home)
    shell.environ["COLUMNS"] = "80"
    return shell


def options(tmp_path: Path, *workers: OpensshWorker, extra: str = "") -> tuple[str, ...]:
    """Return the options for these workers: a hosts file, the key, and their host keys."""
    hosts, known = tmp_path / "lab.txt", tmp_path / "known"
    hosts.write_text("".join(f"root@{worker.host}:{worker.port}\n" for worker in workers) + extra)
    known.write_text("".join(f"[{worker.host}]:{worker.port} {worker.host_key}\n" for worker in workers))
    identity = str(workers[0].identity)
    return ("--hosts", str(hosts), "--identity", identity, "--known-hosts", str(known))


def test_text_is_readable_at_80_columns_the_worst_first(shell: Shell, sshd: Start, tmp_path: Path) -> None:
    workers = [sshd(bare=True, environment={"TPU_TUI_DEVICES": ""}) for _ in range(3)]
    for worker, torch in zip(workers, ("2.9.0", "2.9.0", "2.8.0\x1b[31m[b]"), strict=True):
        install_python(worker, torch=torch)
    where = options(tmp_path, *workers, extra=f"root@127.0.0.1:{free_port()}\n")

    answer = shell.run(*where, "check", "lab")

    lines = answer.out.splitlines()
    assert answer.code == 1, answer.errors
    assert lines[0].startswith("lab: 2 failed, ")
    verdicts = [line.split()[0] for line in lines if line[:4] in ("FAIL", "????", "warn", "pass")]
    assert verdicts == sorted(verdicts, key=["FAIL", "????", "warn", "pass"].index)
    assert max(len(line) for line in lines if "→" not in line) <= 80
    assert "\x1b" not in answer.out
    (refused,) = (line for line in lines if line.startswith("FAIL  tcp"))
    assert "worker 3: connection refused" in refused
    (odd,) = (line for line in lines if line.startswith("FAIL  versions"))
    assert "worker 2: torch 2.8.0" in odd
    assert any(line.startswith("pass  disk         workers 0-2") for line in lines)


def test_a_finding_is_one_line_if_the_output_is_piped(shell: Shell, sshd: Start, tmp_path: Path) -> None:
    where = options(tmp_path, sshd(bare=True), extra=f"root@127.0.0.1:{free_port()}\n")
    del shell.environ["COLUMNS"]
    answer = shell.run(*where, "check", "lab")
    shown = [line for line in answer.out.splitlines()[1:] if line and "→" not in line]
    shown = shown[: next((place for place, line in enumerate(shown) if line.startswith("tcp:")), None)]
    assert all(line[:4] in ("FAIL", "????", "warn", "pass") for line in shown)
    assert max(map(len, shown)) > 80


def test_the_document_has_every_row_and_0_means_that_nothing_failed(
    shell: Shell, sshd: Start, tmp_path: Path
) -> None:
    worker = sshd(environment={"TPU_TUI_DEVICES": ""})

    words = (*options(tmp_path, worker), "check", "lab", "--json")
    answer = shell.run(*words, "--ports", "9000")
    wrong = shell.run(*words, "--bucket", "Upper")

    assert answer.code == 0, answer.out
    assert (wrong.code, wrong.document["checks"][-1]["check"], wrong.document["ok"]) == (1, "region", False)
    assert list(answer.document) == ["slice", "ok", "checks"]
    assert (answer.document["slice"], answer.document["ok"]) == ("lab", True)
    names = ["check", "worker", "peer", "port", "status", "state", "detail", "remedy"]
    assert all(list(row) == names for row in answer.document["checks"])


def test_invalid_ports_are_refused_and_an_unreachable_api_ends_with_code_3(shell: Shell, tmp_path: Path) -> None:
    (tmp_path / "lab.txt").write_text("127.0.0.1\n")

    assert shell.run("--hosts", str(tmp_path / "lab.txt"), "check", "lab", "--ports", "80,x").code == 2
    assert shell.run("--hosts", str(tmp_path / "lab.txt"), "check", "lab", "--ports", "0").code == 2
    assert shell.run("--hosts", str(tmp_path / "lab.txt"), "check", "lab", "--ports", "").code == 2
    (shell.home / "profiles" / "away.toml").write_text(
        f'project = "p"\nzones = ["us-central2-b"]\n[endpoints]\ntpu = "127.0.0.1:{free_port()}"\n'
    )
    away = shell.run("--profile", "away", "check", "lab")
    assert away.code == 3, away.errors
    assert "Traceback" not in away.errors
