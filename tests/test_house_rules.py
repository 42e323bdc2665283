"""The rules that keep the tree readable: sizes, names, words, imports. A failure lists the places."""

from __future__ import annotations

import ast
import functools
import importlib
import inspect
import re
import tokenize
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


@functools.cache
def trees() -> dict[str, ast.Module]:
    """Return the syntax tree of every module; only processes that run a rule parse the modules."""
    return {name: ast.parse(path.read_text()) for name, path in MODULES.items()}


MOST_MODULES = 14
"""Modules in one folder; `commands` is flat, as the index of all commands."""
MOST_LINES = 400
BANNED_NAMES = re.compile(
    r"(^|_)(told|tell|tells|teller|heard|hear|said|meant|nobody|somebody|whoever|whose|ours|look_at|asked|kept)(_|$)"
)
BANNED_WORDS = re.compile(r"\b(told|tells|somebody|nobody|whoever|of ours|heed)\b", re.IGNORECASE)
OWN = ("self", "cls")

LOCAL_IMPORTS_ALLOWED = re.compile(r"tui\.cli|tui\.commands\..*|.*\._compat_\w+")
"""A command loads only what it needs; elsewhere a local import hides the dependency graph."""
LOCAL_IMPORTS: dict[str, str] = {
    "tui.cloud.open_inventory": "machines of a hosts file need nothing that speaks to Google Cloud",
    "tui.runs.keeper.__main__": "only a run with --on-end report writes reports; loaded before the keeper answers",
    "tui.runs.launch.gang": "only a launch that checks its workers loads the checks, before its keeper answers",
    "tui.runs.read.latest_figures": "a list of runs without logs loads no numpy",
    **dict.fromkeys(
        (
            "tui.ssh.config.openssh_config",
            "tui.ssh.exec.script_protocol",
            "tui.ssh.fleet",
            "tui.ssh.keys.client_keys",
            "tui.ssh.keys.gcloud_key",
            "tui.ssh.keys.known_hosts",
        ),
        "asyncssh, half the cost of a short command, is loaded when the first worker is connected",
    ),
    "tui.logs.saved_log": "opening a log that is in the summary cache loads no numpy",
    "tui.logs.dialects.dialect": "logs whose lines all have a pattern of their own load no general grammar",
    "tui.operator.facade": "a command starts without the libraries of the groups that it does not use",
    "tui.operator.connections": "a list of runs needs neither SSH connections nor what speaks to Google Cloud",
    "tui.operator.logs": "only a profile with dialects of its own needs the regex library",
    "tui.operator.launches": "only a launch that has to ask the user logs in here; the keeper makes the checks",
    "tui.operator.runs": "runs are listed and followed without SSH connections and the worker protocol",
    "tui.operator.slices": "listing slices and starting a run load nothing that creates, copies or checks",
    "tui.console.app": "the parsers of logs load for a replay only: without them the first paint comes sooner",
    "tui.console.data.run_feed": "the parsers of logs load when a run is first read, after the first paint",
    "tui.console.widgets.panes.chart_panes": "the plotting library loads when charts are first visible",
}
"""Modules that may import others of the project in functions, with the reason."""


@functools.cache
def nodes(tree: ast.Module) -> list[ast.AST]:
    """Return every node of a tree; most rules look at all of them."""
    return list(ast.walk(tree))


