"""A registry maps a public name to a class without importing its module, which may load torch."""

import importlib
import sys
from typing import Generic, TypeVar

from leporid.errors import ConfigError, MissingExtraError, UnknownNameError

T = TypeVar("T")


class Registry(Generic[T]):
    """Names in a fixed order, each resolved on first use."""

    def __init__(self, kind: str, entries: dict[str, str]) -> None:
        self._kind = kind
        self._paths = dict(entries)
        self._classes: dict[str, type[T]] = {}

    def available(self) -> list[str]:
        """The registered names, in catalogue order."""
        return list(self._paths)

    def get(self, name: str) -> type[T]:
        """The class behind `name`; an unknown name is answered with the closest one."""
        if name not in self._paths:
            raise UnknownNameError(self._kind, name, self._paths)
        if name not in self._classes:
            module, _, attribute = self._paths[name].partition(":")
            try:
                self._classes[name] = getattr(importlib.import_module(module), attribute)
            except ModuleNotFoundError as error:
                if error.name != "torch":
                    raise
                raise MissingExtraError(f"the {self._kind} {name!r}", "torch") from None
        return self._classes[name]

    def describe(self, name: str) -> dict[str, str]:
        """The name, and the first lines of its module (what it is) and class (how it works)."""
        cls = self.get(name)
        module = sys.modules[cls.__module__].__doc__ or ""
        first = [text.strip().split("\n\n")[0] for text in (module, cls.__doc__ or "")]
        what, how = (" ".join(text.split()) for text in first)
        return {"name": name, "what": what.removeprefix(f"`{name}`: "), "how": how}

    def register(self, name: str, cls: type[T]) -> None:
        """Add a class of the user's own under a new name."""
        if name in self._paths:
            raise ConfigError(f"{self._kind} {name!r} exists already; choose another name")
        self._paths[name] = ""
        self._classes[name] = cls
