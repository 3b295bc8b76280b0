"""References to modules, files and names of opbridge in docstrings, comments and documents: each has to exist.

What counts as a reference in a Python file:
    1. `opbridge.x.y`: a module, or a name in one, also a name of a class. A key of a model's metadata
       (`opbridge.operator`) is one if some module has it as a string.
    2. `x` and `x.y`, where x is the name of a module of opbridge: the module has to be in the same folder, in a folder
       beside it, imported, or named in full; y has to be in it. (`dynamic_shapes` is a module, and an argument too.)
    3. `x.py`: a file beside the file that names it, or below the package or the repository.
    4. "see `x`": a module as in 2, or a name of the file itself.
    5. Paths that begin with a folder of the repository: src/, tests/, docs/, examples/, bench/.
In documents: 1, 5, links to files, and in CONTRIBUTING.md all paths below src/opbridge and tests. Files that readers of
a tutorial write are left out.
"""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TypeGuard

import pytest

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "src" / "opbridge"
FILES = sorted(PACKAGE.rglob("*.py"))
FOLDERS = sorted({path.parent for path in FILES})
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])

QUOTED = re.compile(r"(?<!`)`([^`\n]+)`(?!`)")
DOTTED = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")
FULL_NAME = re.compile(r"opbridge(\.[A-Za-z_]\w*)+")
SEE = re.compile(r"\b[Ss]ee `(\w+)`")
PATH = re.compile(r"(?<![\w./-])((?:src|tests|docs|examples|bench)/[\w./-]*\w)")
LINK = re.compile(r"\[[^\]]+\]\(([^)#\s]+)(?:#[^)\s]*)?\)")

MADE = {"command-line.md", "operators.md"}
"""Pages that are made when the site is built."""

TUTORIAL = {"reference", "softsign_scale", "test_reference"}
"""The names of files that readers of a tutorial write."""


def module_name(path: Path) -> str:
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_name(path): path for path in FILES}
STEMS = {name.rpartition(".")[2] for name in MODULES}


@functools.cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


@functools.cache
def nodes(path: Path) -> tuple[ast.AST, ...]:
    return tuple(ast.walk(tree(path)))


def defined(body: list[ast.stmt]) -> dict[str, ast.stmt]:
    """The names that statements bind, also in `if` and `try`, with the statement."""
    found: dict[str, ast.stmt] = {}
    for statement in body:
        if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            found[statement.name] = statement
        elif isinstance(statement, (ast.Import, ast.ImportFrom)):
            found |= {(each.asname or each.name).partition(".")[0]: statement for each in statement.names}
        elif isinstance(statement, (ast.Assign, ast.AnnAssign, ast.AugAssign)):
            targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
            names = (each for target in targets for each in ast.walk(target))
            found |= {each.id: statement for each in names if isinstance(each, ast.Name)}
        elif isinstance(statement, (ast.If, ast.Try)):
            handlers = [each for handler in getattr(statement, "handlers", ()) for each in handler.body]
            found |= defined([*statement.body, *statement.orelse, *handlers])
    return found


@functools.cache
def exported(module: str) -> frozenset[str]:
    """The strings of a module that serve names when they are asked for, as `opbridge.__init__` does."""
    if module != "opbridge":
        return frozenset()
    return frozenset(
        each.value for each in nodes(MODULES[module]) if isinstance(each, ast.Constant) and isinstance(each.value, str)
    )


def exists(name: str) -> bool:
    """Whether a full name is a module, or a name in a module or in a class of one."""
    module, rest = name, []
    while module and module not in MODULES:
        module, _, last = module.rpartition(".")
        rest.insert(0, last)
    if not module:
        return False
    if not rest:
        return True
    names = defined(tree(MODULES[module]).body)
    if rest[0] not in names:
        return rest[0] in exported(module)
    statement = names[rest[0]]
    if len(rest) == 1 or isinstance(statement, (ast.Import, ast.ImportFrom, ast.Assign, ast.AnnAssign)):
        return True
    if not isinstance(statement, ast.ClassDef):
        return False
    attributes = {
        each.attr for each in ast.walk(statement) if isinstance(each, ast.Attribute) and isinstance(each.ctx, ast.Store)
    }
    # What a class inherits is not looked up.
    return rest[1] in {*defined(statement.body), *attributes} or bool(statement.bases)


@functools.cache
def metadata_keys() -> frozenset[str]:
    """The strings of opbridge that are a name beginning with "opbridge.", as keys of metadata are."""
    constants = (each for path in FILES for each in nodes(path) if isinstance(each, ast.Constant))
    return frozenset(
        word
        for each in constants
        if isinstance(each.value, (str, bytes))
        for word in [each.value.decode(errors="replace") if isinstance(each.value, bytes) else each.value]
        if FULL_NAME.fullmatch(word)
    )


def text_of(path: Path) -> list[tuple[int, str]]:
    """The lines of the comments and strings of a file, with their numbers.

    Also what follows a # in a string, which is text twice then: finding comments alone takes a tokenizer, and seconds.
    """
    strings = [(each.lineno, each.value) for each in nodes(path) if is_text(each)]
    lines = [(start + number, line) for start, text in strings for number, line in enumerate(text.splitlines())]
    comments = ((number, line.partition("#")) for number, line in enumerate(path.read_text().splitlines(), 1))
    return [*lines, *((number, text) for number, (_, mark, text) in comments if mark)]


def is_text(node: ast.AST) -> TypeGuard[ast.Constant]:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


@functools.cache
def argument_names() -> frozenset[str]:
    """The names of all arguments of functions."""
    return frozenset(each.arg for path in FILES for each in nodes(path) if isinstance(each, ast.arg))


