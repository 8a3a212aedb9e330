"""The packages are as ARCHITECTURE.md says: public names, imports, and examples that run."""

from __future__ import annotations

import ast
import importlib
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from leporid import models

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "leporid"
PACKAGES = sorted(path.parent for path in SOURCE.glob("*/**/__init__.py"))
TOP_PACKAGES = {package.name for package in PACKAGES if package.parent == SOURCE}
FILES = sorted(SOURCE.rglob("*.py"))


def name_of(path: Path) -> str:
    return str(path.relative_to(SOURCE))


def exports(package: Path) -> set[str]:
    """The public names of a package: those of its stub, or of `__all__`."""
    stub = package / "__init__.pyi"
    if not package.is_dir():
        stub = package.with_suffix(".pyi")
    if stub.exists():
        tree = ast.parse(stub.read_text(encoding="utf-8"))
        nodes = [node for node in tree.body if isinstance(node, ast.ImportFrom)]
        return {alias.asname or alias.name for node in nodes for alias in node.names}
    listed = re.search(
        r"__all__ = (\[.*?\])", (package / "__init__.py").read_text(encoding="utf-8")
    )
    return set(ast.literal_eval(listed[1])) if listed else set()


def imports(path: Path) -> Iterator[tuple[str, list[str], int]]:
    """Module, names and line of each absolute import."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module, [alias.name for alias in node.names], node.lineno
        elif isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name, [], node.lineno


@pytest.mark.parametrize("package", PACKAGES, ids=name_of)
def test_exported_names_exist(package: Path) -> None:
    if package.name == "distributed":
        pytest.importorskip("distributed")
    dotted = ".".join(package.relative_to(SOURCE.parent).parts)
    module = importlib.import_module(dotted)
    for name in exports(package):
        assert hasattr(module, name), f"{dotted}.{name}"


def test_packages_import_public_names_of_each_other() -> None:
    wrong = []
    for path in FILES:
        parts = path.relative_to(SOURCE).parts
        own = parts[0] if len(parts) > 1 else None
        for module, names, line in imports(path):
            where = f"{name_of(path)}:{line}: {module}"
            if module == "leporid":
                # `import leporid` would import from the layers above.
                wrong += [] if set(names) <= TOP_PACKAGES and names else [where]
            if not module.startswith("leporid."):
                continue
            _, package, *inner = module.split(".")
            if package not in TOP_PACKAGES or package == own:
                continue
            strangers = set(names) - exports(SOURCE / package)
            if inner or strangers:
                wrong.append(f"{where} {sorted(strangers)}")
    # The entry points load one module by name, before anything else.
    assert [line for line in wrong if not line.startswith(("__main__.py", "__init__.py"))] == []


def test_a_listing_of_models_is_the_registry() -> None:
    classes = [models.get(name) for name in models.available()]
    known = {SOURCE.joinpath(*cls.__module__.split(".")[1:]).with_suffix(".py") for cls in classes}
    for path in FILES:
        if path.is_relative_to(SOURCE / "models"):
            is_model = re.search(r"^    name = \"", path.read_text(encoding="utf-8"), re.MULTILINE)
            assert bool(is_model) == (path in known), path


ARCHITECTURE = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")


def test_paths_in_the_architecture_exist() -> None:
    prose = re.sub(r"^```.*?^```$", "", ARCHITECTURE, flags=re.MULTILINE | re.DOTALL)
    paths = [
        word
        for word in re.findall(r"`([\w./-]+)`", prose)
        if re.search(r"(/|\.(py|pyi|toml|md|html))$", word) and word != "__init__.pyi"
    ]
    assert len(paths) > 50
    for path in set(paths) - {"__init__.py"}:
        assert (SOURCE / path).exists() or (ROOT / path).exists(), path


NEW_FILE = re.compile(r"^```python\n# (src/\S+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
CHANGE = re.compile(r"^```diff\n--- (\S+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
USE_EXAMPLES = """
import leporid

data = leporid.synthesize(90, 60, 1800, seed=3)
split = leporid.temporal_split(data)
model = leporid.train("newest", split)
items, _ = model.recommend(["7", "8"], n=5)
model.save("saved")
again, _ = leporid.Recommender.load("saved").recommend(["7", "8"], n=5)
assert (items == again).all()
assert 0 <= leporid.evaluate(model, split, at=(10,)).mean()["FirstHit@10"] <= 1
vectors = leporid.initializers.initial_embeddings("projection", split.train, dim=8, cache=False)
assert vectors.users.vectors.shape == (90, 8)
assert vectors.items.vectors.shape == (60, 8)
try:
    leporid.load("books")
except leporid.errors.DataError as error:
    assert "https://example.org/books" in str(error), error
else:
    raise AssertionError("nobody has fetched the books")
leporid.data.write_log(data, "log.csv")
"""


def insert(text: str, change: str) -> str:
    """Insert the lines with a plus behind the line without one before them."""
    anchor = ""
    for line in change.splitlines():
        if not line.startswith("+"):
            anchor = line[1:] + "\n"
            assert text.count(anchor) == 1, anchor
            continue
        head, tail = text.split(anchor)
        anchor = anchor + line[1:] + "\n"
        text = head + anchor + tail
    return text


def test_the_examples_of_the_architecture_run(tmp_path: Path) -> None:
    shutil.copytree(SOURCE, tmp_path / "src" / "leporid")
    files, changes = NEW_FILE.findall(ARCHITECTURE), CHANGE.findall(ARCHITECTURE)
    assert len(files) == 3
    assert len(changes) == 5
    for name, text in files:
        (tmp_path / name).write_text(text, encoding="utf-8")
    for name, change in changes:
        path = tmp_path / name
        path.write_text(insert(path.read_text(encoding="utf-8"), change), encoding="utf-8")
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "src")}
    for command in (["-c", USE_EXAMPLES], ["-m", "leporid", "count", "log.csv"]):
        done = subprocess.run(
            [sys.executable, *command],
            capture_output=True,
            text=True,
            check=False,
            cwd=tmp_path,
            env=environment,
        )
        assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "1800"


def test_every_package_has_a_contract_against_cycles() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    [acyclic] = [
        contract["ancestors"]
        for contract in settings["tool"]["importlinter"]["contracts"]
        if contract["type"] == "acyclic_siblings"
    ]
    assert acyclic == sorted(".".join(path.relative_to(ROOT / "src").parts) for path in PACKAGES)
