"""Variants of a model's settings, drawn from its search space."""

from __future__ import annotations

import zlib

import numpy as np

from leporid import models
from leporid.foundation import Float, Int, OneOf, SearchSpace, SettingValue, active
from leporid.selection.task import Settings

SMALL_CHANGE_SHARE_OF_RANGE = 0.15


def variant(model: str, base: Settings, place: int, seed: int) -> Settings:
    """Return settings near `base`, or far from them: the `place`-th of a fixed sequence."""
    config_class = models.get(model).config_class
    space = models.get(model).search_space
    rng = np.random.default_rng([seed, place, zlib.crc32(model.encode())])
    complete = config_class.from_dict(base).to_dict()
    settings = dict(base)
    for name in drawn_names(space, rng):
        value = drawn_value(space[name], complete[name], rng)
        settings[name] = value
        complete[name] = value
    defaults = config_class().to_dict()
    return {
        name: value
        for name, value in settings.items()
        if name not in space
        or (active(space[name], complete) and value != defaults[name])
    }


def drawn_names(space: SearchSpace, rng: np.random.Generator) -> list[str]:
    """Draw the settings to change: about half of the space, at least one."""
    names = [name for name in space if rng.random() < 0.5]
    if not names and space:
        names = [str(rng.choice(list(space)))]
    return names


def drawn_value(
    dimension: OneOf | Int | Float, current: SettingValue, rng: np.random.Generator
) -> SettingValue:
    """Draw a value: an option, or a number near the current one or anywhere in the range."""
    if isinstance(dimension, OneOf):
        return dimension.options[int(rng.integers(len(dimension.options)))]
    ends = np.array([dimension.low, dimension.high], np.float64)
    low, high = np.log(ends) if dimension.log else ends
    # The draw comes first: it must not depend on the current value.
    stays_near = rng.random() < 0.5
    if stays_near and isinstance(current, int | float) and current in dimension:
        centre = np.log(current) if dimension.log else current
        near = rng.normal(centre, SMALL_CHANGE_SHARE_OF_RANGE * (high - low))
        drawn = float(np.clip(near, low, high))
    else:
        drawn = float(rng.uniform(low, high))
    value = float(np.exp(drawn)) if dimension.log else drawn
    value = min(max(value, dimension.low), dimension.high)
    return round(value) if isinstance(dimension, Int) else float(f"{value:.3g}")
