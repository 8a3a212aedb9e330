"""Old public names that keep working for one version, with a `DeprecationWarning`."""

from __future__ import annotations

import functools
import pkgutil
import sys
import warnings
from collections.abc import Callable, Mapping
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


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


class renamed:  # noqa: N801 (used like `property`)
    """A method that answers as another one: `grow = renamed("grow", "extend")`."""

    def __init__(self, old: str, new: str) -> None:
        self.old, self.new = old, new

    def __get__(self, instance: Any, owner: type) -> Any:
        text = f"{self.old} is now {self.new}: the old name goes in the next version"
        warnings.warn(text, DeprecationWarning, stacklevel=2)
        return getattr(owner if instance is None else instance, self.new)


def renamed_arguments(**names: str) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Let a function take the argument `names[old]` by its old name too."""

    def decorate(function: Callable[P, T]) -> Callable[P, T]:
        @functools.wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> T:
            for old in names.keys() & kwargs.keys():
                text = f"{old} is now {names[old]}: the old name goes in the next version"
                warnings.warn(text, DeprecationWarning, stacklevel=2)
                kwargs[names[old]] = kwargs.pop(old)
            return function(*args, **kwargs)

        return call

    return decorate
