"""Recipes: named settings of a model; `general` adapts its own to the data."""

from collections.abc import Mapping
from typing import Any, TypeAlias

from leporid.data import Interactions
from leporid.errors import ConfigError, UnknownNameError

Settings: TypeAlias = dict[str, Any]
"""Settings by name, which are checked when they become those of a model."""


def kinds_of(train: Interactions) -> list[str]:
    """Return the kinds of data that `general` tells apart (docs/models.md), general ones first."""
    n = len(train)
    is_large = n >= 200_000
    has_times = train.time is not None
    has_long_histories = n >= 50 * train.n_users
    kinds = {
        "short histories": n < 25 * train.n_users,
        "small": n < 50_000,
        "large": is_large,
        "large with long histories in order": (
            is_large and has_long_histories and has_times
        ),
        "large without order": is_large and not has_times,
    }
    return [kind for kind, belongs in kinds.items() if belongs]


def recipe_settings(
    recipe: str | None,
    recipes: Mapping[str, Settings],
    model: str,
) -> Settings:
    """Return the settings of a recipe of a model by its name; none for None."""
    if recipe is None:
        return {}
    if not recipes:
        raise ConfigError(f"{model} has no recipes: leave `recipe` out")
    if recipe not in recipes:
        raise UnknownNameError(f"recipe of {model}", recipe, recipes)
    return dict(recipes[recipe])


def adapted_to(
    train: Interactions,
    settings: Settings,
    changes_by_kind: Mapping[str, Settings],
) -> Settings:
    """Return the settings of `general`, changed for the kinds of data that a training part is."""
    adapted = dict(settings)
    for kind in kinds_of(train):
        adapted |= changes_by_kind.get(kind, {})
    if adapted.get("dim", 0) > min(train.n_users, train.n_items):
        del adapted["dim"]  # small graphs have no more eigenvectors
    return adapted
