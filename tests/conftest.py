"""Set up every test run: signals, hypothesis profiles, and fixtures that all packages share."""

from __future__ import annotations

import os
import signal

from hypothesis import HealthCheck, settings

from tests.sshd import sshd, sshd_pool

__all__ = ["sshd", "sshd_pool"]

# A loaded machine makes no randomised test fail.
_PATIENT = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
settings.register_profile("ci", max_examples=40, **_PATIENT)
settings.register_profile("nightly", max_examples=400, **_PATIENT)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))


def pytest_configure() -> None:
    """Restore Ctrl-C and hang-up for the processes of tests, also where `nohup` or a script's `&` ignores them."""
    for number, handler in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
        if signal.getsignal(number) == signal.SIG_IGN:
            signal.signal(number, handler)
