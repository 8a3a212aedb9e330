"""Old public names that keep working for one version, with a `DeprecationWarning`."""

from __future__ import annotations

import pkgutil
import sys
import warnings
from collections.abc import Callable, Mapping
from typing import Any


def deprecated_names(module: str, names: Mapping[str, str]) -> None:
    """Let `module.old` answer as the object at the dotted path `names[old]`.

    Call it in the module, after its `__getattr__` (of lazy_loader, if any) is defined.
    """
    space = vars(sys.modules[module])
    other: Callable[[str], Any] | None = space.get("__getattr__")

    def look_up(name: str) -> Any:
        if name in names:
            text = f"{module}.{name} is now {names[name]}: the old name goes in the next version"
            warnings.warn(text, DeprecationWarning, stacklevel=2)
            return pkgutil.resolve_name(names[name])
        if other is None:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        return other(name)

    space["__getattr__"] = look_up
