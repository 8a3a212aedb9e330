"""`SearchTask`: what a search has to find out, and the data on which candidates are evaluated."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeAlias

import numpy as np

from leporid import models
from leporid.data import Split, inner_validation_split
from leporid.evaluation import parse_metric
from leporid.foundation import SettingValue
from leporid.selection.priors import LogStatistics

INITS = ("random", "svd", "leporid")
CONTENT_INITS = ("content", "leporid_content")
"""Initialisations that read the item table."""
NETWORK_RECIPE = "general"
SMALL_LOG_INTERACTIONS = 200_000
SMALL_LOG_MAX_STEPS = 3_000
MAX_EVALUATED_USERS = 10_000

Settings: TypeAlias = dict[str, SettingValue]
"""Settings of a model by name, those that differ from its defaults."""


@dataclass(frozen=True)
class SearchTask:
    """A log, the inner validation split that candidates are evaluated on, and the metric."""

    split: Split
    inner: Split
    """The inner validation split: candidates are evaluated on its test part."""
    metric: str
    seed: int = 0
    device: str = "auto"
    items: str | None = None
    """The file of the item table."""

    @classmethod
    def of(
        cls,
        split: Split,
        metric: str,
        *,
        seed: int = 0,
        device: str = "auto",
        items: str | None = None,
    ) -> SearchTask:
        """Return the task of a split, with an inner split on which candidates are evaluated.

        A log that is too small for an inner split is evaluated on its validation part, and one
        without that has `split` itself as `inner`. Large logs are evaluated on some of their
        users, drawn by the seed.
        """
        inner = evaluated_part(split)
        if inner is None:
            inner = split
        else:
            users = np.unique(inner.test.user)
            drawn = np.random.default_rng(seed).permutation(users)[:MAX_EVALUATED_USERS]
            is_evaluated = np.isin(inner.test.user, drawn)
            inner = replace(inner, test=inner.test.select(is_evaluated))
        return cls(split, inner, metric, seed, device, items)

    @property
    def baselines(self) -> tuple[str, ...]:
        """Models that are tried first, and always tested with their defaults."""
        usual = ("toppop", "itemknn")
        return (*usual, "frequency") if self.split.include_seen else usual

    @property
    def inits(self) -> tuple[str, ...]:
        """Initialisations that networks may start from."""
        return INITS if self.items is None else (*INITS, *CONTENT_INITS)

    def network_settings(self, model: str, users: int) -> Settings:
        """Return the settings of a network before its steps are planned.

        It validates on so many `users`.
        """
        model_class = models.get(model)
        train = self.inner.train
        recipe = NETWORK_RECIPE if NETWORK_RECIPE in model_class.recipes else None
        settings = model_class.recipe_settings(recipe, train)
        if len(train) < SMALL_LOG_INTERACTIONS:
            steps = settings.get("steps", SMALL_LOG_MAX_STEPS)
            settings["steps"] = min(steps, SMALL_LOG_MAX_STEPS)
        return {**settings, "metric": self.metric, "eval_users": users}

    @property
    def cutoff(self) -> int:
        """The list length of the metric: 10 for NDCG@10."""
        return parse_metric(self.metric)[1]

    @cached_property
    def known(self) -> Split:
        """What is known before the test: models are refitted on train and validation."""
        return with_validation(self.split)

    @cached_property
    def statistics(self) -> LogStatistics:
        """What the log is compared with others by."""
        return LogStatistics.of(self.split.train_valid, self.split.include_seen)

    @cached_property
    def users_to_test(self) -> float:
        """Users of the test part for each one that candidates are evaluated on."""
        tested = len(np.unique(self.split.test.user))
        evaluated = len(np.unique(self.inner.test.user))
        return tested / max(evaluated, 1)


def with_validation(split: Split) -> Split:
    """Return the split with validation in its training part."""
    nothing = split.train.select(np.empty(0, np.int64))
    return replace(split, train=split.train_valid, valid=nothing)


def evaluated_part(split: Split) -> Split | None:
    """Return an inner split, or one that holds out validation alone; None if both are empty."""
    nothing = split.train.select(np.empty(0, np.int64))
    validation = replace(split, valid=nothing, test=split.valid)
    for inner in (inner_validation_split(split), validation):
        targets = inner.targets("test")
        if len(inner.train) and len(targets):
            return replace(inner, test=targets)
    return None
