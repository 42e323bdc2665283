"""A hostile worker that answers in place of worker.sh: it spoils only its own answers."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.runs.ssh_pod import Pod, over
from tests.sshd import OpensshWorker, needs_sshd
from tests.waiting import wait_until
from tui.errors import TpuTuiError, WorkerError
from tui.operator import Operator
from tui.operator.connections import Connections
from tui.pod.run import RunState
from tui.pod.slice import Slice
from tui.runs import discovery
from tui.runs.discovery import Discovery, discover, import_run
from tui.runs.follow.catch_up import catch_up
from tui.runs.follow.follower import Follower
from tui.runs.record.run_index import list_runs
from tui.runs.record.run_status import status_of
from tui.runs.worker.queries import RemoteState
from tui.settings import Settings
from tui.ssh.fleet import Fleet

pytestmark = [needs_sshd, pytest.mark.timing]
DIGITS = "9" * 5000
_SHELL = """#!/bin/dash
# Called as `sh -c SCRIPT tpu-tui VERB RUN WORKER NONCE …`; a call that limits the time comes before it.
[ "$4" != sh ] || exec /bin/dash "$@"
head -c 1000 >/dev/null
tt_verb=$4 tt_run=$5 tt_worker=$6 tt_nonce=$7
say() { printf '@%s %s\\n' "$tt_nonce" "$*"; }
case $tt_verb in
"""


@contextlib.contextmanager
def hostile_answers(worker: OpensshWorker, **answers: str) -> Iterator[None]:
    """Let a worker answer each of these verbs by lines of sh, and no other verb."""
    shell = worker.root / "bin" / "sh"
    shell.unlink()
    cases = "".join(f"{verb})\n{script}\n;;\n" for verb, script in answers.items())
    shell.write_text(f"{_SHELL}{cases}esac\n")
    shell.chmod(0o755)
    worker.cut()
    try:
        yield
    finally:
        shell.unlink()
        shell.symlink_to("/bin/sh")
        worker.cut()


def seen(pod: Pod, only: str | None = None) -> Discovery:
    async def ask() -> Discovery:
        async with Fleet(pod.launch_workers, pod.access) as fleet:
            return await discover(fleet, "~/.tpu-tui", slice_name="lab", only=only)

    return asyncio.run(ask())


def notes_of_following(pod: Pod, tmp_path: Path, follow: str, seconds: float) -> list[str]:
    """Follow worker 1, which answers as `follow` says, for some seconds; return what was noted."""
    pod.running("sleep", "1000")
    there = import_run(seen(pod).runs[0], tmp_path / "elsewhere")
    before = len(status_of(there).notes)

    async def followed() -> None:
        async with Fleet(there.run.workers, pod.access) as fleet:
            following = asyncio.ensure_future(Follower(there, fleet, 1, attempt=0).run())
            await asyncio.sleep(seconds)
            following.cancel()
            await asyncio.gather(following, return_exceptions=True)

    with hostile_answers(pod.workers[1], follow=follow, status="say status"):
        asyncio.run(followed())
    return list(status_of(there).notes[before:])


_MANY = """i=0
while [ $i -lt 300 ]; do
    printf '@%s run evil-20991231-000000-%04x 1 ended confirmed=1 exit=0 size=0\\n' "$tt_nonce" $i; i=$((i + 1))
done
say run $RUN 1 running; say listed"""
_ITS_RECORD = """echo "$tt_run" >>"$0.shown"
tt_doc='{"id":"'$tt_run'","slice":"lab","argv":["x"],"workers":[{"index":0,"host_keys":["ssh-ed25519 AAAA"]},
    {"index":7,"internal_ip":"10.0.0.9","host_keys":["ssh-ed25519 AAAA"],"host_key_alias":"tpu.1-0"}]}'
