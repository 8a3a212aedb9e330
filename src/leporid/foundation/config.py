"""`Config`: settings that refuse unknown keys, wrong types and values out of range."""

import ast
import contextlib
import dataclasses
import inspect
import operator
import textwrap
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any, Literal, NamedTuple, Self, TypeAlias, TypedDict, TypeVar

import numpy as np

from leporid.errors import ConfigError, closest
from leporid.foundation.arguments import described, is_table

T = TypeVar("T")

JsonValue: TypeAlias = (
    str | int | float | bool | Sequence["JsonValue"] | Mapping[str, "JsonValue"] | None
)
"""A value that JSON can hold; dictionaries and lists of numbers are among them."""

SettingValue: TypeAlias = (
    str
    | int
    | float
    | bool
    | Sequence["SettingValue"]
    | Mapping[str, "SettingValue"]
    | None
)
"""What a setting of a model or initialiser can be; a mapping describes a member of a blend."""


class Bound(NamedTuple):
    """A kind of limit that a setting may have."""

    words: str
    holds: Callable[[Any, Any], Any]
    """The comparison of a value with the limit, which is true within it."""


BOUNDS = {
    "at_least": Bound("at least", operator.ge),
    "above": Bound("above", operator.gt),
    "at_most": Bound("at most", operator.le),
    "below": Bound("below", operator.lt),
}


class SettingDescription(TypedDict):
    """One setting as `Config.describe` lists it."""

    setting: str
    type: str
    default: JsonValue
    range: str
    meaning: str


def setting(
    default: T,
    *,
    at_least: float | None = None,
    above: float | None = None,
    at_most: float | None = None,
    below: float | None = None,
) -> T:
    """Declare a field with a range: `dim: int = setting(64, at_least=1)`.

    The bounds of a tuple hold for each of its entries.
    """
    bounds = {
        "at_least": at_least,
        "above": above,
        "at_most": at_most,
        "below": below,
    }
    metadata = {kind: limit for kind, limit in bounds.items() if limit is not None}
    return dataclasses.field(default=default, metadata=metadata)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Config:
    """Base class of all settings. Subclasses are frozen keyword-only dataclasses.

    What a range of one field cannot say is checked in `__post_init__`, after that of the base.
    """

    def __post_init__(self) -> None:
        values = self._values()
        for name, value in checked_settings(type(self), values).items():
            if value is not values[name]:
                object.__setattr__(self, name, value)

    @classmethod
    def from_dict(cls, values: Mapping[str, object]) -> Self:
        """Build from a mapping; an unknown key is an error that names the closest one."""
        _refuse_unknown(cls, values)
        return cls(**dict(values))

    def to_dict(self) -> dict[str, Any]:
        """Return plain values that JSON can hold; `from_dict` is the inverse."""
        return {name: _plain(value) for name, value in dataclasses.asdict(self).items()}

    def changed_words(self) -> str:
        """Return the settings that differ from their defaults, as a user would type them."""
        values = self._values()
        return ", ".join(
            f"{field.name}={values[field.name]!r}"
            for field in dataclasses.fields(self)
            if values[field.name] != field.default
        )

    @classmethod
    def describe(cls) -> list[SettingDescription]:
        """Return every setting with its type, default, range and meaning, as plain values."""
        hints = typing.get_type_hints(cls)
        meanings = _meanings(cls)
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

    def replace(self, **changes: object) -> Self:
        """Return a copy with some settings changed, checked as strictly as a new one."""
        return type(self).from_dict({**dataclasses.asdict(self), **changes})

    def _values(self) -> dict[str, object]:
        """Return the value of each field, not copied."""
        return {
            field.name: vars(self)[field.name] for field in dataclasses.fields(self)
        }


def _plain(value: Any) -> Any:
    if isinstance(value, Config):
        return value.to_dict()
    return [_plain(entry) for entry in value] if isinstance(value, tuple) else value


def _refuse_unknown(settings: type, values: object) -> None:
    """Refuse what is no mapping, and a key that is no field of the dataclass."""
    if not isinstance(values, Mapping):
        raise ConfigError(f"{settings.__name__} takes settings by name, not {values!r}")
    known = {field.name for field in dataclasses.fields(settings)}
    for key in values:
        if key not in known:
            guess = closest(str(key), known)
            hint = f"known: {', '.join(sorted(known))}"
            if guess:
                hint = f"did you mean {guess!r}?"
            raise ConfigError(f"{settings.__name__} has no setting {key!r}: {hint}")


