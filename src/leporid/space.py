"""Search spaces: what may be tried for each setting of a model. Pure data, no optimiser here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from leporid.errors import ConfigError

__all__ = ["Choice", "Dimension", "Float", "Int", "SearchSpace", "active", "check_space"]


@dataclass(frozen=True, kw_only=True)
class _Conditional:
    when: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    """Only searched where an earlier setting has one of these values."""


@dataclass(frozen=True)
class Int(_Conditional):
    """A whole number from `low` to `high`, both included."""

    low: int
    high: int
    log: bool = False

    def __post_init__(self) -> None:
        _check_range(self.low, self.high, self.log)


@dataclass(frozen=True)
class Float(_Conditional):
    """A real number from `low` to `high`."""

    low: float
    high: float
    log: bool = False

    def __post_init__(self) -> None:
        _check_range(self.low, self.high, self.log)


@dataclass(frozen=True, init=False)
class Choice(_Conditional):
    """One of a few values: `Choice("jaccard", "cosine")`."""

    options: tuple[Any, ...]

    def __init__(self, *options: Any, when: Mapping[str, tuple[Any, ...]] | None = None) -> None:
        if not options:
            raise ConfigError("a Choice needs at least one option")
        object.__setattr__(self, "options", options)
        object.__setattr__(self, "when", when or {})


Dimension: TypeAlias = Int | Float | Choice
SearchSpace: TypeAlias = Mapping[str, Dimension]


def active(dimension: Dimension, chosen: Mapping[str, Any]) -> bool:
    """Whether `dimension` matters, given the settings chosen before it."""
    return all(chosen.get(name) in values for name, values in dimension.when.items())


def check_space(space: SearchSpace, known: set[str], model: str) -> None:
    """Every name must be a setting of the model, every condition refer to an earlier one."""
    before: set[str] = set()
    for name, dimension in space.items():
        if name not in known:
            raise ConfigError(f"the search space of {model} names {name!r}, which it has not")
        for other in dimension.when:
            if other not in before:
                raise ConfigError(f"{model}: {name!r} depends on {other!r}, which must come first")
        before.add(name)


def _check_range(low: float, high: float, log: bool) -> None:
    if not low <= high:
        raise ConfigError(f"a range must not be empty, but {low} > {high}")
    if log and low <= 0:
        raise ConfigError(f"a logarithmic range must start above 0, not at {low}")
