"""The names that the operator's package exports."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tui import operator


def test_every_name_is_known_to_the_type_checker_and_at_run_time() -> None:
    tree = ast.parse(Path(operator.__file__).read_text(encoding="utf-8"))
    typed = {
        f"{node.module}.{name.name}"
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("tui.")
        for name in node.names
    }
    assert {f"{module}.{name}" for name, module in operator._MODULES.items()} == typed
    assert all(getattr(operator, path.rpartition(".")[2]) is not None for path in typed)


def test_an_unknown_name_is_an_error() -> None:
    with pytest.raises(AttributeError, match="nonesuch"):
        operator.nonesuch  # noqa: B018