def from_mapping(kind: type[T], values: Mapping[str, object]) -> T:
    """Return a dataclass from the values of its fields in a file, checked as settings are."""
    _refuse_unknown(kind, values)
    make: Callable[..., T] = kind
    return make(**checked_settings(kind, values))


def checked_settings(settings: type, values: Mapping[str, object]) -> dict[str, object]:
    """Return the values of a dataclass's fields as `checked` does, each within its range.

    A value of the wrong type or outside its range is a `ConfigError`.
    """
    hints = typing.get_type_hints(settings)
    typed: dict[str, object] = {}
    for field in dataclasses.fields(settings):
        if field.name in values:
            where = f"{settings.__name__}.{field.name}"
            value = checked(values[field.name], hints[field.name], where)
            _check_bounds(value, field.metadata, field.name)
            typed[field.name] = value
    return typed


def _check_bounds(value: object, bounds: Mapping[str, float], name: str) -> None:
    numbers = value if isinstance(value, tuple) else (value,)
    for number in numbers:
        if isinstance(number, bool) or not isinstance(number, int | float):
            continue
        if not all(BOUNDS[kind].holds(number, limit) for kind, limit in bounds.items()):
            raise ConfigError(f"{name} must be {_range_words(bounds)}, not {value!r}")


def _range_words(bounds: Mapping[str, float]) -> str:
    return " and ".join(
        f"{BOUNDS[kind].words} {limit:g}" for kind, limit in bounds.items()
    )


def _type_words(hint: object) -> str:
    """Return the words for a type: 'int', 'float or None', '"users" or "items"'."""
    options = typing.get_args(hint)
    if typing.get_origin(hint) is Literal:
        return " or ".join(repr(value) for value in options)
    if _is_union(hint):
        return " or ".join(_type_words(option) for option in options)
    if hint is type(None):
        return "None"
    if isinstance(hint, type) and not options:
        return hint.__name__
    return str(hint)


def _is_union(hint: object) -> bool:
    return typing.get_origin(hint) in (typing.Union, types.UnionType)


def _meanings(cls: type) -> dict[str, str]:
    """Return the text under each field of a class and its bases, on one line."""
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


def checked(value: object, hint: object, where: str) -> object:
    """Return `value` (an int may become a float, a list a tuple) or raise `ConfigError`."""
    if hint is Any:
        return value
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, np.ndarray) or is_table(value):
        raise ConfigError(
            f"{where} must be {_type_words(hint)}, not {described(value)}",
        )
    if _is_union(hint):
        return _checked_union(value, hint, where)
    if typing.get_origin(hint) is Literal:
        return _checked_choice(value, typing.get_args(hint), where)
    if typing.get_origin(hint) is tuple:
        return _checked_tuple(value, typing.get_args(hint), where)
    return _checked_plain(value, hint, where)


def _checked_union(value: object, hint: object, where: str) -> object:
    options = typing.get_args(hint)
    if value is None and type(None) in options:
        return None
    for option in options:
        with contextlib.suppress(ConfigError):
            return checked(value, option, where)
    raise ConfigError(f"{where} must be {_type_words(hint)}, not {value!r}")


def _checked_choice(value: object, choices: tuple[object, ...], where: str) -> object:
    if value in choices:
        return value
    guess = closest(str(value), map(str, choices))
    hint = f"; did you mean {guess!r}?" if guess else ""
    raise ConfigError(f"{where} must be one of {list(choices)}, not {value!r}{hint}")


def _checked_tuple(
    value: object,
    kinds: tuple[object, ...],
    where: str,
) -> tuple[object, ...]:
    if not isinstance(value, list | tuple):
        raise ConfigError(f"{where} must be a list, not {value!r}")
    if kinds[1:] == (...,):
        kinds = kinds[:1] * len(value)
    if len(kinds) != len(value):
        raise ConfigError(f"{where} must have {len(kinds)} entries, not {len(value)}")
    return tuple(
        checked(entry, kind, where) for entry, kind in zip(value, kinds, strict=True)
    )


def _checked_plain(value: object, hint: object, where: str) -> object:
    """Return a value of a plain type; an int that a float can hold becomes one."""
    if isinstance(value, bool):
        if hint is int:
            raise ConfigError(f"{where} must be an integer, not {value!r}")
    elif isinstance(value, int):
        if hint is float and abs(value) < 10**300:
            return float(value)
        if hint is int and not -(2**63) <= value < 2**63:
            raise ConfigError(f"{where} must be a 64-bit integer, not {value!r}")
    expected = typing.get_origin(hint) or hint
    if isinstance(expected, type) and not isinstance(value, expected):
        raise ConfigError(f"{where} must be {expected.__name__}, not {value!r}")
    return value
