"""What users type: `Config`, settings that refuse unknown keys and wrong types; names of classes.

A `SearchSpace` says what may be tried for each setting of a model: pure data, no optimiser here. A
`Registry` maps a public name to a class without importing its module, which may load torch.
"""

import ast
import contextlib
import dataclasses
import hashlib
import importlib
import inspect
import json
import operator
import sys
import textwrap
import tomllib
import types
import typing
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any, Generic, Self, TypeAlias, TypeVar

import numpy as np

from leporid.arguments import described, is_table
from leporid.errors import (
    ConfigError,
    DataError,
    MissingExtraError,
    UnknownNameError,
    closest,
)

T = TypeVar("T")
SettingValue: TypeAlias = Any
JsonValue: TypeAlias = Any


def canonical_hash(value: Any, length: int = 16) -> str:
    """A short hash of any JSON-able value, independent of key order."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()[:length]


BOUNDS = {
    "at_least": ("at least", operator.ge),
    "above": ("above", operator.gt),
    "at_most": ("at most", operator.le),
    "below": ("below", operator.lt),
}


def setting(default: Any, **bounds: float) -> Any:
    """A field with a range: `dim: int = setting(64, at_least=1)`.

    The bounds are `at_least`, `above`, `at_most` and `below`; of a tuple they bound each entry.
    """
    return dataclasses.field(default=default, metadata=bounds)


def read_toml(path: str | Path) -> dict[str, Any]:
    try:
        with open(path, "rb") as file:
            return tomllib.load(file)
    except FileNotFoundError:
        raise DataError(f"no such file: {path}") from None
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path} is not valid TOML: {error}") from None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Config:
    """Base class of all settings. Subclasses are frozen keyword-only dataclasses."""

    def __post_init__(self) -> None:
        values = {
            field.name: getattr(self, field.name) for field in dataclasses.fields(self)
        }
        for name, typed in checked_settings(type(self), values).items():
            if typed is not values[name]:
                object.__setattr__(self, name, typed)
        self.validate()

    def validate(self) -> None:
        """Check what a range of one field cannot say. Subclasses override."""

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """Build from a mapping; an unknown key is an error that names the closest one."""
        if not isinstance(values, Mapping):
            raise ConfigError(f"{cls.__name__} takes settings by name, not {values!r}")
        known = {field.name for field in dataclasses.fields(cls)}
        for key in values:
            if key not in known:
                guess = closest(str(key), known)
                hint = (
                    f"did you mean {guess!r}?"
                    if guess
                    else f"known: {', '.join(sorted(known))}"
                )
                raise ConfigError(f"{cls.__name__} has no setting {key!r}: {hint}")
        return cls(**dict(values))

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON-able values; `from_dict` is its inverse."""
        return {key: _plain(value) for key, value in dataclasses.asdict(self).items()}

    def changed_words(self) -> str:
        """The settings that differ from their defaults, as they would be typed."""
        fields = (
            (field, getattr(self, field.name)) for field in dataclasses.fields(self)
        )
        return ", ".join(
            f"{f.name}={value!r}" for f, value in fields if value != f.default
        )

    @classmethod
    def describe(cls) -> list[dict[str, Any]]:
        """Every setting with its type, default, range and meaning, as plain values."""
        hints, meanings = typing.get_type_hints(cls), _meanings(cls)
        return [
            {
                "setting": field.name,
                "type": _type_words(hints[field.name]),
                "default": _plain(field.default),
                "range": _range_words(field.metadata),
                "meaning": meanings.get(field.name, ""),
            }
            for field in dataclasses.fields(cls)
        ]

    def replace(self, **changes: Any) -> Self:
        """A copy with some settings changed, checked as strictly as a new one."""
        return type(self).from_dict({**dataclasses.asdict(self), **changes})


def _plain(value: Any) -> Any:
    if isinstance(value, Config):
        return value.to_dict()
    return [_plain(entry) for entry in value] if isinstance(value, tuple) else value


def checked_settings(settings: type, values: Mapping[str, Any]) -> dict[str, Any]:
    """The values of a dataclass's fields as `checked` returns them, each within its range.

    A value of the wrong type or outside its range is a `ConfigError`.
    """
    hints, typed = typing.get_type_hints(settings), dict[str, Any]()
    for field in dataclasses.fields(settings):
        if field.name in values:
            where = f"{settings.__name__}.{field.name}"
            typed[field.name] = checked(values[field.name], hints[field.name], where)
            _check_bounds(typed[field.name], field.metadata, field.name)
    return typed


def _check_bounds(value: Any, bounds: Mapping[str, float], name: str) -> None:
    for number in value if isinstance(value, tuple) else (value,):
        if isinstance(number, bool) or not isinstance(number, int | float):
            continue
        if not all(BOUNDS[kind][1](number, limit) for kind, limit in bounds.items()):
            raise ConfigError(f"{name} must be {_range_words(bounds)}, not {value!r}")


def _range_words(bounds: Mapping[str, float]) -> str:
    return " and ".join(
        f"{BOUNDS[kind][0]} {limit:g}" for kind, limit in bounds.items()
    )


def _type_words(hint: Any) -> str:
    """'int', 'float or None', '"users" or "items"'."""
    if typing.get_origin(hint) is typing.Literal:
        return " or ".join(repr(value) for value in typing.get_args(hint))
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        return " or ".join(_type_words(option) for option in typing.get_args(hint))
    if hint is type(None):
        return "None"
    return (
        hint.__name__
        if isinstance(hint, type) and not typing.get_args(hint)
        else str(hint)
    )


