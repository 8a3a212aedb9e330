"""What may be fitted: a `Candidate` is a model, an initialisation and settings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from leporid import models
from leporid.data import Interactions
from leporid.errors import MissingExtraError
from leporid.foundation import Config, SettingValue, canonical_hash
from leporid.models import ModelSpec
from leporid.selection.priors import NETWORKS, LogStatistics, expected_shares
from leporid.selection.task import CONTENT_INITS, NETWORK_RECIPE, SearchTask

if TYPE_CHECKING:
    from leporid.models import TrainingConfig

EQUAL_IF_EXPECTED_WITHIN = 0.05
PLANNED_SETTINGS = {"steps", "eval_every", "eval_users", "metric", "item_table"}
"""Settings that the search itself chooses for networks; labels do not name them."""


@dataclass(frozen=True, kw_only=True)
class Candidate(Config):
    """A model, its initialisation, and the settings that differ from its defaults."""

    model: str
    init: str | None = None
    settings: dict[str, SettingValue] = field(default_factory=dict)

    @property
    def is_network(self) -> bool:
        """Whether it is trained from initial embeddings, step by step."""
        return self.init is not None

    @property
    def key(self) -> str:
        """The name of its files and journal entries: equal candidates have equal keys."""
        return canonical_hash([self.model, self.init, self.settings], 12)

    @property
    def training(self) -> TrainingConfig:
        """All settings of a network."""
        from leporid.models import TrainingConfig  # loads torch

        config = models.get(self.model).config_class.from_dict(self.settings)
        assert isinstance(config, TrainingConfig)
        return config

    @property
    def changed(self) -> str:
        """The settings that nobody would expect: 'l2=300 window=5'."""
        model_class = models.get(self.model)
        recipes = []
        words = []
        if self.is_network:
            general = model_class.recipes.get(NETWORK_RECIPE, {})
            recipes = [general, *model_class.general_by_kind.values()]
            words = ["with features"] if "item_table" in self.settings else []
        for name, value in self.settings.items():
            is_expected = any(recipe.get(name) == value for recipe in recipes)
            if name in PLANNED_SETTINGS or is_expected:
                continue
            text = f"{value:.4g}" if isinstance(value, float) else str(value)
            words.append(f"{name}={text}")
        return " ".join(words)

    @property
    def headline(self) -> str:
        """The model and how it starts, without settings: 'sasrec from leporid', 'ease'."""
        return f"{self.model} from {self.init}" if self.init else self.model

    @property
    def label(self) -> str:
        """What it is called in output: 'sasrec from leporid', 'ease l2=300'."""
        return f"{self.headline} {self.changed}".rstrip()

    def spec(
        self, train: Interactions, seed: int, items: str | None = None
    ) -> ModelSpec:
        """Return what to fit on a training part, with all settings and how the tables start.

        `items` is the file of the item table, which some initialisations read.
        """
        reads_items = self.init in CONTENT_INITS
        return ModelSpec.resolve(
            self.model,
            train,
            init=self.init,
            recipe=None,
            seed=seed,
            settings=self.settings,
            init_settings={"items": items} if reads_items else None,
            cache=True,
        )

    def trial_spec(self, task: SearchTask) -> ModelSpec:
        """Return what a trial fits on the inner split of a task."""
        return self.spec(task.inner.train, task.seed, task.items)


def classical_candidates(
    log: LogStatistics,
    only: Sequence[str] | None = None,
    items: str | None = None,
) -> list[Candidate]:
    """Return all classical models (or only some) with their defaults: baselines, then by the prior.

    With an item table ItemKNN also has neighbours by content, half of the weight and all of it.
    """
    names = [name for name in models.available() if name not in NETWORKS]
    if only is not None:
        names = [name for name in names if name in only]
    elif not log.include_seen:
        names.remove("frequency")  # it would be TopPop
    if not log.has_order and only is None:
        names.remove("transitions")  # nothing follows anything
    expected = expected_shares(log)
    expected |= {"toppop": 2.0, "frequency": 1.6, "itemknn": 1.5, "transitions": 1.4}
    ranked = sorted(
        (name for name in names if is_classical(name)),
        key=lambda name: -expected.get(name, 0.0),
    )
    candidates = []
    for name in ranked:
        candidates.append(Candidate(model=name))
        if name == "itemknn" and items is not None:
            candidates += [
                Candidate(model=name, settings={"item_table": items, "content": share})
                for share in (0.5, 1.0)
            ]
    return candidates


def is_classical(name: str) -> bool:
    """Tell whether a model is neither a network nor made of other models."""
    model_class = models.get(name)
    return not (model_class.takes_initial_vectors or model_class.combines)


def neural_models(log: LogStatistics, only: Sequence[str] | None = None) -> list[str]:
    """Return the networks, the most promising first; none where torch is not installed.

    Networks of nearly the same promise are in the order of `NETWORKS`: the first learns fastest.
    """
    expected = expected_shares(log)
    ranked = [name for name in NETWORKS if name in expected]
    best = max((expected[name] for name in ranked), default=0.0)
    ranked.sort(
        key=lambda name: int((best - expected[name]) / EQUAL_IF_EXPECTED_WITHIN)
    )
    if only is not None:
        ranked += [name for name in NETWORKS if name not in ranked]
        ranked = [name for name in ranked if name in only]
    try:
        return [
            name for name in ranked if name in models.available() and models.get(name)
        ]
    except MissingExtraError:
        return []
