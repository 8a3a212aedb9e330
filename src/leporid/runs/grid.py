"""A grid of runs: `ExperimentSpec` (one TOML file), its `Cell`s, and the runner.

Every worker runs the same loop over the same cells: skip what has a record, lock what has not,
run it, write the record atomically. More processes or machines on one directory need nothing else.
"""

import traceback
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import TypeAlias

from leporid import embeddings, models
from leporid.data import PROTOCOLS, Split, load, split_by
from leporid.errors import (
    ConfigError,
    LeporidError,
    TrainingInterruptedError,
    UnknownNameError,
)
from leporid.foundation import (
    Config,
    JsonValue,
    Progress,
    SettingValue,
    canonical_hash,
    check_device,
    check_output_folder,
    duration,
    make_progress,
    read_toml,
    reporting,
    signal_of,
    versions,
    write_json,
)
from leporid.models import FitContext, ModelSpec, fit_init
from leporid.runs.execution import CUTOFFS, Run, RunSpec, execute
from leporid.runs.journal import try_lock
from leporid.runs.record import Results, RunRecord, record_key, record_of
from leporid.runs.tuning import tune

Settings: TypeAlias = dict[str, SettingValue]
"""Settings of a model or of an initialiser, by name."""
FAILURES = (LeporidError, RuntimeError, ValueError, ArithmeticError, MemoryError)
"""Errors that end a cell, not the grid."""


@dataclass(frozen=True, kw_only=True)
class GridSettings(Config):
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
    """The list lengths of the test."""
    metric: str = "NDCG@10"
    """What tuning and early stopping maximise on validation, unless recipe or settings say."""
    trials: int = 0
    """Tuning budget of every cell, spent on validation; 0 takes the settings as they are."""


