"""`plan`: what to set when a training goes from one slice type to another."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any

from tui.commands.output import Output


def add_commands(commands: argparse._SubParsersAction[Any]) -> None:
    """Add this family's parser."""
    plan = commands.add_parser("plan", help="batch, steps and learning rate from one slice type to another")
    plan.add_argument("--from", required=True, dest="source", metavar="TYPE", help="where it runs now, as v2-8")
    plan.add_argument("--to", required=True, dest="target", metavar="TYPE", help="where it shall run, as v3-32")
    plan.add_argument("--batch-size", required=True, type=int, metavar="N", help="global batch on the first slice")
    plan.add_argument("--steps", type=int, metavar="N", help="steps of the whole training on the first slice")
    plan.add_argument("--epochs", type=float, metavar="N", help="epochs, where the training counts those")
    plan.add_argument("--lr", type=float, metavar="R", help="learning rate on the first slice")
    plan.set_defaults(run_blocking=show_plan)


def show_plan(args: argparse.Namespace, _flags: Mapping[str, Any], out: Output) -> int:
    """Print the figures for the second slice, what they rest on and what does not come out even."""
    from tui.planning.plan import make_plan

    plan = make_plan(
        args.source, args.target, batch_size=args.batch_size, steps=args.steps, lr=args.lr, epochs=args.epochs
    )
    document = plan.to_json()
    if out.as_json:
        out.document(document)
        return 0
    rows = [(name.replace("_", " "), value) for name, value in document.items() if name not in ("warnings", "notes")]
    out.facts(
        [(name, f"{value:g}" if isinstance(value, float) else value) for name, value in rows if value is not None]
    )
    for note in plan.notes:
        out.note(note)
    for warning in plan.warnings:
        out.note(f"warning: {warning}")
    return 0
