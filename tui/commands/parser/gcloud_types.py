"""Types of arguments in gcloud's notation, for argparse."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import TypeVar

from tui.pod.creation import gcloud_notation

Value = TypeVar("Value")


def _type_of(parse: Callable[[str], Value]) -> Callable[[str], Value]:
    """Return a parser whose errors argparse shows."""

    def parse_argument(text: str) -> Value:
        try:
            return parse(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from None

    return parse_argument


items = _type_of(gcloud_notation.parse_items)
pairs = _type_of(gcloud_notation.parse_pairs)
disk = _type_of(gcloud_notation.parse_disk)
duration = _type_of(gcloud_notation.parse_duration)
moment = _type_of(gcloud_notation.parse_moment)
