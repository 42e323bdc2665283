"""`plan`: scale a training's settings to another slice type, and advise whether to scale up."""

from __future__ import annotations

import argparse
import asyncio
import shlex
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tui.commands.parser.argument_types import integer
from tui.commands.parser.commands import Commands
from tui.commands.terminal.output import Output
from tui.errors import UsageError

if TYPE_CHECKING:
    from tui.operator.reports import ScalingReport
    from tui.planning.scaling_ladder import Ladder


def add_command(commands: Commands) -> None:
    """Add the command's parser."""
    plan = commands.add(
        "plan",
        help="scale batch size, steps and learning rate to another slice type",
        description="Scale batch size, steps and learning rate to another slice type, or advise whether to scale up.",
    )
    plan.add_argument("--from", dest="source", metavar="TYPE", help="current slice type, e.g. v2-8")
    plan.add_argument("--to", dest="target", metavar="TYPE", help="target slice type, e.g. v3-32")
    plan.add_argument("--batch-size", type=integer, metavar="N", help="global batch size on the current slice")
    plan.add_argument("--steps", type=integer, metavar="N", help="total steps of the training on the current slice")
    plan.add_argument("--epochs", type=_number, metavar="N", help="number of epochs, if the training counts epochs")
    plan.add_argument("--lr", type=_number, metavar="R", help="learning rate on the current slice")
    plan.add_argument(
        "--keep-global-batch", action="store_true", help="divide the same batch among the new cores, and keep steps"
    )
    plan.add_argument(
        "--ladder",
        nargs="*",
        metavar="RUN",
        help="show how finished runs (default: all) scale over slice sizes instead, and whether to go up",
    )
    plan.set_defaults(run_blocking=show_plan)


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"must be a number, not {text!r}") from None


def show_plan(args: argparse.Namespace, flags: Mapping[str, Any], out: Output) -> int:
    """Print the figures for the target slice with notes and warnings, or the scaling ladders."""
    from tui.planning.plan import make_plan

    required = {"--from": args.source, "--to": args.target, "--batch-size": args.batch_size}
    if args.ladder is not None:
        figures = (*required.values(), args.steps, args.epochs, args.lr)
        if args.keep_global_batch or any(figure is not None for figure in figures):
            raise UsageError("--ladder cannot be combined with other options", remedy=_form(args))
        return asyncio.run(_show_ladders(args.ladder, flags, out))
    missing = [name for name, value in required.items() if value is None]
    if missing:
        raise UsageError(f"plan needs {', '.join(missing)}", remedy=_form(args))
    plan = make_plan(
        args.source,
        args.target,
        batch_size=args.batch_size,
        steps=args.steps,
        lr=args.lr,
        epochs=args.epochs,
        keep_global_batch=args.keep_global_batch,
    )
    _print_plan(plan.to_json(), out)
    return 0


def _form(args: argparse.Namespace) -> str:
    """Return examples of the command, with the types that were given."""
    source = args.source or "v2-8"
    target = args.target or f"{source.rpartition('-')[0] or 'v2'}-32"
    words = ("tpu-tui", "plan", "--from", source, "--to", target, "--batch-size", str(args.batch_size or 1024))
    return f"{shlex.join(words)}, or tpu-tui plan --ladder [RUN …]"


def _print_plan(document: dict[str, Any], out: Output) -> None:
    if out.as_json:
        out.document(document)
        return
    rows = [(name.replace("_", " "), value) for name, value in document.items() if name not in ("warnings", "notes")]
    out.facts(
        [(name, f"{value:g}" if isinstance(value, float) else value) for name, value in rows if value is not None]
    )
    beneath = [*document["notes"], *(f"warning: {warning}" for warning in document["warnings"])]
    if beneath:
        out.text()
    for line in beneath:
        out.text(line)


async def _show_ladders(refs: list[str], flags: Mapping[str, Any], out: Output) -> int:
    from tui.operator import Operator
    from tui.settings import load

    async with Operator(load(flags)) as operator:
        report = await operator.reports.scaling(refs)
    if out.as_json:
        left_out = [{"run": run, "why": why} for run, why in report.left_out]
        out.document({"ladders": [ladder.to_json() for ladder in report.ladders], "left_out": left_out})
    else:
        _print_ladders(report, out)
    return 0


def _print_ladders(report: ScalingReport, out: Output) -> None:
    for ladder in report.ladders:
        _print_ladder(ladder, out)
    for run, why in report.left_out:
        out.note(f"{run} is left out: {why}")
    if not report.ladders:
        out.note("No finished runs to compare yet. Start with the smallest slice, e.g. v2-8 or v3-8.")


def _print_ladder(ladder: Ladder, out: Output) -> None:
    is_compared = sum(rung.efficiency is not None for rung in ladder.rungs) > 1
    out.table(
        ("type", "cores", "rate", "rate per core", "efficiency", "verdict", "run"),
        [
            (
                rung.accelerator_type,
                rung.cores,
                rung.rate_total,
                rung.rate_per_core,
                None if rung.efficiency is None or not is_compared else f"{rung.efficiency:.0%}",
                rung.verdict,
                rung.run,
            )
            for rung in ladder.rungs
        ],
        right=("cores", "rate", "rate per core", "efficiency"),
    )
    out.text(f"→ {ladder.advice}")
