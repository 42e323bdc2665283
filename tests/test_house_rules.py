"""The rules that keep the tree readable: sizes, names, words, imports. What breaks one says where."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = ("tui", "trainer")
MODULES = {
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path
    for package in PACKAGES
    for path in sorted((ROOT / package).rglob("*.py"))
}
TREES = {name: ast.parse(path.read_text()) for name, path in MODULES.items()}

MOST_MODULES = 14
"""Modules in one folder. The list of commands is flat: it is their index."""
MOST_LINES = 400
UNMET = pytest.mark.xfail(strict=True, reason="the tree does not meet this rule yet")
BANNED_NAMES = re.compile(
    r"(^|_)(told|tell|tells|teller|heard|hear|said|meant|nobody|somebody|whoever|whose|ours|look_at|asked|kept)(_|$)"
)
BANNED_WORDS = re.compile(r"\b(told|tells|somebody|nobody|whoever|of ours|heed)\b", re.IGNORECASE)

LOCAL_IMPORTS_ALLOWED = re.compile(r"tui\.cli|tui\.commands\..*|.*\._compat_\w+")
"""A command loads only what it needs; elsewhere a local import hides the graph."""
LOCAL_IMPORTS: dict[str, str] = {
    "tui.console.app": "the parsers of logs load for a replay only: without them the first paint comes sooner",
    "tui.console.data.run_feed": "the parsers of logs load when a run is first read, after the first paint",
    "tui.console.widgets.panes.chart_panes": "the plotting library loads when charts are first visible",
}
"""Modules that may import others of the project in functions, with the reason."""


def definitions(tree: ast.Module) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node


def imported(node: ast.stmt) -> Iterator[str]:
    """The project's modules that an import statement names."""
    if isinstance(node, ast.Import):
        names = [alias.name for alias in node.names]
    elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
        names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
    else:
        names = []
    yield from (name for name in names if name in MODULES)


def is_package(module: str) -> bool:
    return MODULES[module].name == "__init__.py"


def test_a_folder_holds_at_most_14_modules() -> None:
    sizes = Counter(path.parent for path in MODULES.values() if path.name not in ("__init__.py", "__main__.py"))
    assert not {str(path): size for path, size in sizes.items() if size > MOST_MODULES and path.name != "commands"}


@UNMET
def test_a_module_has_at_most_400_lines() -> None:
    lines = {name: len(path.read_text().splitlines()) for name, path in MODULES.items()}
    assert not {name: count for name, count in lines.items() if count > MOST_LINES}


def test_every_package_says_in_a_sentence_what_it_is_for() -> None:
    assert not [name for name in MODULES if is_package(name) and not ast.get_docstring(TREES[name])]


def test_class_names_are_unique() -> None:
    homes = defaultdict(list)
    for module, tree in TREES.items():
        for node in definitions(tree):
            if isinstance(node, ast.ClassDef):
                homes[node.name].append(module)
    assert not {name: modules for name, modules in homes.items() if len(modules) > 1}


@UNMET
def test_names_are_plain_technical_english() -> None:
    snake = {
        f"{module}:{node.name}": re.sub(r"(?<!^)(?=[A-Z])", "_", node.name).lower()
        for module, tree in TREES.items()
        for node in definitions(tree)
    }
    assert not [where for where, name in snake.items() if BANNED_NAMES.search(name)]
    assert not [module for module in MODULES if BANNED_NAMES.search(module.rpartition(".")[2])]


@UNMET
def test_docstrings_are_plain_technical_english() -> None:
    assert not [
        f"{module}:{getattr(node, 'name', '')}"
        for module, tree in TREES.items()
        for node in (tree, *definitions(tree))
        if BANNED_WORDS.search(ast.get_docstring(node) or "")
    ]


@UNMET
def test_nothing_imports_in_a_circle_not_even_for_types_or_in_functions() -> None:
    graph = {
        module: {
            name for node in ast.walk(tree) if isinstance(node, ast.stmt) for name in imported(node) if name != module
        }
        for module, tree in TREES.items()
        if not is_package(module)
    }
    while ends := {module for module, needs in graph.items() if not needs & graph.keys()}:
        graph = {module: needs for module, needs in graph.items() if module not in ends}
    while ends := graph.keys() - set().union(*graph.values()):
        graph = {module: needs for module, needs in graph.items() if module not in ends}
    assert not {module: sorted(needs & graph.keys()) for module, needs in graph.items()}


@UNMET
def test_modules_of_the_project_are_imported_at_the_top() -> None:
    found = {
        module
        for module, tree in TREES.items()
        if not is_package(module) and not LOCAL_IMPORTS_ALLOWED.fullmatch(module)
        for function in definitions(tree)
        if not isinstance(function, ast.ClassDef)
        for node in ast.walk(function)
        if isinstance(node, ast.stmt) and any(imported(node))
    }
    assert sorted(found) == sorted(LOCAL_IMPORTS)


@pytest.mark.parametrize("library", ["textual", "asyncssh", "argparse", "textual_plot"])
def test_private_names_of_a_library_are_overridden_in_its_compat_module_only(library: str) -> None:
    found = []
    for module, tree in TREES.items():
        if (
            not module.startswith("tui")
            or f"_compat_{library}" in module
            or library not in MODULES[module].read_text()
        ):
            continue
        for node in definitions(tree):
            if not isinstance(node, ast.ClassDef) or not node.bases:
                continue
            private = {each.name for each in definitions(ast.Module(node.body, [])) if re.match(r"_[a-z]", each.name)}
            each = getattr(importlib.import_module(module), node.name, None)
            bases = [base for base in inspect.getmro(each)[1:] if base.__module__.startswith(library)] if each else []
            found += [f"{module}:{node.name}.{name}" for base in bases for name in private & vars(base).keys()]
    assert not found


def test_the_rules_see_the_whole_tree() -> None:
    assert len(MODULES) > 200
    assert "tui.cli" in MODULES
    assert sys.version_info >= (3, 10)
