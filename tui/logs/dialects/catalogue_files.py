"""Read the catalogue: the data files that describe each dialect, and the named parts of their patterns."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

CATALOGUE_DIR = Path(__file__).parents[1] / "catalogue"

FILES = (
    "grammar",
    "torch_xla",
    "frameworks",
    "jax",
    "language_models",
    "vision_and_benchmarks",
    "generic",
    "generic_non_english",
    "headers",
)
"""The files in the order in which their dialects are tried: those with the most distinctive lines come first."""

_REFERENCE = re.compile(rb"\(\?&(\w+)\)")


@dataclass(frozen=True)
class Catalogue:
    """The contents of the data files."""

    entries: tuple[Mapping[str, Any], ...]
    """The `[[dialect]]` tables, in their order."""
    parts: Mapping[bytes, bytes]
    """Parts of patterns, to which patterns refer by name."""
    texts: Mapping[str, tuple[str, ...]]
    """Lists of texts that `contains` refers to by name."""
    orders: Mapping[str, tuple[bytes, ...]]
    """Words of names by what they mean, in the order of the catalogue."""
    translations: Mapping[bytes, bytes]
    """The English word for each word of another language."""


@lru_cache(maxsize=1)
def read_catalogue() -> Catalogue:
    """Read all data files."""
    entries: list[Mapping[str, Any]] = []
    parts: dict[bytes, bytes] = {}
    texts: dict[str, tuple[str, ...]] = {}
    words: dict[str, tuple[bytes, ...]] = {}
    translations: dict[bytes, bytes] = {}
    for name in FILES:
        content = tomllib.loads((CATALOGUE_DIR / f"{name}.toml").read_text(encoding="utf-8"))
        defaults = {"reach": content["reach"]} if "reach" in content else {}
        entries += ({**defaults, **entry} for entry in content.get("dialect", ()))
        parts |= {part.encode(): join_pattern(text) for part, text in content.get("parts", {}).items()}
        texts |= {f"(?&{key})": tuple(values) for key, values in content.get("texts", {}).items()}
        words |= {key: tuple(text.encode().split()) for key, text in content.get("words", {}).items()}
        for english, foreign in content.get("translations", {}).items():
            translations |= dict.fromkeys(foreign.encode().split(), english.encode())
    return Catalogue(tuple(entries), parts, texts, words, translations)


def join_pattern(pattern: str | list[str]) -> bytes:
    """Return a pattern that is written as one text or as several."""
    return (pattern if isinstance(pattern, str) else "".join(pattern)).encode()


def expand_parts(pattern: bytes) -> bytes:
    """Replace each `(?&NAME)` in a pattern by the part of that name. Raises KeyError for an unknown name."""
    parts = read_catalogue().parts
    return _REFERENCE.sub(lambda reference: expand_parts(parts[reference[1]]), pattern)
