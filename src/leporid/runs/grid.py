"""A grid of runs: `ExperimentSpec` (one TOML file), its `Cell`s, and the runner.

Every worker runs the same loop over the same cells: skip what has a record, claim what has not,
run it, write the record atomically. More processes or machines on one directory need nothing else.
"""

import traceback
from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from leporid import embeddings, models
from leporid.artifacts import check_output_folder, read_toml, write_json
from leporid.config import Config, JsonValue
from leporid.data import PROTOCOLS, Split, load, split_by
from leporid.errors import ConfigError, LeporidError, UnknownNameError
from leporid.hashing import canonical_hash
from leporid.machine import check_device, versions
from leporid.models import FitContext, ModelSpec, fit_init
from leporid.progress import Progress, make_progress
from leporid.runs.execution import CUTOFFS, Run, RunSpec, execute
from leporid.runs.journal import claim
from leporid.runs.record import Results, RunRecord, record_key, record_of
from leporid.runs.tuning import tune


@dataclass(frozen=True, kw_only=True)
class _Question(Config):
    """What all runs of a grid share."""

    dataset: str
    """The name results are filed under."""
    core: int = 20
    """Keep users and items with at least this many interactions."""
    min_rating: float | None = None
    """Keep rows with at least this rating; None keeps all."""
    protocol: str = "temporal"
    """One of `leporid.data.splitting.PROTOCOLS`."""
    at: tuple[int, ...] = CUTOFFS
    metric: str = "NDCG@10"
    """What tuning and early stopping maximise on validation, unless recipe or settings say."""
    trials: int = 0
    """The same tuning budget on validation for every cell; 0 takes the settings as they are."""


@dataclass(frozen=True, kw_only=True)
class Cell(_Question):
    """One run of a grid: everything that can change its result."""

    source: str
    """What `leporid.load` reads: a data set name or a path."""
    experiment: str
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

    @property
    def request(self) -> dict[str, Any]:
        """What was asked for. What the data is called belongs to it, not where it lies."""
        left_out = {"source", *(["min_rating"] if self.min_rating is None else [])}
        return {
            key: value for key, value in self.to_dict().items() if key not in left_out
        }

    @property
    def spec_hash(self) -> str:
        return canonical_hash(self.request, 12)

    @property
    def key(self) -> str:
        """The key of its record, known before it runs."""
        return record_key(self)

    @property
    def label(self) -> str:
        """For output: 'dlr2 / leporid / seed 1'."""
        parts = [
            self.model,
            self.init or "-",
            f"seed {self.seed}",
            self.recipe,
            self.variant,
        ]
        return " / ".join(part for part in parts if part)


@lru_cache(maxsize=2)
def load_split(
    source: str, core: int, protocol: str, min_rating: float | None = None
) -> Split:
    """The split of a data set under a protocol; the last two are kept in memory."""
    data = load(source, min_rating=min_rating, progress=False)
    return split_by(data.core(core) if core > 1 else data, protocol)


def run_cell(cell: Cell, *, device: str = "auto", progress: Progress = None) -> Run:
    """Fit and test one cell. Selection uses validation only; test is read once."""
    split = load_split(cell.source, cell.core, cell.protocol, cell.min_rating)
    context = FitContext(device=device, progress=make_progress(progress))
    model = cell_model(cell, split)
    extra: dict[str, JsonValue] = {"cell": cell.request}
    if cell.trials:
        model, extra["tuning"] = tuned(cell, model, split, context)
    spec = RunSpec(
        model,
        dataset=cell.dataset,
        experiment=cell.experiment,
        cutoffs=cell.at,
        spec_hash=cell.spec_hash,
        extra=extra,
    )
    return execute(spec, split, context)


def cell_model(cell: Cell, split: Split) -> ModelSpec:
    """Return what a cell fits.

    The seed of a cell varies the training. Initial embeddings are computed once for all seeds,
    except random ones, which are nothing but their seed.
    """
    model_class = models.get(cell.model)
    settings = dict(cell.settings)
    init_settings: dict[str, JsonValue] = {}
    if model_class.takes_initial_vectors:
        if "metric" not in model_class.recipe_settings(cell.recipe, split.train):
            settings = {"metric": cell.metric, **settings}
        if cell.init is not None:
            init_seed = cell.seed if cell.init == "random" else 0
            init_settings = {"seed": init_seed, **cell.init_settings}
    return ModelSpec.resolve(
        model_class,
        split.train,
        init=cell.init,
        recipe=cell.recipe,
        seed=cell.seed,
        settings=settings,
        init_settings=init_settings,
        cache=True,
    )