def definitions(tree: ast.Module) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef]:
    for node in nodes(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node


def named(node: ast.AST) -> list[str]:
    """Return what an import statement names; nothing for another node."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom) and node.module and not node.level:
        return [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
    return []


def imported(node: ast.stmt) -> Iterator[str]:
    """Yield the project's modules that an import statement names."""
    yield from (name for name in named(node) if name in MODULES)


def runtime_nodes(tree: ast.Module) -> Iterator[ast.AST]:
    """Yield the nodes of a module that are not for the type checker only."""
    pending: list[ast.AST] = [tree]
    while pending:
        node = pending.pop()
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            continue
        yield node
        pending += ast.iter_child_nodes(node)


def identifiers(tree: ast.Module) -> Iterator[str]:
    """Yield every name that a module defines (functions, classes, arguments, variables, attributes) in snake case."""
    for node in nodes(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name
        elif isinstance(node, ast.ClassDef):
            yield re.sub(r"(?<!^)(?=[A-Z])", "_", node.name).lower()
        elif isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.attr


def private_names(tree: ast.Module) -> Iterator[str]:
    """Yield the private names of other modules and their objects that a module uses."""
    own = {node.name for node in definitions(tree)}
    for node in nodes(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            own.add(node.id)
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in OWN:
            own.add(node.attr)
    for node in nodes(tree):
        if isinstance(node, ast.Attribute) and not (isinstance(node.value, ast.Name) and node.value.id in OWN):
            names = [node.attr]
        elif isinstance(node, ast.ImportFrom) and node.module != "__future__":
            names = [alias.name for alias in node.names if f"{node.module}.{alias.name}" not in MODULES]
        else:
            names = []
        yield from (name for name in names if re.match(r"_[a-z]", name) and name not in own)


def comments(module: str) -> Iterator[tokenize.TokenInfo]:
    """Yield the comments of a module."""
    with MODULES[module].open("rb") as file:
        yield from (token for token in tokenize.tokenize(file.readline) if token.type == tokenize.COMMENT)


def is_package(module: str) -> bool:
    return MODULES[module].name == "__init__.py"


def test_a_folder_holds_at_most_14_modules() -> None:
    sizes = Counter(path.parent for path in MODULES.values() if path.name not in ("__init__.py", "__main__.py"))
    assert not {str(path): size for path, size in sizes.items() if size > MOST_MODULES and path.name != "commands"}


def test_a_module_has_at_most_400_lines() -> None:
    lines = {name: len(path.read_text().splitlines()) for name, path in MODULES.items()}
    assert not {name: count for name, count in lines.items() if count > MOST_LINES}


def test_every_package_says_in_a_sentence_what_it_is_for() -> None:
    assert not [name for name in MODULES if is_package(name) and not ast.get_docstring(trees()[name])]


def test_class_names_are_unique() -> None:
    homes = defaultdict(list)
    for module, tree in trees().items():
        for node in definitions(tree):
            if isinstance(node, ast.ClassDef):
                homes[node.name].append(module)
    assert not {name: modules for name, modules in homes.items() if len(modules) > 1}


def test_names_are_plain_technical_english() -> None:
    assert not sorted(
        {
            f"{module}:{name}"
            for module, tree in trees().items()
            for name in identifiers(tree)
            if BANNED_NAMES.search(name)
        }
    )
    assert not [module for module in MODULES if BANNED_NAMES.search(module.rpartition(".")[2])]


def test_docstrings_and_comments_are_plain_technical_english() -> None:
    suspects = [module for module, path in MODULES.items() if BANNED_WORDS.search(path.read_text())]
    docstrings = [
        f"{module}:{getattr(node, 'name', '')}"
        for module in suspects
        for node in (trees()[module], *definitions(trees()[module]))
        if BANNED_WORDS.search(ast.get_docstring(node) or "")
    ]
    lines = [
        f"{module}:{comment.start[0]}"
        for module in suspects
        for comment in comments(module)
        if BANNED_WORDS.search(comment.string)
    ]
    assert not docstrings + lines


def test_nothing_imports_in_a_circle_not_even_for_types_or_in_functions() -> None:
    graph = {
        module: {
            name for node in nodes(tree) if isinstance(node, ast.stmt) for name in imported(node) if name != module
        }
        for module, tree in trees().items()
        if not is_package(module)
    }
    while ends := {module for module, needs in graph.items() if not needs & graph.keys()}:
        graph = {module: needs for module, needs in graph.items() if module not in ends}
    while ends := graph.keys() - set().union(*graph.values()):
        graph = {module: needs for module, needs in graph.items() if module not in ends}
    assert not {module: sorted(needs & graph.keys()) for module, needs in graph.items()}


def test_modules_of_the_project_are_imported_at_the_top() -> None:
    found = {
        module
        for module, tree in trees().items()
        if not is_package(module) and not LOCAL_IMPORTS_ALLOWED.fullmatch(module)
        for function in definitions(tree)
        if not isinstance(function, ast.ClassDef)
        for node in ast.walk(function)
        if isinstance(node, ast.stmt) and any(imported(node))
    }
    assert sorted(found) == sorted(LOCAL_IMPORTS)


def test_asyncssh_is_imported_in_one_place() -> None:
    """`tui.ssh.asyncssh_import` explains why."""
    found = {
        module
        for module, tree in trees().items()
        for node in runtime_nodes(tree)
        if any(name.partition(".")[0] == "asyncssh" for name in named(node))
    }
    assert found == {"tui.ssh.asyncssh_import"}


def test_processes_of_the_project_import_nothing_from_the_current_directory() -> None:
    """`tui.procs.python_env.module_command` starts them; those of two other modules start in `/`."""
    found = {
        name
        for name, tree in trees().items()
        for node in nodes(tree)
        if name.startswith("tui.") and isinstance(node, ast.List | ast.Call)
        if _words(node)[:2] == ["sys.executable", "'-m'"]
    }
    assert found == {"tui.runs.keeper.start", "tui.localpod.cleanup.guardian_client"}


def _words(node: ast.List | ast.Call) -> list[str]:
    return [ast.unparse(word) for word in (node.elts if isinstance(node, ast.List) else node.args)]


def test_time_limits_lose_no_cancellation() -> None:
    """`asyncio.wait_for` can lose a cancellation; `tui.aio.timeouts` explains why."""
    calls = {
        name
        for name, tree in trees().items()
        for node in nodes(tree)
        if isinstance(node, ast.Attribute) and node.attr == "wait_for" and ast.unparse(node) == "asyncio.wait_for"
    }
    assert not calls


def test_private_names_of_others_are_used_in_compat_modules_only() -> None:
    allowed = {"_exit", "_getframe", "_replace"}  # documented, in spite of their names
    assert not [
        f"{module}:{name}"
        for module, tree in trees().items()
        if "._compat_" not in module
        for name in private_names(tree)
        if name not in allowed
    ]


@pytest.mark.parametrize("library", ["textual", "asyncssh", "argparse", "textual_plot"])
def test_private_names_of_a_library_are_overridden_in_its_compat_module_only(library: str) -> None:
    found = []
    for module, tree in trees().items():
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


def test_every_module_that_may_import_in_functions_exists() -> None:
    assert LOCAL_IMPORTS.keys() <= MODULES.keys()


def test_the_rules_see_the_whole_tree_and_what_they_forbid() -> None:
    assert len(MODULES) > 200
    assert "tui.cli" in MODULES
    bad = ast.parse(
        "import tui.cli\nfrom os import _exit\nclass ToldRow:\n    def f(self, said):\n        x._ours = 1"
    )
    assert [name for name in identifiers(bad) if BANNED_NAMES.search(name)] == ["told_row", "said", "_ours"]
    assert sorted(private_names(bad)) == ["_exit", "_ours"]
    assert BANNED_WORDS.search("Wait until somebody answers.")
    assert [name for node in bad.body for name in imported(node)] == ["tui.cli"]
    assert LOCAL_IMPORTS_ALLOWED.fullmatch("tui.console._compat_textual")
    assert not LOCAL_IMPORTS_ALLOWED.fullmatch("tui.console.app")