def _meanings(cls: type) -> dict[str, str]:
    """The text under each field of a class and its bases, on one line."""
    meanings: dict[str, str] = {}
    for base in reversed(cls.__mro__[:-1]):
        try:
            body = ast.parse(textwrap.dedent(inspect.getsource(base))).body[0]
        except (OSError, TypeError):  # a class typed at a prompt has no source
            continue
        assert isinstance(body, ast.ClassDef)
        for pair in pairwise(body.body):
            match pair:
                case ast.AnnAssign(target=ast.Name(name)), ast.Expr(ast.Constant(text)):
                    meanings[name] = " ".join(str(text).split())
    return meanings


def checked(value: Any, hint: Any, where: str) -> Any:
    """Return `value` (an int may become a float, a list a tuple) or raise `ConfigError`."""
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if hint is Any:
        return value
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, np.ndarray) or is_table(value):
        raise ConfigError(
            f"{where} must be {_type_words(hint)}, not {described(value)}"
        )
    if origin in (typing.Union, types.UnionType):
        if value is None and type(None) in inner:
            return None
        for option in inner:
            with contextlib.suppress(ConfigError):
                return checked(value, option, where)
        raise ConfigError(f"{where} must be {_type_words(hint)}, not {value!r}")
    if origin is typing.Literal:
        if value in inner:
            return value
        guess = closest(str(value), map(str, inner))
        hint_text = f"; did you mean {guess!r}?" if guess else ""
        raise ConfigError(
            f"{where} must be one of {list(inner)}, not {value!r}{hint_text}"
        )
    if origin is tuple:
        if not isinstance(value, list | tuple):
            raise ConfigError(f"{where} must be a list, not {value!r}")
        if inner[1:] == (...,):
            inner = inner[:1] * len(value)
        if len(inner) != len(value):
            raise ConfigError(
                f"{where} must have {len(inner)} entries, not {len(value)}"
            )
        return tuple(checked(v, h, where) for v, h in zip(value, inner, strict=True))
    whole = (
        isinstance(value, int) and not isinstance(value, bool) and abs(value) < 10**300
    )
    if hint is float and whole:
        return float(value)
    target = origin or hint
    if hint is int and isinstance(value, bool):
        raise ConfigError(f"{where} must be an integer, not {value!r}")
    if hint is int and isinstance(value, int) and not -(2**63) <= value < 2**63:
        raise ConfigError(f"{where} must be a 64-bit integer, not {value!r}")
    if isinstance(target, type) and not isinstance(value, target):
        raise ConfigError(f"{where} must be {target.__name__}, not {value!r}")
    return value


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Conditional:
    when: Mapping[str, tuple[Any, ...]] = dataclasses.field(default_factory=dict)
    """Only searched where an earlier setting has one of these values."""


@dataclasses.dataclass(frozen=True)
class _Range(_Conditional):
    low: float
    high: float
    log: bool = False

    def __post_init__(self) -> None:
        if not self.low <= self.high:
            raise ConfigError(
                f"a range must not be empty, but {self.low} > {self.high}"
            )
        if self.log and self.low <= 0:
            raise ConfigError(
                f"a logarithmic range must start above 0, not at {self.low}"
            )

    def __contains__(self, value: Any) -> bool:
        return isinstance(value, int | float) and self.low <= value <= self.high


@dataclasses.dataclass(frozen=True)
class Int(_Range):
    """A whole number from `low` to `high`, both included."""

    low: int
    high: int


@dataclasses.dataclass(frozen=True)
class Float(_Range):
    """A real number from `low` to `high`."""


@dataclasses.dataclass(frozen=True, init=False)
class Choice(_Conditional):
    """One of a few values: `Choice("jaccard", "cosine")`."""

    options: tuple[Any, ...]

    def __init__(
        self, *options: Any, when: Mapping[str, tuple[Any, ...]] | None = None
    ) -> None:
        if not options:
            raise ConfigError("a Choice needs at least one option")
        object.__setattr__(self, "options", options)
        object.__setattr__(self, "when", when or {})

    def __contains__(self, value: Any) -> bool:
        return value in self.options


Dimension: TypeAlias = Int | Float | Choice
SearchSpace: TypeAlias = Mapping[str, Dimension]


def active(dimension: Dimension, chosen: Mapping[str, Any]) -> bool:
    """Whether `dimension` is searched, after the settings chosen before it."""
    return all(chosen.get(name) in values for name, values in dimension.when.items())


def check_space(space: SearchSpace, known: set[str], model: str) -> None:
    """Every name must be a setting of the model, every condition refer to an earlier one."""
    before: set[str] = set()
    for name, dimension in space.items():
        if name not in known:
            raise ConfigError(
                f"the search space of {model}: {name!r} is not one of its settings"
            )
        for other in dimension.when:
            if other not in before:
                raise ConfigError(
                    f"{model}: {name!r} depends on {other!r}, which must come first"
                )
        before.add(name)


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
                self._classes[name] = getattr(
                    importlib.import_module(module), attribute
                )
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
            raise ConfigError(
                f"{self._kind} {name!r} exists already; choose another name"
            )
        self._paths[name] = ""
        self._classes[name] = cls
