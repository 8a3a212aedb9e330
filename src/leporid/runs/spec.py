"""An experiment as data: which models, initialisers, seeds and settings, in one TOML file."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from leporid import initializers, models
from leporid.config import Config
from leporid.errors import ConfigError
from leporid.runs.record import spec_hash

__all__ = ["Cell", "ExperimentSpec", "Variant"]

Protocol = Literal["temporal", "leave-last-out"]


@dataclass(frozen=True, kw_only=True)
class Cell(Config):
    """One run of a grid: everything that can change its result."""

    dataset: str
    """The name results are filed under."""
    source: str
    """What `leporid.load` reads: a data set name or a path."""
    experiment: str
    core: int
    protocol: Protocol
    model: str
    init: str | None
    """Initialiser; None for models that have no embedding tables."""
    seed: int
    recipe: str | None = None
    variant: str | None = None
    """The name of an ablation; None for the plain cell."""
    settings: dict[str, Any] = field(default_factory=dict)
    """Settings of the model that differ from its defaults."""
    init_settings: dict[str, Any] = field(default_factory=dict)
    """Settings of the initialiser that differ from its defaults."""
    at: tuple[int, ...] = (1, 5, 10)
    trials: int = 0
    """Tuning budget on validation; 0 uses the settings as they are."""

    @property
    def spec_hash(self) -> str:
        """A hash of the request. Where the data lies is not part of it, what it is called is."""
        asked = self.to_dict()
        del asked["source"]
        return spec_hash(**asked)

    @property
    def label(self) -> str:
        """For people: 'dlr2 / leporid / seed 1'."""
        parts = [self.model, self.init or "-", f"seed {self.seed}", self.recipe, self.variant]
        return " / ".join(part for part in parts if part)


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
    protocol: Protocol = "temporal"
    models: tuple[str, ...] = ()
    inits: tuple[str, ...] = ("random", "leporid")
    """Initialisers of the models that have embedding tables."""
    seeds: tuple[int, ...] = (123,)
    at: tuple[int, ...] = (1, 5, 10)
    trials: int = 0
    """The same tuning budget for every cell; 0 takes the settings as given."""
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
        for name in (*self.models, *self.recipes, *self.settings):
            _known("model", name, models.available())
        for name in (*self.inits, *self.init_settings, *self.settings_with):
            _known("initialiser", name, initializers.available())
        for variant in self.variants:
            checked = Variant.from_dict(variant)
            _known("model", checked.model, models.available())
            if checked.init is not None:
                _known("initialiser", checked.init, initializers.available())
        if not self.models and not self.variants:
            raise ConfigError(f"experiment {self.name!r} has neither models nor variants")
        if not self.seeds:
            raise ConfigError(f"experiment {self.name!r} has no seeds")

    def cells(self) -> list[Cell]:
        """Every run of the grid, variants last, in a fixed order."""
        found: list[Cell] = []
        for seed in self.seeds:
            for model in self.models:
                takes_vectors = models.get(model).takes_initial_vectors
                inits: tuple[str | None, ...] = self.inits if takes_vectors else (None,)
                found += [self._cell(model, init, seed) for init in inits]
        for seed in self.seeds:
            for values in self.variants:
                variant = Variant.from_dict(values)
                found.append(self._cell(variant.model, variant.init, seed, variant))
        return found

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
        return Cell(
            dataset=self.dataset,
            source=self.source or self.dataset,
            experiment=self.name,
            core=self.core,
            protocol=self.protocol,
            model=model,
            init=init,
            seed=seed,
            recipe=recipe,
            variant=variant.name if variant else None,
            settings=settings,
            init_settings=init_settings,
            at=self.at,
            trials=self.trials,
        )


def _known(kind: str, name: str, names: list[str]) -> None:
    if name not in names:
        from leporid.errors import UnknownNameError

        raise UnknownNameError(kind, name, names)
