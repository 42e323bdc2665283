"""`slices workers check exec sync config`: what exists, whether it works, and what goes to every worker."""

from __future__ import annotations

import argparse
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tui.commands.output import Output
from tui.errors import OutOfReachError, TpuTuiError, UsageError
from tui.pod.ranks import format_ranks, parse_ranks

if TYPE_CHECKING:
    from tui.operator import Operator
    from tui.ssh.fleet import Completed

ANSWER_IS_NO = 1
OUT_OF_REACH = OutOfReachError.exit_code


def add_commands(commands: argparse._SubParsersAction[Any]) -> None:
    """Add this family's parsers."""
    _add_slices(commands)
    workers = commands.add_parser("workers", help="the workers of a slice, and whether each can be reached")
    workers.add_argument("slice", metavar="SLICE")
    workers.set_defaults(run=show_workers)

    check = commands.add_parser("check", help="whether the workers can be reached and can reach each other")
    check.add_argument("slice", metavar="SLICE")
    check.add_argument("--ports", default="", help="further TCP ports to probe between workers, as 8470,8471")
    check.set_defaults(run=check_slice)

    execute = commands.add_parser("exec", help="one command on every worker; identical outputs are grouped")
    execute.add_argument("slice", metavar="SLICE")
    execute.add_argument("--worker", default="all", help="which workers, as 0-3,7 (default: all)")
    execute.add_argument("--timeout", type=float, metavar="S", help="seconds after which a worker is given up")
    execute.set_defaults(run=execute_command, takes_job=True, changes=True)

    sync = commands.add_parser("sync", help="the working tree to every worker, as git sees it")
    sync.add_argument("slice", metavar="SLICE")
    sync.add_argument("directory", metavar="DIR", type=Path)
    sync.set_defaults(run=sync_tree, changes=True)

    config = commands.add_parser("config", help="where each setting comes from")
    config.add_argument("action", choices=("show",))
    config.set_defaults(run=show_config)


def _add_slices(commands: argparse._SubParsersAction[Any]) -> None:
    slices = commands.add_parser("slices", help="the slices there are, and their life: create, delete, start, stop")
    slices.set_defaults(run=list_slices)
    actions = slices.add_subparsers(dest="action", metavar="ACTION")
    create = actions.add_parser("create", help="make a slice and wait until it is ready")
    create.add_argument("slice", metavar="NAME")
    create.add_argument("--type", required=True, dest="accelerator_type", help="accelerator type, as v3-32")
    create.add_argument("--version", required=True, dest="runtime_version", help="runtime, as tpu-ubuntu2204-base")
    create.add_argument("--spot", action="store_true", help="cheaper, and may be taken away at any time")
    for action, text in (
        ("delete", "delete a slice for good; asks for its name"),
        ("start", "start a stopped slice"),
        ("stop", "stop a slice: its disk stays, its TPU is given back"),
    ):
        parser = actions.add_parser(action, help=text)
        parser.add_argument("slice", metavar="SLICE")
        if action == "delete":
            parser.add_argument("--yes", action="store_true", help="do not ask for the name")
    for parser in actions.choices.values():
        parser.add_argument("--dry-run", action="store_true", help="say what would be done, and do nothing")
        parser.set_defaults(run=change_slice, changes=True)


async def list_slices(_args: argparse.Namespace, operator: Operator, out: Output) -> int:
    """Print every slice; a zone that could not be asked is told and the others are listed."""
    listing = await operator.slices()
    if out.as_json:
        out.document([slice_.to_json() for slice_ in listing.slices])
    elif listing.slices:
        out.table(
            ("name", "zone", "type", "state", "health", "workers", "cores", "runtime", "spot", "created"),
            [
                (
                    s.name,
                    s.zone,
                    s.accelerator_type,
                    s.state,
                    s.health,
                    len(s.workers),
                    s.cores,
                    s.runtime_version,
                    s.spot,
                    s.created,
                )
                for s in listing.slices
            ],
            right=("workers", "cores"),
        )
    elif not listing.problems:
        out.note(f"There are no slices in {operator.where}.")
    for problem in listing.problems:
        out.problem(problem)
    return max((problem.exit_code for problem in listing.problems), default=0)


