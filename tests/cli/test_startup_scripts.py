"""`slices create --startup-script` on a real local pod: its machines run the script, and SSH reads the result."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.commands import DEADLINE, Answer
from tests.cli.conftest import LocalPod
from tests.localpod.gcloud import GCLOUD
from tests.waiting import wait_until

pytestmark = pytest.mark.timing

ONE = ("--type", "v2-8", "--version", "tpu-ubuntu2204-base")
FOUR = ("--type", "v2-32", "--version", "tpu-ubuntu2204-base")


class Scripts:
    """A second terminal that creates the slice `made` with a startup script."""

    def __init__(self, pod: LocalPod, directory: Path) -> None:
        self.pod = pod
        self.file = directory / "start.sh"

    def words(self, script: str | bytes, *words: str) -> tuple[str, ...]:
        self.file.write_bytes(script if isinstance(script, bytes) else script.encode())
        return ("slices", "create", "made", *words, "--startup-script", str(self.file))

    def create(self, script: str | bytes, *words: str) -> Answer:
        return self.pod.call(*self.words(script, *words))

    def document(self, script: str | bytes, *words: str, code: int = 0) -> Any:
        answer = self.create(script, *words, "--json")
        assert answer.code == code, answer.errors
        return answer.document

    def begun(self, script: str, *words: str) -> subprocess.Popen[bytes]:
        """Start the creation in a process of its own, and return once it waits for the running script."""
        process = self.pod.shell.start(*self.words(script, *words), stdout=subprocess.DEVNULL)
        assert process.stderr is not None
        printed = []
        while not printed or b"startup script: 0 of 1 worker finished" not in printed[-1]:
            printed.append(process.stderr.readline())
            if not printed[-1]:
                process.communicate(timeout=DEADLINE)
                raise AssertionError(b"".join(printed).decode())
        return process

    @property
    def state(self) -> str:
        """The state of the slice."""
        return next(row["state"] for row in self.pod.call("slices", "--json").document if row["name"] == "made")

    def on_worker(self, command: str, name: str = "made") -> str:
        """Return what a command prints on the slice's first worker."""
        done = self.pod.call("exec", name, "--worker", "0", "--json", "--", "sh", "-c", command)
        return str(done.document[0]["stdout"])


@pytest.fixture
def made(pod: LocalPod, tmp_path: Path) -> Iterator[Scripts]:
    """Yield the terminal; delete the slice after the test if it still exists."""
    yield Scripts(pod, tmp_path)
    for name in [row["name"] for row in pod.call("slices", "--json").document if row["name"].startswith("made")]:
        pod.call("slices", "delete", name, "--yes")


def processes_with(words: bytes) -> list[int]:
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if words in path.read_bytes():
                found.append(int(path.parent.name))
    return found


def test_a_slice_is_ready_when_every_workers_script_has_ended(made: Scripts) -> None:
    answer = made.document("#!/bin/sh\necho hello from $HOSTNAME > ~/trace\nsleep 2\n", *FOUR)

    assert answer["startup"] == [
        {"slice": "made", "worker": worker, "exit_code": 0, "detail": ""} for worker in range(4)
    ]
    assert answer["steps"][-1] == "startup script: 4 of 4 workers finished"
    assert len(set(answer["steps"])) == len(answer["steps"]), "a poll that finds nothing new is not reported"
    assert answer["elapsed_s"] >= 2
    assert (answer["state"], answer["operation"]) == ("READY", answer["operation"])
    assert re.fullmatch(r"hello from t1v-n-[0-9a-f]{8}-w-0\n", made.on_worker("cat ~/trace"))


def test_a_failure_on_one_worker_names_it_with_its_last_lines_and_the_slice_stays(made: Scripts) -> None:
    script = "#!/bin/bash\nfor n in {1..30}; do echo number $n; done\ncase $HOSTNAME in *-w-2) exit 3;; esac\n"
    answer = made.create(script, *FOUR)

    assert (answer.code, answer.out) == (1, "")
    assert "startup script: 4 of 4 workers finished, 1 failed\n" in answer.errors
    assert "The last lines of worker 2 of made:\n  number 21\n" in answer.errors
    assert "number 20\n" not in answer.errors
    assert "tpu-tui: the startup script of made failed: worker 2: exit code 3\n" in answer.errors
    assert "tpu-tui ssh local-a/made --worker 2" in answer.errors
    assert "tpu-tui slices delete made --zone local-a" in answer.errors
    assert made.state == "READY"


def test_a_failure_is_in_the_document_too(made: Scripts) -> None:
    answer = made.document("exit 7", *ONE, code=1)

    assert answer["startup"] == [{"slice": "made", "worker": 0, "exit_code": 7, "detail": "exit code 7"}]


