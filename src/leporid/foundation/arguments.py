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
from typing import Any, ParamSpec, Protocol, TypeVar, runtime_checkable

import numpy as np

from leporid.errors import ConfigError, UnknownNameError, article, closest, shortened

P = ParamSpec("P")
T = TypeVar("T")

_WORDS: Mapping[object, str] = {
    int: "a whole number",
    float: "a number",
    str: "text",
    bool: "True or False",
    Path: "a path",
    type(None): "None",
}
"""How the kinds of values that can be checked are called in messages."""
_ADVICE = {"a Split": "leporid.temporal_split(leporid.load(...))"}
"""What makes a value of a kind that users do not make themselves."""
_LIST_EXAMPLES: Mapping[object, str] = {int: "[1, 5, 10]", str: "['NDCG', 'HR']"}


class UnknownArgumentError(ConfigError, TypeError):
    """A function was called with a keyword that it does not have."""


def checks_arguments(
    at_least: Mapping[str, int] | None = None,
    example: str | None = None,
) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Check the arguments of a function before its body runs.

    The annotations say what is allowed. Checked are numbers, texts, True and False, paths, choices
    (`Literal`), lists of them, mappings and the types of `leporid.data`. What has another
    annotation is left to the function. Numbers of numpy become those of Python. A function with
    `include_seen` also takes `exclude_seen`, its opposite.
    `at_least` has the smallest value of some arguments. `example` shows what a list may look like.
    """

    def decorate(function: Callable[P, T]) -> Callable[P, T]:
        checker = _ArgumentChecker(function, at_least or {}, example)

        @functools.wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> T:
            bound = checker.check(args, kwargs)
            return function(*bound.args, **bound.kwargs)

        return call

    return decorate


class _ArgumentChecker:
    """The signature of one function, and the check of a call against it."""

    def __init__(
        self,
        function: Callable[..., object],
        smallest: Mapping[str, int],
        example: str | None,
    ) -> None:
        self._function = function
        self._smallest = smallest
        self._example = example
        self._signature = inspect.signature(function)
        parameters = self._signature.parameters.values()
        self._single = {p.name for p in parameters if not _takes_several(p)}
        self._takes_any = len(self._single) < len(parameters)
        self._names = [p.name for p in parameters if p.name not in ("self", "cls")]

    @functools.cached_property
    def _hints(self) -> dict[str, object]:
        """The annotations, resolved on the first call."""
        return _hints(self._function)

    def check(
        self,
        args: tuple[object, ...],
        kwargs: Mapping[str, object],
    ) -> inspect.BoundArguments:
        """Return the arguments of a call by name, or refuse one of them."""
        name = self._function.__name__
        if "exclude_seen" in kwargs and "include_seen" in self._names:
            kwargs = _with_include_seen(kwargs)
        for keyword in kwargs:
            if keyword not in self._names and not self._takes_any:
                raise _unknown(name, keyword, self._names)
        try:
            bound = self._signature.bind(*args, **kwargs)
        except TypeError as error:
            raise UnknownArgumentError(
                f"{name}({', '.join(self._names)}) was called wrongly: {error}",
            ) from None
        for argument, value in bound.arguments.items():
            if argument in self._single:
                if isinstance(value, np.generic):
                    bound.arguments[argument] = value.item()
                self._check_value(argument, value)
        return bound

    def _check_value(self, name: str, value: Any) -> None:
        """Refuse a value of the wrong kind, or one that is too small."""
        if name in self._hints:
            hint = self._hints[name]
            check_argument(self._function.__name__, name, value, hint, self._example)
        smallest = self._smallest.get(name)
        if smallest is not None and value is not None and value < smallest:
            raise ConfigError(f"{name} must be at least {smallest}, not {value}")


def _takes_several(parameter: inspect.Parameter) -> bool:
    """Return whether a parameter is `*args` or `**kwargs`."""
    return parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)


def _hints(function: Callable[..., object]) -> dict[str, object]:
    """Return the annotations that can be resolved; names of optional packages cannot."""
    hints: dict[str, object] = {}
    scope = vars(inspect.getmodule(function))
    for name, annotation in inspect.get_annotations(function).items():
        with contextlib.suppress(NameError):
            carrier = types.SimpleNamespace(__annotations__={name: annotation})
            hints |= typing.get_type_hints(carrier, scope)
    return hints


def _with_include_seen(arguments: Mapping[str, object]) -> dict[str, object]:
    """Return the arguments with `include_seen` in place of `exclude_seen`, its opposite."""
    if "include_seen" in arguments:
        raise ConfigError(
            "include_seen and exclude_seen say the same: give include_seen alone"
        )
    replaced = dict(arguments)
    excluded = replaced.pop("exclude_seen")
    # What is no switch is refused by the name of the argument it stands for.
    is_switch = isinstance(excluded, bool | np.bool_)
    replaced["include_seen"] = not excluded if is_switch else excluded
    return replaced


def _unknown(function: str, name: str, known: Sequence[str]) -> UnknownArgumentError:
    guess = closest(name, known)
    hint = f"did you mean {guess!r}?" if guess else f"it has {', '.join(known)}"
    return UnknownArgumentError(f"{function} has no argument {name!r}: {hint}")


def check_argument(
    function: str,
    name: str,
    value: object,
    hint: object,
    example: str | None = None,
) -> None:
    """Refuse a value that its annotation does not allow; an annotation of other kinds allows all.

    Numbers of numpy count as numbers, and a whole number may stand for any number.
    """
    options = _options(hint)
    if options is None or any(_fits(value, option) for option in options):
        return
    choices: list[str] = []
    takes_other_kinds = False
    for option in options:
        if _is_literal(option):
            choices += map(str, typing.get_args(option))
        elif option is not type(None):
            takes_other_kinds = True
    if choices and not takes_other_kinds and isinstance(value, str):
        raise UnknownNameError(name, value, choices)
    *first, last = dict.fromkeys(_in_words(option, example) for option in options)
    allowed = f"{', '.join(first)} or {last}" if first else last
    advice = f": give it {_ADVICE[allowed]}" if allowed in _ADVICE else ""
    raise ConfigError(
        f"{function}: {name} must be {allowed}, not {described(value)}{advice}"
    )


def _is_literal(option: object) -> bool:
    return typing.get_origin(option) is typing.Literal


def _is_list(option: object) -> bool:
    return typing.get_origin(option) in (Sequence, Collection)


def _is_union(option: object) -> bool:
    return typing.get_origin(option) in (typing.Union, types.UnionType)


def _options(hint: object) -> list[object] | None:
    """Return the kinds that an annotation allows; None where one of them cannot be checked."""
    options: list[object] = []
    for part in typing.get_args(hint) if _is_union(hint) else (hint,):
        if part is None:
            options.append(type(None))
        elif _is_union(part):
            inner = _options(part)
            if inner is None:
                return None
            options += inner
        elif _can_be_checked(part):
            options.append(part)
        else:
            return None
    return options


def is_checked_class(kind: type) -> bool:
    """Tell whether values of a class are checked: plain values and the types of `leporid.data`.

    Other classes may be stood in for by objects that behave like them.
    """
    return kind in _WORDS or kind.__module__.startswith("leporid.data.")


def _can_be_checked(option: object) -> bool:
    if isinstance(option, type):
        return is_checked_class(option)
    if _is_literal(option) or _is_list(option):
        return True
    return typing.get_origin(option) in (Mapping, os.PathLike)


def _fits(value: object, option: object) -> bool:
    """Return whether a value is of the kind that one option of an annotation allows."""
    if _is_literal(option):
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
    kind = typing.get_origin(option) or option
    return isinstance(kind, type) and isinstance(value, kind)


def _in_words(option: object, example: str | None) -> str:
    """Return the words of a message for one option of an annotation."""
    if _is_literal(option):
        return " or ".join(repr(choice) for choice in typing.get_args(option))
    if _is_list(option):
        entry = typing.get_args(option)[0]
        shown = example or _LIST_EXAMPLES.get(entry)
        return f"a list such as {shown}" if shown else "a list"
    if typing.get_origin(option) is Mapping:
        return "a mapping such as a dict"
    if typing.get_origin(option) is os.PathLike:
        return "a path"
    if option in _WORDS:
        return _WORDS[option]
    return article(option.__name__ if isinstance(option, type) else str(option))


@runtime_checkable
class _Table(Protocol):
    """What data frames and Arrow tables have in common."""

    columns: object
    shape: object


def is_table(value: object) -> bool:
    """Return whether a value is a data frame or an Arrow table; no package is imported."""
    return isinstance(value, _Table) and not isinstance(value, np.ndarray)


def described(value: object) -> str:
    """Describe a value for a message: what it is, where that is short, else its kind and size."""
    if isinstance(value, np.generic):
        return shortened(repr(value.item()), 80)
    if value is None or isinstance(value, str | int | float):
        return shortened(repr(value), 80)
    if isinstance(value, type):
        return f"the class {value.__name__}"
    if isinstance(value, np.ndarray):
        return f"an array of {' x '.join(map(str, value.shape)) or 'no axes'}"
    kind = article(type(value).__name__)
    if isinstance(value, list | tuple | set | frozenset | dict):
        return f"{kind} of {len(value)}"
    return kind
