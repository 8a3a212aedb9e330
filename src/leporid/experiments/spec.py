"""An experiment as data: which models, initialisers, seeds and settings, in one TOML file."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from leporid import initializers, models
from leporid.config import Config, read_toml
from leporid.data import PROTOCOLS
from leporid.errors import ConfigError, UnknownNameError
from leporid.experiments.cell import Cell
from leporid.experiments.fit_and_test import CUTOFFS


@dataclass(frozen=True, kw_only=True)
class Variant(Config):
    """A named change to the settings, run beside the plain grid (an ablation)."""

    name: str
    model: str
    init: str | None = "leporid"
    recipe: str | None = None
    settings: dict[str, Any] = field(default_factory=dict)
    init_settings: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class ExperimentSpec(Config):
    """A grid: models x initialisers x seeds on one data set, and variants beside it."""

    name: str
    """Results lie under `results/<dataset>/<name>/`."""
    dataset: str
    source: str | None = None
    """A path, where the data set is not one `leporid.load` knows by name."""
    core: int = 20
    """Keep users and items with at least this many interactions."""
    min_rating: float | None = None
    """Keep rows with at least this rating; None keeps all."""
    protocol: str = "temporal"
    """One of `leporid.data.PROTOCOLS`."""
    models: tuple[str, ...] = ()
    inits: tuple[str, ...] = ("random", "leporid")
    """Initialisers of the models that have embedding tables."""
    inits_of: dict[str, Any] = field(default_factory=dict)
    """Initialisers of a model, where they are others, by model name."""
    seeds: tuple[int, ...] = (123,)
    at: tuple[int, ...] = CUTOFFS
    metric: str = "NDCG@10"
    """What tuning and early stopping maximise on validation, unless recipe or settings say."""
    trials: int = 0
    """The same tuning budget for every cell; 0 takes the settings as they are."""
    recipes: dict[str, Any] = field(default_factory=dict)
    """Recipe of a model, by model name."""
    settings: dict[str, Any] = field(default_factory=dict)
    """Settings of a model, by model name."""
    settings_with: dict[str, Any] = field(default_factory=dict)
    """Settings of the models that go with an initialiser, by the initialiser's name."""
    init_settings: dict[str, Any] = field(default_factory=dict)
    """Settings of an initialiser, by its name."""
    variants: tuple[dict[str, Any], ...] = ()

    def validate(self) -> None:
        """Refuse names that do not exist before anything runs."""
        variants = [Variant.from_dict(values) for values in self.variants]
        named = (*self.models, *self.recipes, *self.settings, *(v.model for v in variants))
        named += tuple(self.inits_of)
        starts = (*self.inits, *self.init_settings, *self.settings_with)
        starts += tuple(init for inits in self.inits_of.values() for init in inits)
        starts += tuple(v.init for v in variants if v.init is not None)
        _check_names("model", named, models.available())
        _check_names("initialiser", starts, initializers.available())
        _check_names("protocol", [self.protocol], PROTOCOLS)
        if not self.models and not self.variants:
            raise ConfigError(f"experiment {self.name!r} has neither models nor variants")
        if not self.seeds:
            raise ConfigError(f"experiment {self.name!r} has no seeds")

    def cells(self) -> list[Cell]:
        """Every run of the grid, variants last, in a fixed order."""
        plain = [
            self._cell(model, init, seed)
            for seed in self.seeds
            for model in self.models
            for init in self._inits(model)
        ]
        variants = [Variant.from_dict(values) for values in self.variants]
        return plain + [
            self._cell(variant.model, variant.init, seed, variant)
            for seed in self.seeds
            for variant in variants
        ]

    def _inits(self, model: str) -> Iterable[str | None]:
        if not models.get(model).takes_initial_vectors:
            return (None,)
        return tuple(self.inits_of.get(model, self.inits))

    def _cell(
        self, model: str, init: str | None, seed: int, variant: Variant | None = None
    ) -> Cell:
        recipe = self.recipes.get(model)
        settings = {**self.settings.get(model, {}), **self.settings_with.get(init or "", {})}
        init_settings = dict(self.init_settings.get(init, {})) if init else {}
        if variant is not None:
            recipe = variant.recipe or recipe
            settings |= variant.settings
            init_settings |= variant.init_settings
        names = ("dataset", "core", "min_rating", "protocol", "at", "metric", "trials")
        return Cell(
            **{name: getattr(self, name) for name in names},
            source=self.source or self.dataset,
            experiment=self.name,
            model=model,
            init=init,
            seed=seed,
            recipe=recipe,
            variant=variant.name if variant else None,
            settings=settings,
            init_settings=init_settings,
        )


def read_experiment(path: str | Path, data: str | Path | None = None) -> list[ExperimentSpec]:
    """The grids of a TOML file: one, or one for each of its `[[logs]]`.

    A log has its own `dataset` and what else differs; where its `source` is a relative path it
    lies in the folder `data`.
    """
    values = read_toml(path)
    logs = values.pop("logs", [{}])
    specs = [ExperimentSpec.from_dict({**values, **log}) for log in logs]
    if data is None:
        return specs
    return [s.replace(source=str(Path(data) / s.source)) if s.source else s for s in specs]


def _check_names(kind: str, names: Iterable[str], known: Collection[str]) -> None:
    for name in names:
        if name not in known:
            raise UnknownNameError(kind, name, known)