def test_a_script_that_never_ends_is_named_after_the_timeout_and_ends_with_the_slice(made: Scripts) -> None:
    answer = made.create("echo waiting\nexec sleep 98765.25\n", *ONE, "--startup-timeout", "2s")

    assert answer.code == 1
    assert "the startup script of made did not end within 2 s: worker 0: running\n" in answer.errors
    assert "The last lines of worker 0 of made:\n  waiting\n" in answer.errors
    assert processes_with(b"sleep\x0098765.25\x00")
    assert made.pod.call("slices", "delete", "made", "--yes").code == 0
    assert not processes_with(b"sleep\x0098765.25\x00")


def test_what_a_script_prints_is_bounded_and_safe(made: Scripts) -> None:
    script = (
        "yes 0123456789012345678901234567890123456789 | head -c 100000000\n"
        "printf '\\n\\033]0;title\\007\\033[2Jred\\r\\xff\\x00 \\342\\200\\256 end\\n'\nexit 9\n"
    )
    answer = made.create(script, *ONE)

    assert answer.code == 1
    assert "worker 0: exit code 9" in answer.errors
    assert "  ␛]0;title␇␛[2Jred␍\ufffd" in answer.errors
    assert len(answer.errors) < 4000
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e]", answer.errors)


@pytest.mark.parametrize(
    ("script", "code", "line"),
    [
        ("echo grüße aus 東京\n".encode(), 0, "grüße aus 東京"),
        (b"\n\n  echo no shebang $0\n", 0, "no shebang /"),
        (b"#!/bin/sh\r\necho hi\r\n", 127, "bad interpreter|cannot execute|not found"),
        (b"#!/usr/bin/env python3\nimport sys\nprint('from Python')\nsys.exit(5)\n", 5, "from Python"),
        (b"exec /no/such/program\n", 127, "/no/such/program"),
        (b"kill -TERM $$\n", None, ""),
        (b"head -c 100000 /dev/zero | tr '\\0' x; echo; exec cat /dev/zero\n", None, "token too long"),
    ],
)
def test_scripts_of_every_kind_reach_the_worker_unchanged(
    made: Scripts, script: bytes, code: int | None, line: str
) -> None:
    answer = made.document(script, *ONE, code=0 if code == 0 else 1)

    assert answer["request"]["node"]["metadata"]["startup-script"].encode() == script
    assert answer["startup"][0]["exit_code"] == code
    assert re.search(line, made.on_worker("journalctl -u google-startup-scripts.service"))
    described = made.pod.call("slices", "describe", "made", "--json").document
    assert described["resource"]["metadata"]["startup-script"].encode() == script


def test_a_worker_that_does_not_answer_for_a_while_is_tried_again(made: Scripts) -> None:
    answer = made.document("kill -STOP $PPID; sleep 3; kill -CONT $PPID\n", *ONE)

    assert answer["startup"][0]["exit_code"] == 0


def test_a_slice_that_is_lost_while_its_script_runs_is_reported(made: Scripts) -> None:
    with made.begun("echo $PPID > ~/sshd; sleep 98765.5\n", *ONE) as process:
        os.kill(int(made.on_worker("cat ~/sshd")), signal.SIGKILL)
        _, errors = process.communicate(timeout=DEADLINE)

    assert process.returncode == 3
    assert b"made is PREEMPTED: its startup script had not ended\n" in errors
    assert not processes_with(b"sleep\x0098765.5\x00")


def test_a_slice_that_is_deleted_while_its_script_runs_is_reported(made: Scripts) -> None:
    with made.begun("sleep 98765.5\n", *ONE) as process:
        made.pod.call("slices", "delete", "made", "--yes")
        _, errors = process.communicate(timeout=DEADLINE)

    assert process.returncode == 2
    assert b"tpu-tui: no such slice in local-a: made\n" in errors


def test_a_detached_creation_does_not_wait(made: Scripts) -> None:
    answer = made.document("sleep 98765.75\n", *ONE, "--detach")

    assert answer["startup"] == []
    assert answer["steps"][-1].startswith("requested made")
    wait_until(lambda: made.state == "READY", "the creation ends")


def test_ctrl_c_leaves_slice_and_script_alone_and_says_so(made: Scripts) -> None:
    process = made.begun("while [ ! -e ~/go ]; do sleep 0.1; done\necho on > ~/trace\n", *ONE)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=DEADLINE)

    assert process.returncode == 130
    assert b"Interrupted. The startup script of made continues; the slice stays and costs money: look with" in errors
    assert b"tpu-tui slices delete made --zone local-a" in errors
    made.on_worker("touch ~/go")
    wait_until(lambda: made.on_worker("cat ~/trace") == "on\n", "the script ends")


def test_every_worker_of_several_queued_slices_is_waited_for(made: Scripts) -> None:
    script = "case $HOME in */made-1/*) exit 4;; esac\n"
    answer = made.create(script, *ONE, "--queued", "--nodes", "2", "--json")

    assert answer.code == 1
    assert answer.document["startup"] == [
        {"slice": "made-0", "worker": 0, "exit_code": 0, "detail": ""},
        {"slice": "made-1", "worker": 0, "exit_code": 4, "detail": "exit code 4"},
    ]
    assert "the startup script of made failed: worker 0 of made-1: exit code 4\n" in answer.errors
    assert made.pod.call("slices", "delete", "made", "--queued", "--force", "--yes").code == 0


