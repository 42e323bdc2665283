"""Set up every test run: signals, hypothesis profiles, and fixtures that all packages share."""

from __future__ import annotations

import os
import signal

import pytest
from hypothesis import HealthCheck, settings

from tests.sshd import sshd, sshd_pool
from tui.procs.gc_policy import collect_rarely, freeze_existing_objects

__all__ = ["sshd", "sshd_pool"]

# A loaded machine must not make randomised tests fail.
_PATIENT = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
settings.register_profile("ci", max_examples=40, **_PATIENT)
settings.register_profile("nightly", max_examples=400, **_PATIENT)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))


def pytest_configure() -> None:
    """Restore Ctrl-C and hang-up for the processes of tests, also where `nohup` or a script's `&` ignores them.

    Garbage is collected as rarely as in the processes of the product.
    """
    for number, handler in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
        if signal.getsignal(number) == signal.SIG_IGN:
            signal.signal(number, handler)
    collect_rarely()


def pytest_collection_finish() -> None:
    """Exempt all modules from the collections of garbage, which take a third of the time otherwise."""
    freeze_existing_objects()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Distribute tests marked `timing` one by one, all others by file; begin with files that share module fixtures.

    Each module fixture is then made once, and the tests that depend on it keep their order.
    """
    shared = {item.path for item in items if _uses_a_fixture_of_its_module(item)}

    def rank(item: pytest.Item) -> int:
        return 0 if item.path in shared else 1 if item.get_closest_marker("timing") else 2

    items.sort(key=rank)
    for item in items:
        if rank(item) != 1:
            item.add_marker(pytest.mark.xdist_group(item.nodeid.partition("::")[0]))


def _uses_a_fixture_of_its_module(item: pytest.Item) -> bool:
    fixtures = getattr(item, "_fixtureinfo").name2fixturedefs.values()  # noqa: B009
    return any(definitions[-1].scope == "module" for definitions in fixtures)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Show a test by the name that runs it again, without the group that xdist adds."""
    in_xdist_worker = "PYTEST_XDIST_WORKER" in os.environ
    if not in_xdist_worker and report.nodeid.rfind("@") > report.nodeid.rfind("]"):
        report.nodeid = report.nodeid.rpartition("@")[0]
