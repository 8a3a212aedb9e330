"""`checks_arguments`: a public function refuses values of the wrong kind and unknown keywords.

Every refusal is one sentence that names the argument, what was given and what to give.
"""

import contextlib
import functools
import inspect
import os
import types
import typing
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import numpy as np

from leporid.errors import ConfigError, UnknownNameError, article, closest, shortened

P = ParamSpec("P")
T = TypeVar("T")

_WORDS: Mapping[Any, str] = {
    int: "a whole number",
    float: "a number",
    str: "text",
    bool: "True or False",
    Path: "a path",
    type(None): "None",
}
"""How the kinds of values that can be checked are called in messages."""
_SEVERAL = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
_LIST_EXAMPLES: Mapping[Any, str] = {int: "[1, 5, 10]", str: "['NDCG', 'HR']"}


class UnknownArgumentError(ConfigError, TypeError):
    """A function was called with a keyword that it does not have."""


def checks_arguments(
    at_least: Mapping[str, int] | None = None, example: str | None = None
) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Check the arguments of a function before its body runs.

    The annotations say what is allowed. Checked are numbers, texts, True and False, paths, choices
    (`Literal`), lists of them, mappings and the types of `leporid.data`. What has another
    annotation is left to the function. Numbers of numpy become those of Python.
    `at_least` has the smallest value of some arguments. `example` shows what a list may look like.
    """
    smallest = at_least or {}

    def decorate(function: Callable[P, T]) -> Callable[P, T]:
        signature = inspect.signature(function)
        own = [name for name in signature.parameters if name not in ("self", "cls")]
        takes_any = any(p.kind in _SEVERAL for p in signature.parameters.values())

        @functools.cache
        def hints() -> dict[str, Any]:
            return _hints(function)

        @functools.wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> T:
            if not takes_any:
                for name in kwargs:
                    if name not in own:
                        raise _unknown(function.__name__, name, own)
            try:
                given = signature.bind(*args, **kwargs)
            except TypeError as error:
                raise UnknownArgumentError(
                    f"{function.__name__}({', '.join(own)}) was called wrongly: {error}"
                ) from None
            for name, value in given.arguments.items():
                if signature.parameters[name].kind in _SEVERAL:
                    continue
                if isinstance(value, np.generic):
                    given.arguments[name] = value.item()
                if name in hints():
                    check_argument(
                        function.__name__, name, value, hints()[name], example
                    )
                if name in smallest and value is not None and value < smallest[name]:
                    raise ConfigError(
                        f"{name} must be at least {smallest[name]}, not {value}"
                    )
            return function(*given.args, **given.kwargs)

        return call

    return decorate


def _hints(function: Callable[..., object]) -> dict[str, Any]:
    """Return the annotations that can be resolved; names of optional packages cannot."""
    found: dict[str, Any] = {}
    for name, hint in inspect.get_annotations(function).items():
        with contextlib.suppress(NameError):
            carrier = types.SimpleNamespace(__annotations__={name: hint})
            found |= typing.get_type_hints(carrier, vars(inspect.getmodule(function)))
    return found


def takes_exclude_seen(function: Callable[P, T]) -> Callable[P, T]:
    """Let a function with `include_seen` also take `exclude_seen`, its opposite."""

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        if "exclude_seen" not in kwargs:
            return function(*args, **kwargs)
        if "include_seen" in kwargs:
            raise ConfigError(
                "include_seen and exclude_seen say the same: give include_seen alone"
            )
        excluded = kwargs.pop("exclude_seen")
        # What is no switch is refused by the name of the argument it stands for.
        is_switch = isinstance(excluded, bool | np.bool_)
        kwargs["include_seen"] = not excluded if is_switch else excluded
        return function(*args, **kwargs)

    return call


def _unknown(function: str, name: str, known: Sequence[str]) -> UnknownArgumentError:
    guess = closest(name, known)
    hint = f"did you mean {guess!r}?" if guess else f"it has {', '.join(known)}"
    return UnknownArgumentError(f"{function} has no argument {name!r}: {hint}")


def check_argument(
    function: str, name: str, value: Any, hint: Any, example: str | None = None
) -> None:
    """Refuse a value that its annotation does not allow; an annotation of other kinds allows all.

    Numbers of numpy count as numbers, and a whole number may stand for any number.
    """
    options = _options(hint)
    if options is None or any(_fits(value, option) for option in options):
        return
    names = [
        str(choice) for o in options if _literal(o) for choice in typing.get_args(o)
    ]
    others = [o for o in options if not _literal(o) and o is not type(None)]
    if names and not others and isinstance(value, str):
        raise UnknownNameError(name, value, names)
    *first, last = dict.fromkeys(_in_words(option, example) for option in options)
    allowed = f"{', '.join(first)} or {last}" if first else last
    raise ConfigError(f"{function}: {name} must be {allowed}, not {described(value)}")


def _literal(option: Any) -> bool:
    return typing.get_origin(option) is typing.Literal


def _options(hint: Any) -> list[Any] | None:
    """The kinds that an annotation allows; None where one of them cannot be checked."""
    origin = typing.get_origin(hint)
    parts = (
        typing.get_args(hint) if origin in (typing.Union, types.UnionType) else (hint,)
    )
    options: list[Any] = []
    for part in parts:
        if part is None:
            options.append(type(None))
        elif (
            (isinstance(part, type) and is_checked_class(part))
            or _literal(part)
            or _is_list(part)
            or typing.get_origin(part) in (Mapping, os.PathLike)
        ):
            options.append(part)
        elif typing.get_origin(part) in (typing.Union, types.UnionType):
            inner = _options(part)
            if inner is None:
                return None
            options += inner
        else:
            return None
    return options


def is_checked_class(kind: type) -> bool:
    """Tell whether values of a class are checked: plain values and the types of `leporid.data`.

    Other classes may be stood in for by objects that behave like them.
    """
    return kind in _WORDS or kind.__module__.startswith("leporid.data.")


def _is_list(option: Any) -> bool:
    return typing.get_origin(option) in (Sequence, Collection)


def _fits(value: Any, option: Any) -> bool:
    if _literal(option):
        return isinstance(value, str | int | None) and value in typing.get_args(option)
    if _is_list(option):
        is_other = isinstance(value, str | bytes | Mapping) or is_table(value)
        return isinstance(value, Collection) and not is_other
    if option is bool:
        return isinstance(value, bool | np.bool_)
    if isinstance(value, bool | np.bool_):
        return False
    if option is int:
        return isinstance(value, int | np.integer)
    if option is float:
        return isinstance(value, int | float | np.integer | np.floating)
    if option is Path:
        return isinstance(value, os.PathLike)
    return isinstance(value, typing.get_origin(option) or option)


def _in_words(option: Any, example: str | None) -> str:
    if _literal(option):
        return " or ".join(repr(choice) for choice in typing.get_args(option))
    if _is_list(option):
        inner = typing.get_args(option)[0]
        shown = example or _LIST_EXAMPLES.get(inner)
        return f"a list such as {shown}" if shown else "a list"
    if typing.get_origin(option) is Mapping:
        return "a mapping such as a dict"
    if typing.get_origin(option) is os.PathLike:
        return "a path"
    return _WORDS.get(option) or article(option.__name__)


def is_table(value: Any) -> bool:
    """Whether a value is a data frame or an Arrow table; no package is imported."""
    is_array = isinstance(value, np.ndarray)
    return not is_array and hasattr(value, "columns") and hasattr(value, "shape")


def described(value: Any) -> str:
    """A value for a message: what it is, where that is short, else its kind and size."""
    if value is None or isinstance(value, str | int | float | bool | np.generic):
        plain = value.item() if isinstance(value, np.generic) else value
        return shortened(repr(plain), 80)
    if isinstance(value, type):
        return f"the class {value.__name__}"
    if isinstance(value, np.ndarray):
        return f"an array of {' x '.join(map(str, value.shape)) or 'no axes'}"
    kind = type(value).__name__
    sized = isinstance(value, list | tuple | set | frozenset | dict)
    return f"{article(kind)} of {len(value)}" if sized else article(kind)
