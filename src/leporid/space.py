"""Search spaces: what may be tried for each setting of a model. Pure data, no optimiser here."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from leporid.errors import ConfigError


@dataclass(frozen=True, kw_only=True)
class _Conditional:
    when: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    """Only searched where an earlier setting has one of these values."""


@dataclass(frozen=True)
class _Range(_Conditional):
    low: float
    high: float
    log: bool = False

    def __post_init__(self) -> None:
        if not self.low <= self.high:
            raise ConfigError(f"a range must not be empty, but {self.low} > {self.high}")
        if self.log and self.low <= 0:
            raise ConfigError(f"a logarithmic range must start above 0, not at {self.low}")

    def __contains__(self, value: Any) -> bool:
        return isinstance(value, int | float) and self.low <= value <= self.high


@dataclass(frozen=True)
class Int(_Range):
    """A whole number from `low` to `high`, both included."""

    low: int
    high: int


@dataclass(frozen=True)
class Float(_Range):
    """A real number from `low` to `high`."""


@dataclass(frozen=True, init=False)
class Choice(_Conditional):
    """One of a few values: `Choice("jaccard", "cosine")`."""

    options: tuple[Any, ...]

    def __init__(self, *options: Any, when: Mapping[str, tuple[Any, ...]] | None = None) -> None:
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
            raise ConfigError(f"the search space of {model}: {name!r} is not one of its settings")
        for other in dimension.when:
            if other not in before:
                raise ConfigError(f"{model}: {name!r} depends on {other!r}, which must come first")
        before.add(name)
