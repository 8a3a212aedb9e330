"""`propose`: the settings that Optuna's sampler (TPE) wants to try next."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import ModuleType

from leporid.foundation import Int, OneOf, SearchSpace, SettingValue, active

STARTUP_TRIALS = 8
"""Trials drawn at random before the sampler (TPE) models the metric."""


@dataclass(frozen=True)
class FinishedTrial:
    """A trial as the sampler sees it."""

    number: int
    params: Mapping[str, float]
    """Settings as Optuna has them: an option is its position, as JSON keeps it."""
    settings: dict[str, SettingValue]
    """All settings of the model."""
    value: float | None
    """The metric; None if the settings could not be fitted."""
    seconds: float | None = None
    error: str = ""


@dataclass(frozen=True)
class Proposal:
    """Settings to try, by their names in the space."""

    settings: dict[str, SettingValue]
    params: dict[str, float]
    """Settings as Optuna has them: an option is its position, as JSON keeps it."""


def propose(
    optuna: ModuleType,
    space: SearchSpace,
    defaults: Mapping[str, SettingValue],
    seed: int,
    finished: Sequence[FinishedTrial],
    number: int,
) -> Proposal:
    """Return the settings of a trial.

    The sampler is seeded by the number of the trial and sees the finished ones, so that an
    interrupted study goes on as if it had not been. The first trial has the `defaults`, as far as
    they lie inside the space.
    """
    distributions = distributions_of(optuna, space)
    sampler = optuna.samplers.TPESampler(
        n_startup_trials=STARTUP_TRIALS, seed=seed * 100_003 + number
    )
    # Optuna's messages give way to our progress bar.
    verbosity = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna.create_study(direction="maximize", sampler=sampler)
    optuna.logging.set_verbosity(verbosity)

    states = optuna.trial.TrialState
    for trial in finished:
        params = {name: trial.params[name] for name in trial.params if name in space}
        study.add_trial(
            optuna.trial.create_trial(
                state=states.FAIL if trial.value is None else states.COMPLETE,
                params=params,
                distributions={name: distributions[name] for name in params},
                value=trial.value,
            )
        )
    if number == 0:
        study.enqueue_trial(params_inside(space, defaults))

    trial = study.ask()
    settings: dict[str, SettingValue] = {}
    # A condition may be about a setting that is not searched.
    fixed = {name: value for name, value in defaults.items() if name not in space}
    for name, dimension in space.items():
        if not active(dimension, {**fixed, **settings}):
            continue
        if isinstance(dimension, OneOf):
            place = trial.suggest_categorical(name, range(len(dimension.options)))
            settings[name] = dimension.options[place]
        else:
            is_int = isinstance(dimension, Int)
            suggest = trial.suggest_int if is_int else trial.suggest_float
            settings[name] = suggest(
                name, dimension.low, dimension.high, log=dimension.log
            )
    return Proposal(settings, trial.params)


def distributions_of(optuna: ModuleType, space: SearchSpace) -> dict[str, object]:
    """Return the space as Optuna describes it."""
    kinds = optuna.distributions
    distributions: dict[str, object] = {}
    for name, dimension in space.items():
        if isinstance(dimension, OneOf):
            places = range(len(dimension.options))
            distributions[name] = kinds.CategoricalDistribution(places)
        else:
            is_int = isinstance(dimension, Int)
            kind = kinds.IntDistribution if is_int else kinds.FloatDistribution
            distributions[name] = kind(dimension.low, dimension.high, log=dimension.log)
    return distributions


def params_inside(
    space: SearchSpace, defaults: Mapping[str, SettingValue]
) -> dict[str, SettingValue]:
    """Return the defaults that lie inside the space, as Optuna has them."""
    params: dict[str, SettingValue] = {}
    for name, dimension in space.items():
        value = defaults[name]
        if value not in dimension or not active(dimension, defaults):
            continue
        params[name] = value
        if isinstance(dimension, OneOf):
            params[name] = dimension.options.index(value)
    return params
