"""Every runtime dependency is in the table of docs/dependencies.md, with licence and reason."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]


def runtime_dependencies() -> dict[str, str]:
    """Each package, and where the table says it belongs: the core or an extra."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    groups = {"core": project["dependencies"], **project["optional-dependencies"]}
    for tools in ("all", "docs", "dev"):
        del groups[tools]
    return {
        re.split(r"[^A-Za-z0-9._-]", requirement)[0]: where if where == "core" else f"`[{where}]`"
        for where, requirements in groups.items()
        for requirement in requirements
    }


def test_each_runtime_dependency_has_a_place_a_licence_and_a_reason() -> None:
    page = (ROOT / "docs" / "dependencies.md").read_text(encoding="utf-8")
    table = page.partition("| package | where | licence | why |\n")[2].partition("\n\n")[0]
    listed = {}
    for line in table.splitlines()[1:]:
        names, where, licence, why = (cell.strip() for cell in line.strip("|").split("|", 3))
        assert licence, names
        assert why, names
        listed |= dict.fromkeys(names.split(", "), where)
    assert listed == runtime_dependencies()
