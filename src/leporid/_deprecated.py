"""Old public names that keep working for one version, with a warning that gives the new name."""

import functools
import importlib
import pkgutil
import sys
import warnings
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

GOES = "the old name goes in the next version"
_PACKAGES = {
    "leporid.choosing": "leporid.selection",
    "leporid.ranking": "leporid.evaluation",
    "leporid.runs": "leporid.experiments",
    "leporid.space": "leporid.config",
    "leporid.tuning": "leporid.experiments",
}
OLD_COMMANDS = {"grow": "extend"}
OLD_OPTIONS = {
    ("choose", "--only"): "--models",
    ("extend", "--exposure"): "--cold-item-share",
    ("tune", "--rehearse"): "--inner-validation",
}
"""New option by command and old option."""


def _warn(old: str, new: str) -> None:
    """Names the line that used the old name."""
    warnings.warn(f"{old} is now {new}: {GOES}", DeprecationWarning, stacklevel=3)


def deprecated_names(module: str, names: Mapping[str, str]) -> None:
    """Let `module.old` answer as the object at `names[old]`; call after `__getattr__` is there."""
    space = vars(sys.modules[module])
    other: Callable[[str], Any] | None = space.get("__getattr__")

    def look_up(name: str) -> Any:
        if name in names:
            _warn(f"{module}.{name}", names[name])
            return pkgutil.resolve_name(names[name])
        if other is None:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        return other(name)

    space["__getattr__"] = look_up


def renamed_keys(values: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    """Settings with the new names of those in `names`."""
    for old in names.keys() & values.keys():
        _warn(old, names[old])
    return {names.get(key, key): value for key, value in values.items()}


def deprecated_packages() -> None:
    """Let old packages be imported; their attributes are those of the new ones."""
    for old, new in _PACKAGES.items():
        sys.modules[old] = ModuleType(old, f"{old} is now {new}.")
        vars(sys.modules[old])["__getattr__"] = functools.partial(_of_new_package, old, new)


def _of_new_package(old: str, new: str, name: str) -> Any:
    if name.startswith("__"):  # what the import system asks for
        raise AttributeError(f"module {old!r} has no attribute {name!r}")
    _warn(old, new)
    return getattr(importlib.import_module(new), name)


class renamed:  # noqa: N801 (used like `property`)
    """A method that answers as another one: `grow = renamed("grow", "extend")`."""

    def __init__(self, old: str, new: str) -> None:
        self.old, self.new = old, new

    def __get__(self, instance: Any, owner: type) -> Any:
        _warn(self.old, self.new)
        return getattr(owner if instance is None else instance, self.new)


def renamed_arguments(**names: str) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Let a function take the argument `names[old]` by its old name too."""

    def decorate(function: Callable[P, T]) -> Callable[P, T]:
        @functools.wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> T:
            for old in names.keys() & kwargs.keys():
                _warn(old, names[old])
                kwargs[names[old]] = kwargs.pop(old)
            return function(*args, **kwargs)

        return call

    return decorate