@dataclass(frozen=True, kw_only=True)
class Cell(GridSettings):
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
    settings: Settings = field(default_factory=dict)
    """Settings of the model that differ from its defaults."""
    init_settings: Settings = field(default_factory=dict)
    """Settings of the initialiser that differ from its defaults."""

    @property
    def request(self) -> dict[str, JsonValue]:
        """What was asked for. What the data is called belongs to it, not where it lies."""
        values: dict[str, JsonValue] = self.to_dict()
        del values["source"]
        if self.min_rating is None:
            del values["min_rating"]
        return values

    @property
    def spec_hash(self) -> str:
        """Hash of what was asked for."""
        return canonical_hash(self.request, 12)

    @property
    def key(self) -> str:
        """The key of its record, known before it runs."""
        return record_key(self)

    @property
    def label(self) -> str:
        """What it is called in output: 'dlr2 / leporid / seed 1'."""
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
    """Return the split of a data set under a protocol; the last two are kept in memory."""
    data = load(source, min_rating=min_rating, progress=False)
    if core > 1:
        data = data.core(core)
    return split_by(data, protocol)


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
    init_settings: Settings = {}
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
    result = tune(
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
    settings = model.model_class.config_class.from_dict(result.best_config)
    facts: dict[str, JsonValue] = {
        "trials": cell.trials,
        "best_valid": result.best_value,
    }
    return replace(model, settings=settings, init=init), facts


@dataclass(frozen=True, kw_only=True)
class Variant(Config):
    """A named change to the settings, run beside the plain grid (an ablation)."""

    name: str
    model: str
    init: str | None = "leporid"
    recipe: str | None = None
    settings: Settings = field(default_factory=dict)
    init_settings: Settings = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class ExperimentSpec(GridSettings):
    """A grid: models x initialisers x seeds on one data set, and variants beside it."""

    name: str
    """Results lie under `results/<dataset>/<name>/`."""
    source: str | None = None
    """A path, where the data set is not one `leporid.load` knows by name."""
    models: tuple[str, ...] = ()
    inits: tuple[str, ...] = ("random", "leporid")
    """Initialisers of the models that have embedding tables."""
    inits_of: dict[str, Sequence[str]] = field(default_factory=dict)
    """Initialisers of models that have others, by model name."""
    seeds: tuple[int, ...] = (123,)
    recipes: dict[str, str] = field(default_factory=dict)
    """Recipe of a model, by model name."""
    settings: dict[str, Settings] = field(default_factory=dict)
    """Settings of a model, by model name."""
    settings_with: dict[str, Settings] = field(default_factory=dict)
    """Settings of the models that go with an initialiser, by the initialiser's name."""
    init_settings: dict[str, Settings] = field(default_factory=dict)
    """Settings of an initialiser, by its name."""
    variants: tuple[dict[str, SettingValue], ...] = ()
    """Each has the fields of a `Variant`."""

    def __post_init__(self) -> None:
        """Refuse names that do not exist before anything runs."""
        super().__post_init__()
        variants = self.named_variants()
        chosen = [variant.model for variant in variants]
        check_names(
            "model",
            [*self.models, *self.recipes, *self.settings, *self.inits_of, *chosen],
            models.available(),
        )
        inits = [init for inits in self.inits_of.values() for init in inits]
        inits += [variant.init for variant in variants if variant.init is not None]
        check_names(
            "initialiser",
            [*self.inits, *self.init_settings, *self.settings_with, *inits],
            embeddings.available(),
        )
        check_names("protocol", [self.protocol], PROTOCOLS)
        if not self.models and not self.variants:
            raise ConfigError(
                f"experiment {self.name!r} has neither models nor variants"
            )
        if not self.seeds:
            raise ConfigError(f"experiment {self.name!r} has no seeds")

    def named_variants(self) -> list[Variant]:
        """Return the variants as what they are."""
        return [Variant.from_dict(values) for values in self.variants]

    def plain_variants(self) -> list[Variant]:
        """Return the plain grid: models x initialisers."""
        plain = []
        for model in self.models:
            inits: Sequence[str | None] = [None]
            if models.get(model).takes_initial_vectors:
                inits = self.inits_of.get(model, self.inits)
            plain += [Variant(name="", model=model, init=init) for init in inits]
        return plain

    def cells(self) -> list[Cell]:
        """Return every run of the grid, variants last, in a fixed order."""
        return [
            self._cell(variant, seed)
            for group in (self.plain_variants(), self.named_variants())
            for seed in self.seeds
            for variant in group
        ]

    def _cell(self, variant: Variant, seed: int) -> Cell:
        model = variant.model
        init = variant.init or ""
        return Cell(
            dataset=self.dataset,
            core=self.core,
            min_rating=self.min_rating,
            protocol=self.protocol,
            at=self.at,
            metric=self.metric,
            trials=self.trials,
            source=self.source or self.dataset,
            experiment=self.name,
            model=model,
            init=variant.init,
            seed=seed,
            recipe=variant.recipe or self.recipes.get(model),
            variant=variant.name or None,
            settings={
                **self.settings.get(model, {}),
                **self.settings_with.get(init, {}),
                **variant.settings,
            },
            init_settings={
                **self.init_settings.get(init, {}),
                **variant.init_settings,
            },
        )


def check_names(kind: str, names: Iterable[str], known: Collection[str]) -> None:
    """Refuse a name that does not exist."""
    for name in names:
        if name not in known:
            raise UnknownNameError(kind, name, known)


def read_experiment(
    path: str | Path, data: str | Path | None = None
) -> list[ExperimentSpec]:
    """Read the grids of a TOML file: one, or one for each of its `[[logs]]`.

    A log has its own `dataset` and what else differs; where its `source` is a relative path it
    lies in the folder `data`.
    """
    values = read_toml(path)
    logs = values.pop("logs", [{}])
    specs = [ExperimentSpec.from_dict({**values, **log}) for log in logs]
    if data is None:
        return specs
    return [
        spec.replace(source=str(Path(data) / spec.source)) if spec.source else spec
        for spec in specs
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
    has it. Ctrl-C or SIGTERM ends the grid with a `TrainingInterruptedError` whose `so_far` is the
    same; the cell that was running is run again next time.
    """
    check_device(device)
    if not isinstance(root, Results):
        check_output_folder(root)
        root = Results(root)
    cells = [cell for spec in specs for cell in spec.cells()]
    with reporting(progress) as reporter:
        try:
            for number, cell in enumerate(cells, 1):
                has_failed = failure_file(root, cell).is_file()
                if root.get(cell.key) or (has_failed and not retry_failed):
                    continue
                with try_lock(root.path(cell.key, ".lock")) as mine:
                    if mine and not root.get(cell.key):
                        reporter.say(f"cell {number} of {len(cells)}: {cell.label}")
                        run_into(root, cell, device=device, progress=reporter)
                        reporter.say(f"  {cell_sentence(cell, outcome_of(root, cell))}")
        except (KeyboardInterrupt, TrainingInterruptedError) as error:
            outcomes = outcomes_of(specs, root)
            done = sum(isinstance(outcome, RunRecord) for outcome in outcomes.values())
            raise TrainingInterruptedError(
                f"{done} of {len(cells)} cells are done; the same grid goes on with the others",
                signal_of(error),
                outcomes,
            ) from None
    return outcomes_of(specs, root)


def cell_sentence(cell: Cell, outcome: RunRecord | str) -> str:
    """Say what came out of a cell, on validation."""
    if isinstance(outcome, str):
        return outcome
    value = outcome.valid_metrics.get(cell.metric)
    if value is None:
        return "done, without validation"
    return f"{cell.metric} {value:.4f} on validation, fitted in {duration(outcome.seconds)}"


def outcomes_of(
    specs: Sequence[ExperimentSpec], root: str | Path | Results
) -> dict[str, RunRecord | str]:
    """Return the record of each cell by its spec hash, or 'failed', or 'waiting'."""
    results = root if isinstance(root, Results) else Results(root)
    cells = [cell for spec in specs for cell in spec.cells()]
    return {cell.spec_hash: outcome_of(results, cell) for cell in cells}


def run_into(results: Results, cell: Cell, *, device: str, progress: Progress) -> None:
    """Run a cell, and write its record or why there is none."""
    try:
        run = run_cell(cell, device=device, progress=progress)
    except TrainingInterruptedError:
        raise
    except FAILURES as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        failure = {
            "cell": cell.request,
            "versions": versions(),
            "error": f"{type(error).__name__}: {error}",
            "where": f"{Path(last.filename).name}:{last.lineno}",
        }
        write_json(failure_file(results, cell), failure)
    else:
        failure_file(results, cell).unlink(missing_ok=True)
        results.add(record_of(run), run.test)


def failure_file(results: Results, cell: Cell) -> Path:
    """Return the file that says why a cell has no record."""
    return results.path(cell.key, ".error.json")


def outcome_of(results: Results, cell: Cell) -> RunRecord | str:
    """Return the record of a cell, 'failed', or 'waiting' if another process has it."""
    record = results.get(cell.key)
    if record is not None:
        return record
    return "failed" if failure_file(results, cell).is_file() else "waiting"
