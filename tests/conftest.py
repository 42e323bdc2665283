"""In which order the tests run, with which signals, and how retry_while_full."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# A loaded machine makes no randomised test fail.
settings.register_profile("patient", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("patient")

LONGEST = ("trainer/test_training", "runs/", "cli/", "localpod/", "console/")
"""Whose files take minutes, most of them of waiting: begun last, one of them would hold up the end by itself."""


def pytest_configure() -> None:
    """What tests start hears Ctrl-C and a closed terminal, though these be begun by `nohup`, or a script's `&`."""
    for number, handler in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
        if signal.getsignal(number) == signal.SIG_IGN:
            signal.signal(number, handler)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The longest first; otherwise as collected."""
    items.sort(key=lambda item: _place(item.path))


def _place(path: Path) -> int:
    within = path.relative_to(Path(__file__).parent).as_posix()
    return next((place for place, beginning in enumerate(LONGEST) if within.startswith(beginning)), len(LONGEST))
