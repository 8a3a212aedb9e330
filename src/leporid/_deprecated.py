"""Old public names that keep working for one version, with a warning that gives the new name."""

import functools
import importlib
import inspect
import pkgutil
import sys
import warnings
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any, ParamSpec, TypeVar

from leporid.errors import ConfigError

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
OLD_SWITCHES = {"--exclude-seen": "--no-include-seen", "--no-exclude-seen": "--include-seen"}
"""The same for options that every command has in the same words."""


def _warn(old: str, new: str) -> None:
    """Names the line that used the old name: the first one outside this file."""
    level, frame = 1, inspect.currentframe()
    while frame is not None and frame.f_code.co_filename == __file__:
        level, frame = level + 1, frame.f_back
    warnings.warn(f"{old} is now {new}: {GOES}", DeprecationWarning, stacklevel=level)


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


def takes_exclude_seen(
    position: int | None = None,
) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Let a function with `include_seen` also take its opposite, which had its place before.

    `position` is that of `exclude_seen` among the positional arguments, where it had one.
    """

    def decorate(function: Callable[P, T]) -> Callable[P, T]:
        @functools.wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> T:
            given, options = list(args), dict(kwargs)
            if position is not None and len(given) > position:
                options["exclude_seen"] = given.pop(position)
            if "exclude_seen" in options:
                excluded = options.pop("exclude_seen")
                if "include_seen" in options:
                    raise ConfigError(
                        "include_seen and exclude_seen say the same: give include_seen alone"
                    )
                _warn("exclude_seen", "include_seen, which means the opposite")
                # What is no switch, numpy's among them, is refused by the name it has now.
                is_switch = type(excluded).__name__ in ("bool", "bool_")
                options["include_seen"] = not excluded if is_switch else excluded
            anything: Callable[..., T] = function
            return anything(*given, **options)

        return call

    return decorate


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
