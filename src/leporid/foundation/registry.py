"""Public names of classes, resolved without importing their modules, which may load torch."""

import importlib
import sys
from collections.abc import Mapping
from typing import Generic, TypeVar

from leporid.errors import ConfigError, MissingExtraError, UnknownNameError

T = TypeVar("T")


class Registry(Generic[T]):
    """Names in a fixed order, each resolved on first use."""

    def __init__(self, kind: str, entries: Mapping[str, str]) -> None:
        self._kind = kind
        self._paths = dict(entries)
        self._classes: dict[str, type[T]] = {}

    def available(self) -> list[str]:
        """Return the registered names, in the order of the registry."""
        return list(self._paths)

    def get(self, name: str) -> type[T]:
        """Return the class behind `name`; the error for an unknown name has the closest one."""
        if name not in self._paths:
            raise UnknownNameError(self._kind, name, self._paths)
        if name not in self._classes:
            self._classes[name] = self._imported(name)
        return self._classes[name]

    def _imported(self, name: str) -> type[T]:
        module_name, _, class_name = self._paths[name].partition(":")
        try:
            module = importlib.import_module(module_name)
        except ModuleNotFoundError as error:
            if error.name != "torch":
                raise
            raise MissingExtraError(f"the {self._kind} {name!r}", "torch") from None
        found: type[T] = vars(module)[class_name]
        return found

    def describe(self, name: str) -> dict[str, str]:
        """Return the name, and the first paragraphs of its module (what) and class (how)."""
        cls = self.get(name)
        what = _first_paragraph(sys.modules[cls.__module__].__doc__)
        how = _first_paragraph(cls.__doc__)
        return {"name": name, "what": what.removeprefix(f"`{name}`: "), "how": how}

    def register(self, name: str, cls: type[T]) -> None:
        """Add a class of the user's own under a new name."""
        if name in self._paths:
            raise ConfigError(
                f"{self._kind} {name!r} exists already; choose another name"
            )
        self._paths[name] = ""
        self._classes[name] = cls


def _first_paragraph(docstring: str | None) -> str:
    """Return the first paragraph of a docstring on one line."""
    paragraph = (docstring or "").strip().split("\n\n")[0]
    return " ".join(paragraph.split())