def test_a_script_runs_at_every_start_of_its_machine(made: Scripts) -> None:
    script = "echo boot >> ~/boots\n"
    assert made.create(script, *ONE).code == 0
    assert made.pod.call("slices", "stop", "made", "--yes").code == 0
    assert made.pod.call("slices", "start", "made").code == 0

    wait_until(lambda: made.on_worker("cat ~/boots") == "boot\nboot\n", "the script has run again")
    journal = made.on_worker("journalctl -b -u google-startup-scripts.service -o cat")
    assert journal.count("Found startup-script in metadata.") == 1, "the journal is that of this boot"


@pytest.mark.parametrize(("sudo", "code"), [('shift; ROOT=1 exec "$@"', 0), ("exit 1", None)])
def test_a_journal_that_needs_root_is_read_with_sudo_or_named(made: Scripts, sudo: str, code: int | None) -> None:
    script = f"""#!/bin/sh
bin=$(dirname $(command -v journalctl))
mkdir $bin/root && mv $bin/journalctl $bin/root
printf '#!/bin/sh\\n[ -z "$ROOT" ] || exec %s "$@"\\n' $bin/root/journalctl > $bin/journalctl
printf '#!/bin/sh\\n%s\\n' '{sudo}' > $bin/sudo
chmod +x $bin/journalctl $bin/sudo
echo ready
"""
    answer = made.document(script, *ONE, code=0 if code == 0 else 1)

    assert answer["startup"][0]["exit_code"] == code
    if code is None:
        assert "its user cannot read the journal, and sudo needs a password" in answer["startup"][0]["detail"]


@pytest.mark.parametrize(
    ("script", "words", "problem"),
    [
        (b"x" * 262_145, (), "metadata startup-script has 262,145 bytes, and 262,144 are allowed"),
        (b"\xff", (), "is not UTF-8 text"),
        (b" \n", (), "is empty"),
        (b"x", ("--metadata", "startup-script=y"), "--startup-script and --metadata startup-script= were both given"),
        (
            b"x",
            ("--metadata-from-file", "startup-script=/dev/null"),
            "--startup-script and --metadata-from-file startup-script= were both given",
        ),
        (b"x", ("--startup-timeout", "0s"), "--startup-timeout is 0"),
    ],
)
def test_scripts_that_cannot_be_sent_are_refused(
    made: Scripts, script: bytes, words: tuple[str, ...], problem: str
) -> None:
    answer = made.create(script, *ONE, *words)

    assert (answer.code, answer.out) == (2, "")
    assert problem in answer.errors
    assert "requested" not in answer.errors


def test_a_timeout_without_a_script_is_refused(pod: LocalPod) -> None:
    answer = pod.call("slices", "create", "made", *ONE, "--startup-timeout", "5m")

    assert answer.code == 2
    assert "--startup-timeout is for startup scripts" in answer.errors


def test_a_dry_run_shows_the_script_and_gclouds_option(made: Scripts) -> None:
    answer = made.create("echo hi, you\n", *ONE, "--dry-run")

    document, _, command = answer.out.rpartition("}\n")
    assert json.loads(document + "}")["node"]["metadata"] == {"startup-script": "echo hi, you\n"}
    assert f"--metadata-from-file=startup-script={made.file}" in command


@pytest.mark.skipif(GCLOUD is None, reason="gcloud is not installed")
@pytest.mark.timeout(300)
def test_a_slice_that_gcloud_creates_runs_its_script(made: Scripts, tmp_path: Path) -> None:
    made.file.write_text("echo made by gcloud\n")
    token = tmp_path / "token"
    token.write_text(made.pod.announced["token"])
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("CLOUDSDK_")},
        "CLOUDSDK_CONFIG": str(tmp_path / "gcloud"),
        "CLOUDSDK_AUTH_ACCESS_TOKEN_FILE": str(token),
        "CLOUDSDK_API_ENDPOINT_OVERRIDES_TPU": f"{made.pod.announced['tpu_api']['rest']}/",
        "CLOUDSDK_CORE_DISABLE_PROMPTS": "true",
    }
    words = ("compute", "tpus", "tpu-vm", "create", "made", "--project=local", "--zone=local-a")
    options = ("--accelerator-type=v2-8", "--version=tpu-ubuntu2204-base")
    script = f"--metadata-from-file=startup-script={made.file}"
    done = subprocess.run([str(GCLOUD), *words, *options, script], env=environment, capture_output=True, timeout=280)
    assert done.returncode == 0, done.stderr

    journal = "journalctl -u google-startup-scripts.service -o cat"
    wait_until(lambda: "exit status 0" in made.on_worker(journal), "the script ends")
    assert "startup-script: made by gcloud\n" in made.on_worker(journal)
