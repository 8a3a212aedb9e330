"""Old public names that keep working for one version, with a warning that gives the new name."""

from __future__ import annotations

import functools
import importlib
import pkgutil
import sys
import warnings
from collections.abc import Callable, Mapping
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

GOES = "the old name goes in the next version"
_PACKAGES = {
    "leporid.choosing": "leporid.selection",
    "leporid.ranking": "leporid.evaluation",
    "leporid.runs": "leporid.experiments",
    "leporid.tuning": "leporid.experiments",
}
OLD_COMMANDS = {"grow": "extend"}
OLD_OPTIONS = {
    ("extend", "--exposure"): "--cold-item-share",
    ("tune", "--rehearse"): "--inner-validation",
}
"""New option by command and old option."""


def deprecated_names(module: str, names: Mapping[str, str]) -> None:
    """Let `module.old` answer as the object at the dotted path `names[old]`.

    Call it in the module, after its `__getattr__` (of lazy_loader, if any) is defined.
    """
    space = vars(sys.modules[module])
    other: Callable[[str], Any] | None = space.get("__getattr__")

    def look_up(name: str) -> Any:
        if name in names:
            text = f"{module}.{name} is now {names[name]}: {GOES}"
            warnings.warn(text, DeprecationWarning, stacklevel=2)
            return pkgutil.resolve_name(names[name])
        if other is None:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        return other(name)

    space["__getattr__"] = look_up


def renamed_keys(values: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    """Settings with the new names of those in `names`."""
    for old in names.keys() & values.keys():
        warnings.warn(f"{old} is now {names[old]}: {GOES}", DeprecationWarning, stacklevel=3)
    return {names.get(key, key): value for key, value in values.items()}


class _OldPackages(MetaPathFinder, Loader):
    """Makes the old packages importable; their attributes are those of the new ones."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        return ModuleSpec(name, self) if name in _PACKAGES else None

    def exec_module(self, module: ModuleType) -> None:
        new = importlib.import_module(_PACKAGES[module.__name__])
        text = f"{module.__name__} is now {new.__name__}: {GOES}"
        warnings.warn(text, DeprecationWarning, stacklevel=2)
        vars(module).update(__getattr__=lambda name: getattr(new, name), __doc__=new.__doc__)


def deprecated_packages() -> None:
    """Let old packages be imported; asked last, so that it costs other imports nothing."""
    sys.meta_path.append(_OldPackages())


class renamed:  # noqa: N801 (used like `property`)
    """A method that answers as another one: `grow = renamed("grow", "extend")`."""

    def __init__(self, old: str, new: str) -> None:
        self.old, self.new = old, new

    def __get__(self, instance: Any, owner: type) -> Any:
        text = f"{self.old} is now {self.new}: {GOES}"
        warnings.warn(text, DeprecationWarning, stacklevel=2)
        return getattr(owner if instance is None else instance, self.new)


def renamed_arguments(**names: str) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Let a function take the argument `names[old]` by its old name too."""

    def decorate(function: Callable[P, T]) -> Callable[P, T]:
        @functools.wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> T:
            for old in names.keys() & kwargs.keys():
                text = f"{old} is now {names[old]}: {GOES}"
                warnings.warn(text, DeprecationWarning, stacklevel=2)
                kwargs[names[old]] = kwargs.pop(old)
            return function(*args, **kwargs)

        return call

    return decorate
