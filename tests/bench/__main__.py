"""`python -m tests.bench [TOPIC…]`: run every bench module, or those named, and print one table."""

from __future__ import annotations

import importlib
import pkgutil
import subprocess
import sys
import time

from rich.console import Console
from rich.table import Table

import tests.bench
from tests.bench.figures import Figure

_NOT_TOPICS = ("__main__", "figures")


def topics() -> list[str]:
    """Return the names of all modules here that measure something."""
    return [module.name for module in pkgutil.iter_modules(tests.bench.__path__) if module.name not in _NOT_TOPICS]


def measured(topic: str) -> list[Figure]:
    """Return the figures of one module."""
    found: list[Figure] = list(importlib.import_module(f"tests.bench.{topic}").figures())
    return found


def main(chosen: list[str]) -> int:
    """Print a table of all figures as they come; return 1 when one misses its target, 2 for an unknown topic.

    Each topic has its own process: the kernel counts a parent's peak memory as its children's.
    """
    names = chosen or topics()
    if unknown := [name for name in names if name not in topics()]:
        print(f"There is no topic {', '.join(unknown)}. Name some of {', '.join(topics())}.", file=sys.stderr)
        return 2
    if len(names) > 1:
        return max(
            subprocess.run([sys.executable, "-m", "tests.bench", name], check=False).returncode for name in names
        )
    console = Console(width=None if sys.stdout.isatty() else 118, highlight=False)
    missed = 0
    for topic in names:
        began = time.monotonic()
        found = measured(topic)
        missed += sum(figure.met is False for figure in found)
        table = Table("what", "measured", "target", "", title=topic.replace("_", " "), title_justify="left")
        for figure in found:
            mark = {True: "met", False: "MISSED", None: ""}[figure.met]
            table.add_row(figure.what, figure.value, figure.target, mark)
        console.print(table)
        console.print(f"{time.monotonic() - began:.0f} s\n")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