def identifiers(path: Path) -> set[str]:
    """Every name that a file uses or binds."""
    found: set[str] = set()
    for node in nodes(path):
        if isinstance(node, ast.Name):
            found.add(node.id)
        elif isinstance(node, ast.Attribute):
            found.add(node.attr)
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            found.add(node.name)
        elif isinstance(node, (ast.arg, ast.keyword)):
            found.add(node.arg or "")
        elif isinstance(node, ast.alias):
            found.add((node.asname or node.name).rpartition(".")[2])
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            found.add(node.value)
    return found


def nearby(path: Path) -> dict[str, str]:
    """The modules that a file may name by their last part: those of its folder, and those beside its folder."""
    package = module_name(path) if path.name == "__init__.py" else module_name(path).rpartition(".")[0]
    around = package.rpartition(".")[0]
    return {
        name.rpartition(".")[2]: name
        for parent in (around, package)
        for name in MODULES
        if parent and name.rpartition(".")[0] == parent
    }


def python_problems(path: Path) -> list[str]:
    problems = []
    names, near = identifiers(path), nearby(path)
    for line, text in text_of(path):
        for match in QUOTED.finditer(text):
            word = match[1]
            name = word.partition("(")[0]
            if FULL_NAME.fullmatch(name):
                if not exists(name) and name not in metadata_keys():
                    problems.append(f"{line}: `{word}` does not exist")
            elif re.fullmatch(r"[\w/]+\.py", word):
                if not any((folder / word).exists() for folder in (path.parent, PACKAGE, ROOT)):
                    problems.append(f"{line}: there is no file `{word}`")
            elif DOTTED.fullmatch(name):
                first, _, rest = name.partition(".")
                if first in near:
                    if rest and not exists(f"{near[first]}.{rest}") and first not in names:
                        problems.append(f"{line}: `{word}` is not in {near[first]}")
                elif first in STEMS and "_" in first and first not in names and first not in argument_names():
                    problems.append(f"{line}: `{word}` is a module of another folder; write its full name")
        for match in SEE.finditer(text):
            if match[1] not in names and match[1] not in near:
                problems.append(f"{line}: see `{match[1]}` names nothing")
        for match in PATH.finditer(text):
            if not (ROOT / match[1]).exists():
                problems.append(f"{line}: there is no {match[1]}")
    return problems


def current_text(path: Path) -> str:
    """The text of a document; of the change log the newest section, and the last column of its tables: new names."""
    text = path.read_text()
    if path.name != "CHANGELOG.md":
        return text
    newest = "\n## ".join(text.split("\n## ")[:2])
    return re.sub(r"^ *\|.*\|(.*)\|\s*$", r"\1", newest, flags=re.M)


def document_problems(path: Path) -> list[str]:
    problems = []
    is_code = False
    for line, text in enumerate(current_text(path).splitlines(), 1):
        is_code ^= text.lstrip().startswith("```")
        for match in PATH.finditer(text):
            if not (ROOT / match[1]).exists() and Path(match[1]).stem not in TUTORIAL:
                problems.append(f"{line}: there is no {match[1]}")
        for match in LINK.finditer(text):
            linked = (path.parent / match[1]).resolve()
            made = linked.parent == ROOT / "docs" and linked.name in MADE
            if not is_code and "://" not in match[1] and not linked.exists() and not made:
                problems.append(f"{line}: the link to {match[1]} leads nowhere")
        for match in QUOTED.finditer(text):
            name = match[1].partition("(")[0].rstrip(".")
            if FULL_NAME.fullmatch(name) and not exists(name) and name not in metadata_keys():
                problems.append(f"{line}: `{match[1]}` does not exist")
            elif Path(match[1]).stem in TUTORIAL:
                continue
            elif path.name == "CONTRIBUTING.md" and re.fullmatch(r"[\w/]+(\.py|/)", match[1]):
                if not (ROOT / match[1]).exists() and not any(
                    found for folder in (PACKAGE, ROOT / "tests") for found in folder.rglob(match[1].rstrip("/"))
                ):
                    problems.append(f"{line}: there is no `{match[1]}`")
    return problems


def problems_by_file(problems: Callable[[Path], list[str]], files: Iterable[Path]) -> dict[str, list[str]]:
    found = {str(path.relative_to(ROOT)): problems(path) for path in files}
    return {name: each for name, each in found.items() if each}


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda path: str(path.relative_to(PACKAGE.parent)))
def test_what_python_files_refer_to_exists(folder):
    assert problems_by_file(python_problems, (path for path in FILES if path.parent == folder)) == {}


@pytest.mark.slow
def test_what_documents_refer_to_exists():
    assert problems_by_file(document_problems, DOCUMENTS) == {}


@pytest.mark.slow
def test_missing_references_are_found(tmp_path, monkeypatch):
    folder = PACKAGE / "nodes"
    source = '''
"""See `no_such_module`; `opbridge.nodes.nothing`, `aten_node.nothing`, `torch_sizes`, `gone.py`, tests/gone.py.

But: `opbridge.nodes.aten_node.encode`, `opbridge.operator`, `aten_node.encode`, `operator_nodes`, `torch.nn`, `foo`.
"""
'''
    text = Path.read_text
    path = folder / "made_up.py"
    monkeypatch.setattr(Path, "read_text", lambda self: source if self == path else text(self))
    words = ["no_such_module", "opbridge.nodes.nothing", "aten_node.nothing", "torch_sizes", "gone.py", "tests/gone.py"]
    found = python_problems(path)
    assert len(found) == len(words)
    assert all(any(word in problem for problem in found) for word in words)
