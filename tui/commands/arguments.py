"""What words on the command line may be, for argparse."""

from __future__ import annotations

import argparse
import math
from pathlib import Path


def seconds(text: str) -> float:
    """Seconds as a person gives them: finite and not negative."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of seconds")
    return value


def directory(text: str) -> Path:
    """A path; an empty word, as an unset variable leaves it, is not taken for the current directory."""
    if not text:
        raise argparse.ArgumentTypeError("no directory is named")
    return Path(text)
