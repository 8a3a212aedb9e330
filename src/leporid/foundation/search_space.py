"""What may be tried for each setting of a model: pure data, there is no optimiser here."""

import dataclasses
from collections.abc import Mapping
from typing import TypeAlias

from leporid.errors import ConfigError
from leporid.foundation.config import SettingValue


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Conditional:
    when: Mapping[str, tuple[SettingValue, ...]] = dataclasses.field(
        default_factory=dict
    )
    """The values of earlier settings with which this one is searched at all."""


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

    def __contains__(self, value: object) -> bool:
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
class OneOf(_Conditional):
    """One of a few values: `OneOf("jaccard", "cosine")`."""

    options: tuple[SettingValue, ...]

    def __init__(
        self,
        *options: SettingValue,
        when: Mapping[str, tuple[SettingValue, ...]] | None = None,
    ) -> None:
        if not options:
            raise ConfigError("a OneOf needs at least one option")
        object.__setattr__(self, "options", options)
        object.__setattr__(self, "when", when or {})

    def __contains__(self, value: object) -> bool:
        return value in self.options


Dimension: TypeAlias = Int | Float | OneOf
SearchSpace: TypeAlias = Mapping[str, Dimension]


def active(dimension: Dimension, chosen: Mapping[str, SettingValue]) -> bool:
    """Return whether `dimension` is searched, after the settings chosen before it."""
    return all(chosen.get(name) in values for name, values in dimension.when.items())


def check_space(space: SearchSpace, known: set[str], model: str) -> None:
    """Refuse a name that is no setting of the model, or a condition on a later one."""
    earlier: set[str] = set()
    for name, dimension in space.items():
        if name not in known:
            raise ConfigError(
                f"the search space of {model}: {name!r} is not one of its settings"
            )
        for condition in dimension.when:
            if condition not in earlier:
                raise ConfigError(
                    f"{model}: {name!r} depends on {condition!r}, which must come first"
                )
        earlier.add(name)
