"""The package uses the public API of leporid alone."""

from __future__ import annotations

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