say json ${#tt_doc}; printf %s "$tt_doc" """


def test_of_many_runs_that_a_worker_invents_the_newest_few_are_taken_and_the_others_counted(
    pod: Pod, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(discovery, "MOST_NEW_RUNS", 5)
    here = pod.running("sleep", "1000")
    settings = Settings(tmp_path / "elsewhere", identity=pod.workers[0].identity, host_keys="accept-new")
    slice_ = Slice("lab", workers=tuple(pod.launch_workers), state="READY")
    invented = [f"evil-20991231-000000-{number:04x}" for number in range(299, -1, -1)]

    async def listed() -> tuple[list[str], list[str]]:
        """Return the runs that are known here after a listing, and what it says."""
        operator = Operator(settings)
        try:
            problems = await operator.runs.discover([slice_])
            assert all(problem.exit_code == 0 for problem in problems)
            return [status.run.id for status in operator.runs.list_statuses()], [item.sentence for item in problems]
        finally:
            await operator.close()

    status = "say status $tt_run 1 ended confirmed=1 exit=0 size=0"
    with hostile_answers(pod.workers[1], list=_MANY.replace("$RUN", here.id), show=_ITS_RECORD, status=status):
        monkeypatch.setattr(Connections, "with_login_facts", unchanged)
        first, second = asyncio.run(listed()), asyncio.run(listed())
        looked_for = seen(pod, only=invented[250])
    # The live run is among the five of each worker.
    assert first[0] == [*invented[:4], here.id]
    assert first[1] == ["296 older runs on lab are left out: at most 5 that are new here are taken from each worker"]
    assert second[0] == [*invented[:9], here.id]
    assert ([found.run.id for found in looked_for.runs], looked_for.left_out) == ([invented[250]], 0)
    shown = (pod.workers[1].root / "bin" / "sh.shown").read_text().splitlines()
    assert set(shown) == {*invented[:9], invented[250]}
    (beyond,) = (worker for worker in list_runs(settings.runs_home)[0].run.workers if worker.index == 7)
    assert (beyond.host_keys, beyond.host_key_alias) == ((), None)


async def unchanged(_connections: Connections, slice_: Slice) -> Slice:
    return slice_


HOSTILE_LISTINGS = {
    "a word": "say run x; say run; say listed",
    "digits": f"say run $RUN 1 running attempt={DIGITS} log={DIGITS}; say listed",
    "deep": "say run other-20261123-101500-00aa 1 running; say run $RUN 1 running; say listed",
    "indices": "say run other-20261123-101500-00aa 1 running; say listed",
    "nothing": "say",
}
_DEEP = "say json 200000; head -c 200000 /dev/zero | tr '\\0' '['"
_INDICES = """tt_workers='[{"index":-1},{"index":1000000000000}]'
tt_doc='{"id":"other-20261123-101500-00aa","slice":"lab","argv":["x"],"workers":'$tt_workers'}'
say json ${#tt_doc}; printf %s "$tt_doc" """


@pytest.mark.parametrize("kind", list(HOSTILE_LISTINGS))
def test_a_worker_that_lists_nonsense_hides_no_run_of_other_workers(pod: Pod, tmp_path: Path, kind: str) -> None:
    here = pod.running("sleep", "1000")
    listing = HOSTILE_LISTINGS[kind].replace("$RUN", here.id)
    record = _INDICES if kind == "indices" else _DEEP
    with hostile_answers(
        pod.workers[1], list=listing, show=record, status=f"say status $tt_run 1 running attempt={DIGITS}"
    ):
        found = seen(pod)
    assert [run.run.id for run in found.runs] == [here.id]
    assert {index: found.runs[0].workers[index] for index in (0, 2)} == {
        0: RemoteState.RUNNING,
        2: RemoteState.RUNNING,
    }
    adopted = import_run(found.runs[0], tmp_path / "elsewhere")
    assert status_of(adopted).attempt == 0
    sentences = [problem.sentence for problem in found.problems]
    if kind in ("deep", "indices"):
        assert len(sentences) == 1
        assert sentences[0].startswith("worker 1: cannot read the record of other-20261123-101500-00aa: ")
        assert ("deep" if kind == "deep" else "the index of a worker") in sentences[0]
    assert [path.name for path in (tmp_path / "elsewhere").iterdir()] == [here.id]


def test_a_worker_that_reports_a_nonsensical_end_does_not_end_the_keeper(pod: Pod) -> None:
    here = pod.running("sh", "-c", 'until [ -e "$HOME/end" ]; do echo on; sleep 0.1; done')
    # For a worker that has written nothing, `lost … size=0` could be true.
    wait_until(lambda: here.log_path(1).exists() and here.log_path(1).stat().st_size)
    end = f"say log 0 b b; say end exit={DIGITS} size={DIGITS} boot=b >&2; say lost code={DIGITS} size=0 >&2"
    with hostile_answers(pod.workers[1], follow=f'echo 1 >>"$0.times"; {end}', status="say status"):
        times = pod.workers[1].root / "bin" / "sh.times"
        wait_until(lambda: times.exists() and times.stat().st_size > 2)  # the keeper follows it again
        size = here.log_path(0).stat().st_size
        wait_until(lambda: here.log_path(0).stat().st_size > size + 20)
        assert here.keeper_status().alive
        assert status_of(here).state is RunState.RUNNING
    for worker in pod.workers:
        (worker.home / "end").touch()
    assert (over(here).state, over(here).exit_codes) == (RunState.SUCCEEDED, (0, 0, 0))
    assert pod.mirrors_are_exact(here)


BAD_HEADS = {
    **{f"say log {size}": "its answer does not say how long its log is" for size in ("abc", "", DIGITS, "-5")},
    "yes on": "a start-up file there prints without end",
    "yes ''": "a start-up file there prints without end",
}


@pytest.mark.parametrize("follow", list(BAD_HEADS))
def test_a_worker_that_names_no_size_of_its_log_is_an_error_of_that_worker_alone(
    pod: Pod, tmp_path: Path, follow: str
) -> None:
    here = pod.running("sh", "-c", "echo on; sleep 1000")
    there = import_run(seen(pod).runs[0], tmp_path / "elsewhere")
    assert there.id == here.id

    async def caught_up() -> None:
        async with Fleet(there.run.workers, pod.access) as fleet:
            await catch_up(there, fleet, timeout=20)

    wait_until(lambda: all(here.log_path(index).stat().st_size == 3 for index in range(3)))
    with (
        hostile_answers(pod.workers[1], follow=follow, status="say status"),
        pytest.raises(TpuTuiError) as raised,
    ):
        asyncio.run(caught_up())
    assert isinstance(raised.value, WorkerError)
    assert raised.value.what == BAD_HEADS[follow]
    assert [there.log_path(index).stat().st_size for index in (0, 2)] == [3, 3]


@pytest.mark.parametrize(
    ("says", "noted"),
    [
        ("say full", ["is full"]),
        ("say full; say room", ["is full", "there is room"]),
        ("say full; say room; say full", ["is full"]),
        ("say room; say full; say full", ["is full"]),
    ],
)
def test_a_change_of_the_room_there_is_noted_at_once_and_the_next_one_after_a_while(
    pod: Pod, tmp_path: Path, says: str, noted: list[str]
) -> None:
    notes = notes_of_following(pod, tmp_path, f"say log 0 b b; {{ {says}; }} >&2; sleep 100", 3.0)
    assert len(notes) == len(noted)
    assert all(text in note for text, note in zip(noted, notes, strict=True))


def test_a_worker_that_says_full_and_room_without_end_is_noted_ever_more_rarely(pod: Pod, tmp_path: Path) -> None:
    flood = "say log 0 b b; while :; do say full >&2; say room >&2; say full >&2; sleep 0.001; done"
    notes = notes_of_following(pod, tmp_path, flood, 4.5)
    assert 1 <= len(notes) <= 4
    assert "left out" not in notes[0]
    assert all("changes before it are left out)" in note for note in notes[1:])


def test_a_log_that_is_shorter_each_time_is_noted_once(pod: Pod, tmp_path: Path) -> None:
    grows_or_shrinks = """echo 1 >>"$0.n"
        if [ $(($(wc -l <"$0.n") % 2)) = 1 ]; then say log 1 b b; echo more; else say short 0 b b; fi"""
    notes = notes_of_following(pod, tmp_path, grows_or_shrinks, 6.0)
    assert notes
    assert len([note for note in notes if "shorter" in note]) == 1


def test_a_stop_answered_with_nonsense_is_confirmed_without_an_exit_code(pod: Pod) -> None:
    here = pod.running("sleep", "1000")
    with hostile_answers(pod.workers[1], stop=f"say stopped exit={DIGITS} size={DIGITS} time=x signal={DIGITS}"):
        answers = pod.stop(here)
    assert [(answer.worker, answer.confirmed, answer.exit_code) for answer in answers] == [
        (0, True, 143),
        (1, True, None),
        (2, True, 143),
    ]


def test_of_the_notes_of_a_launch_the_first_hundred_are_recorded(pod: Pod) -> None:
    flood = "i=0; while [ $i -lt 300 ]; do say note $i; i=$((i + 1)); done; say armed 1 tag=1"
    with hostile_answers(pod.workers[1], launch=flood):
        directory = pod.launch("true")
        over(directory)
    assert len([event for event in directory.events()[0] if (event.kind, event.worker) == ("note", 1)]) == 100