async def change_slice(args: argparse.Namespace, operator: Operator, out: Output) -> int:
    """Create, delete, start or stop a slice, and wait with progress."""
    if args.action == "create":
        steps = operator.create_slice(args.slice, args.accelerator_type, args.runtime_version, spot=args.spot)
        intent = f"create {args.slice}, {args.accelerator_type} with {args.runtime_version}" + args.spot * ", spot"
    else:
        slice_ = await operator.slice(args.slice)
        intent = f"{args.action} {slice_.path}, {slice_.accelerator_type}, now {slice_.state}"
        steps = operator.change_slice(slice_, args.action)
        if args.action == "delete" and not (args.yes or args.dry_run):
            _ask_for_name(slice_.name)
    if args.dry_run:
        out.note(f"Would {intent}. Nothing was done.")
    told = [] if args.dry_run else await _tell(steps, out)
    if out.as_json:
        out.document({"slice": args.slice, "action": args.action, "dry_run": args.dry_run, "steps": told})
    return 0


async def _tell(steps: AsyncIterator[str], out: Output) -> list[str]:
    told = []
    async for step in steps:
        told.append(step)
        out.note(step)
    return told


def _ask_for_name(name: str) -> None:
    if not sys.stdin.isatty():
        raise UsageError(f"{name} is not deleted without asking", remedy="add --yes where nobody can answer")
    print(
        f"This deletes {name} and the disks of its workers. Type its name to go on: ",
        end="",
        file=sys.stderr,
        flush=True,
    )
    if sys.stdin.readline().strip() != name:
        raise UsageError(f"{name} is not deleted", why="the name typed is another")


async def show_workers(args: argparse.Namespace, operator: Operator, out: Output) -> int:
    """Print a slice's workers, each tried over SSH."""
    workers = await operator.workers(await operator.slice(args.slice))
    if out.as_json:
        out.document([worker.to_json() for worker in workers])
    else:
        out.table(
            ("worker", "hostname", "internal ip", "external ip", "port", "reachable", "error"),
            [(w.index, w.hostname, w.internal_ip, w.external_ip, w.port, w.reachable, w.error) for w in workers],
            right=("worker", "port"),
        )
    return 0 if all(worker.reachable for worker in workers) else OUT_OF_REACH


async def check_slice(args: argparse.Namespace, operator: Operator, out: Output) -> int:
    """Print a row for each thing checked; exit 1 when one failed."""
    slice_ = await operator.slice(args.slice)
    rows = [row async for row in operator.check(slice_, _parse_ports(args.ports))]
    ok = all(row.status != "fail" for row in rows)
    if out.as_json:
        out.document({"slice": slice_.name, "ok": ok, "checks": [row.to_json() for row in rows]})
        return 0 if ok else ANSWER_IS_NO
    order = {"fail": 0, "unknown": 1, "warn": 2, "pass": 3}
    out.table(
        ("status", "check", "worker", "peer", "port", "state", "detail", "remedy"),
        [
            (row.status, row.check, row.worker, row.peer, row.port, row.state, row.detail, row.remedy or "")
            for row in sorted(rows, key=lambda row: order.get(row.status, 0))
        ],
        right=("worker", "port"),
    )
    return 0 if ok else ANSWER_IS_NO


def _parse_ports(text: str) -> tuple[int, ...]:
    words = [word.strip() for word in text.split(",") if word.strip()]
    for word in words:
        if not word.isdecimal() or not 0 < int(word) < 65536:
            raise UsageError(f"no TCP port: {word!r}", remedy="write them as --ports 8470,8471")
    return tuple(int(word) for word in words)