def tuned(
    cell: Cell, model: ModelSpec, split: Split, context: FitContext
) -> tuple[ModelSpec, dict[str, JsonValue]]:
    """Search the settings of a cell's model; return the best ones, and facts about the search."""
    init = fit_init(model, split, context)
    fixed = model.model_class.recipe_settings(cell.recipe, split.train) | cell.settings
    metric = fixed.pop("metric", cell.metric)
    found = tune(
        model.model_class,
        split,
        cell.trials,
        metric,
        seed=cell.seed,
        init=init,
        recipe=None,
        device=str(context.device),
        **fixed,
    )
    settings = model.model_class.config_class.from_dict(found.best_config)
    facts: dict[str, JsonValue] = {
        "trials": cell.trials,
        "best_valid": found.best_value,
    }
    return replace(model, settings=settings, init=init), facts


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
class ExperimentSpec(_Question):
    """A grid: models x initialisers x seeds on one data set, and variants beside it."""

    name: str
    """Results lie under `results/<dataset>/<name>/`."""
    source: str | None = None
    """A path, where the data set is not one `leporid.load` knows by name."""
    models: tuple[str, ...] = ()
    inits: tuple[str, ...] = ("random", "leporid")
    """Initialisers of the models that have embedding tables."""
    inits_of: dict[str, Any] = field(default_factory=dict)
    """Initialisers of a model, where they are others, by model name."""
    seeds: tuple[int, ...] = (123,)
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
        named = [*self.models, *self.recipes, *self.settings, *self.inits_of]
        named += [variant.model for variant in variants]
        starts = [*self.inits, *self.init_settings, *self.settings_with]
        starts += [init for inits in self.inits_of.values() for init in inits]
        starts += [variant.init for variant in variants if variant.init is not None]
        checks = [("model", name, models.available()) for name in named]
        checks += [("initialiser", name, embeddings.available()) for name in starts]
        for kind, name, known in (*checks, ("protocol", self.protocol, PROTOCOLS)):
            if name not in known:
                raise UnknownNameError(kind, name, known)
        if not self.models and not self.variants:
            raise ConfigError(
                f"experiment {self.name!r} has neither models nor variants"
            )
        if not self.seeds:
            raise ConfigError(f"experiment {self.name!r} has no seeds")

    def cells(self) -> list[Cell]:
        """Every run of the grid, variants last, in a fixed order."""
        plain: list[Variant] = []
        for model in self.models:
            takes = models.get(model).takes_initial_vectors
            inits = self.inits_of.get(model, self.inits) if takes else [None]
            plain += [Variant(name="", model=model, init=init) for init in inits]
        variants = [Variant.from_dict(values) for values in self.variants]
        runs = (
            (seed, run)
            for group in (plain, variants)
            for seed in self.seeds
            for run in group
        )
        return [self._cell(run, seed) for seed, run in runs]

    def _cell(self, run: Variant, seed: int) -> Cell:
        model, init = run.model, run.init or ""
        common, own = self.settings.get(model, {}), self.settings_with.get(init, {})
        return Cell(
            **{shared.name: getattr(self, shared.name) for shared in fields(_Question)},
            source=self.source or self.dataset,
            experiment=self.name,
            model=model,
            init=run.init,
            seed=seed,
            recipe=run.recipe or self.recipes.get(model),
            variant=run.name or None,
            settings={**common, **own, **run.settings},
            init_settings={**self.init_settings.get(init, {}), **run.init_settings},
        )


def read_experiment(
    path: str | Path, data: str | Path | None = None
) -> list[ExperimentSpec]:
    """The grids of a TOML file: one, or one for each of its `[[logs]]`.

    A log has its own `dataset` and what else differs; where its `source` is a relative path it
    lies in the folder `data`.
    """
    values = read_toml(path)
    logs = values.pop("logs", [{}])
    specs = [ExperimentSpec.from_dict({**values, **log}) for log in logs]
    if data is None:
        return specs
    return [
        s.replace(source=str(Path(data) / s.source)) if s.source else s for s in specs
    ]


def run_grid(
    specs: Sequence[ExperimentSpec],
    root: str | Path | Results,
    *,
    device: str = "auto",
    retry_failed: bool = False,
    progress: Progress = None,
) -> dict[str, RunRecord | str]:
    """Run every cell nobody else has run or is running; several processes may share `root`.

    Returns the record of each cell by its spec hash, or 'failed', or 'waiting': another process
    has it.
    """
    check_device(device)
    if not isinstance(root, Results):
        check_output_folder(root)
    results = root if isinstance(root, Results) else Results(root)
    cells = [cell for spec in specs for cell in spec.cells()]
    for cell in cells:
        failed = results.path(cell.key, ".error.json")
        if results.get(cell.key) or (failed.is_file() and not retry_failed):
            continue
        with claim(results.path(cell.key, ".claim")) as mine:
            if not mine or results.get(cell.key):
                continue
            try:
                run = run_cell(cell, device=device, progress=progress)
            except (
                LeporidError,
                RuntimeError,
                ValueError,
                ArithmeticError,
                MemoryError,
            ) as error:
                last = traceback.extract_tb(error.__traceback__)[-1]
                where = f"{Path(last.filename).name}:{last.lineno}"
                about = {"error": f"{type(error).__name__}: {error}", "where": where}
                write_json(
                    failed, {"cell": cell.request, "versions": versions(), **about}
                )
            else:
                failed.unlink(missing_ok=True)
                results.add(record_of(run), run.test)
    broken = {c.key for c in cells if results.path(c.key, ".error.json").is_file()}
    return {
        cell.spec_hash: results.get(cell.key)
        or ("failed" if cell.key in broken else "waiting")
        for cell in cells
    }
