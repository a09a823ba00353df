"""How the repository is laid out: who imports whom, how long things are, and that what is written down exists."""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
MOST_LINES, MOST_FUNCTION_LINES = 450, 60
TEXT_SUFFIXES = {"", ".c", ".cfg", ".cmake", ".cpp", ".h", ".hpp", ".f", ".inl", ".json", ".md", ".py", ".pyi", ".sh",
                 ".sv", ".tcl", ".toml", ".txt", ".v", ".yml"}  # fmt: skip


def tracked() -> list[Path]:
    """Files that belong to the project: tracked ones in a checkout, else (an unpacked archive) all but outputs."""
    if shutil.which("git") and (ROOT / ".git").exists():
        names = subprocess.run(["git", "ls-files"], cwd=ROOT, check=True, capture_output=True, text=True).stdout
        return [path for name in names.splitlines() if (path := ROOT / name).is_file()]
    outputs = {"build", ".venv", ".git"}
    return [p for p in ROOT.rglob("*") if p.is_file() and not outputs & set(p.relative_to(ROOT).parts)]


def sources(*suffixes: str) -> list[Path]:
    """Tracked sources of host, drivers and sim with one of ``suffixes``."""
    rooms = tuple(ROOT / room for room in ("host", "drivers", "sim"))
    return [path for path in tracked() if path.suffix in suffixes and any(path.is_relative_to(r) for r in rooms)]


def test_imports_go_one_way():
    lint = "import sys; from importlinter.cli import lint_imports; sys.exit(lint_imports(no_cache=True))"
    result = subprocess.run([sys.executable, "-c", lint], cwd=ROOT, capture_output=True, text=True)
    assert result.returncode == 0, result.stdout + result.stderr


def test_files_are_short():
    code = sources(".py", ".cpp", ".hpp", ".h", ".inl")
    lengths = {path: len(path.read_text(encoding="utf-8").splitlines()) for path in code}
    assert lengths
    long = {str(path.relative_to(ROOT)): count for path, count in lengths.items() if count > MOST_LINES}
    assert not long, f"split these files (at most {MOST_LINES} lines): {long}"


def test_functions_are_short():
    long = {}
    for path in sources(".py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                count = (node.end_lineno or node.lineno) - node.lineno + 1
                if count > MOST_FUNCTION_LINES:
                    long[f"{path.relative_to(ROOT)}:{node.lineno} {node.name}"] = count
    assert not long, f"split these functions (at most {MOST_FUNCTION_LINES} lines): {long}"


def test_nothing_points_outside_the_repository():
    outside = re.compile(r"\.\./" + r"shared|(?<![\w.])/" + r"work/|/" + r"home/\w+/")
    found = [
        f"{path.relative_to(ROOT)}:{number}"
        for path in tracked()
        if path.suffix in TEXT_SUFFIXES
        for number, line in enumerate(path.read_text(encoding="utf-8", errors="replace").splitlines(), 1)
        if outside.search(line)
    ]
    assert not found, f"paths of one person's machine: {found}"


def make_targets() -> set[str]:
    """Targets of the Makefile that a person may ask for."""
    rules = re.findall(r"^([\w-]+(?: [\w-]+)*):(?!=)", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    return {name for rule in rules for name in rule.split()}


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md"])
def test_the_make_targets_that_are_written_down_exist(page):
    text = (ROOT / page).read_text(encoding="utf-8")
    named = set(re.findall(r"(?:^|`)make ([\w-]+)", text, re.MULTILINE))
    assert named
    assert named <= make_targets()


def test_links_between_pages_lead_somewhere():
    broken = []
    for page in (path for path in tracked() if path.suffix == ".md"):
        for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
            if "://" not in target and not (page.parent / target).exists():
                broken.append(f"{page.relative_to(ROOT)}: {target}")
    assert not broken