async def execute_command(args: argparse.Namespace, operator: Operator, out: Output) -> int:
    """Run one command on the workers asked for; identical outputs are printed once with their workers."""
    if not args.argv:
        raise UsageError("no command to run", remedy="tpu-tui exec SLICE -- COMMAND …")
    slice_ = await operator.slice(args.slice)
    ranks = parse_ranks(args.worker, len(slice_.workers))
    answers: dict[int, Completed] = {}
    problems: dict[int, TpuTuiError] = {}
    async for answer in operator.exec(slice_, args.argv, ranks, args.timeout):
        if isinstance(answer, TpuTuiError):
            problems[int(answer.worker or 0)] = answer
        else:
            answers[answer.worker] = answer
    if out.as_json:
        out.document([_exec_row(rank, answers.get(rank), problems.get(rank)) for rank in ranks])
    else:
        _print_grouped(answers, out)
    for rank in sorted(problems):
        out.problem(problems[rank])
    if problems:
        return OUT_OF_REACH
    return 0 if all(answer.exit_code == 0 and not answer.timed_out for answer in answers.values()) else ANSWER_IS_NO


def _exec_row(rank: int, answer: Completed | None, problem: TpuTuiError | None) -> dict[str, Any]:
    return {
        "worker": rank,
        "exit_code": answer.exit_code if answer else None,
        "stdout": answer.stdout.decode("utf-8", "replace") if answer else None,
        "stderr": answer.stderr.decode("utf-8", "replace") if answer else None,
        "timed_out": answer.timed_out if answer else False,
        "error": problem.sentence if problem else None,
    }


def _print_grouped(answers: dict[int, Completed], out: Output) -> None:
    """Print what clush -b would: one block for each different outcome, its workers as a range."""
    groups: dict[tuple[bytes, bytes, str], list[int]] = {}
    for rank, answer in answers.items():
        groups.setdefault((answer.stdout, answer.stderr, _ending(answer)), []).append(rank)
    for (stdout, stderr, ending), ranks in sorted(groups.items(), key=lambda group: min(group[1])):
        plural = "workers" if len(ranks) > 1 else "worker"
        out.note(f"── {plural} {format_ranks(ranks)} ({len(ranks)}){ending}")
        if stdout:
            out.text(stdout.decode("utf-8", "replace").removesuffix("\n"))
        if stderr:
            out.note(stderr.decode("utf-8", "replace").removesuffix("\n"))


def _ending(answer: Completed) -> str:
    if answer.timed_out:
        return " · timed out"
    if answer.signal:
        return f" · killed by SIG{answer.signal}"
    return "" if answer.exit_code == 0 else f" · exit {answer.exit_code}"


async def sync_tree(args: argparse.Namespace, operator: Operator, out: Output) -> int:
    """Copy a directory to every worker and print its hash there."""
    problems = []
    rows = []
    async for answer in operator.sync(await operator.slice(args.slice), args.directory):
        if isinstance(answer, TpuTuiError):
            problems.append(answer)
            out.problem(answer)
        else:
            rows.append(answer)
    rows.sort(key=lambda row: row.worker)
    if out.as_json:
        out.document([{"worker": r.worker, "hash": r.hash, "bytes": r.bytes, "skipped": r.skipped} for r in rows])
    elif rows:
        cells = [(r.worker, r.hash[:12], r.bytes, "was there already" if r.skipped else "sent") for r in rows]
        out.table(("worker", "hash", "bytes", "state"), cells, right=("worker", "bytes"))
    return OUT_OF_REACH if problems else 0


async def show_config(_args: argparse.Namespace, operator: Operator, out: Output) -> int:
    """Print each setting, its value and where it came from."""
    settings = operator.settings.origins.values()
    if out.as_json:
        out.document([{"name": s.name, "value": _plain(s.value), "origin": s.origin} for s in settings])
    else:
        out.table(("setting", "value", "from"), [(s.name, _plain(s.value), s.origin) for s in settings])
    return 0


def _plain(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return [str(item) for item in value]
    if value is None or isinstance(value, (bool, int, float)):
        return value
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    return str(value)
