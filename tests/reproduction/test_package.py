"""The package: it uses the public API of leporid alone, and its docstring names its files."""

from __future__ import annotations

import re
from pathlib import Path

import reproduction
from tests.test_architecture import SOURCE, TOP_PACKAGES, exports, imports

FOLDER = Path(reproduction.__file__).parent
FILES = sorted(FOLDER.glob("*.py"))


def test_nothing_private_of_leporid_is_imported() -> None:
    private = []
    for path in FILES:
        for module, names, line in imports(path):
            top, _, rest = module.partition(".")
            if top != "leporid" or not rest:
                continue
            package, _, inner = rest.partition(".")
            strangers = set(names) - exports(SOURCE / package) if package in TOP_PACKAGES else set()
            if inner or strangers or package.startswith("_"):
                private.append(f"{path.name}:{line}: {module} {sorted(strangers)}")
    assert private == []


def test_the_docstring_names_every_file() -> None:
    listed = set(re.findall(r"^(\S+?)/? {2,}\S", reproduction.__doc__ or "", re.MULTILINE))
    there = {path.stem for path in FILES} | {path.name for path in FOLDER.iterdir()}
    files = {name.removesuffix(".py") for name in there} - {"__init__", "__pycache__"}
    assert listed == files


def test_no_file_has_more_than_400_lines() -> None:
    assert max(len(path.read_text(encoding="utf-8").splitlines()) for path in FILES) <= 400
