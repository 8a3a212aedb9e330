"""`tune`: the settings of a model that do best on validation, found with Optuna."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from leporid.config import canonical_hash
from leporid.data import Part, Split, inner_validation_split
from leporid.errors import ConfigError, DataError, LeporidError
from leporid.evaluation import evaluate, parse_metric
from leporid.experiments.tuning_ledger import Ledger, import_optuna, open_study, storage_errors
from leporid.initializers import InitialEmbeddings, initial_embeddings
from leporid.models import DEFAULT_RECIPE, Recommender, get, named_recipe, train
from leporid.progress import ProgressLike, make_progress
from leporid.space import Choice, Int, SearchSpace, active, check_space

_STARTUP_TRIALS = 8
"""Trials drawn at random before the sampler (TPE) starts to model the metric."""


@dataclass(frozen=True)
class TuningResult:
    """The outcome of a study."""

    model: str
    metric: str
    best_config: dict[str, Any]
    """All settings of the best trial: pass them to the model as they are."""
    best_value: float
    """The metric on validation."""
    trials: list[dict[str, Any]]
    """One row per finished trial: `number`, `value` (None if it failed), `seconds`, `settings`."""
    study: str
    """Name of the study in its storage."""


def tune(
    model: str | type[Recommender],
    split: Split,
    trials: int = 20,
    metric: str = "NDCG@10",
    *,
    seed: int = 0,
    storage: str | Path | None = None,
    study_name: str | None = None,
    space: SearchSpace | None = None,
    init: str | InitialEmbeddings | None = None,
    recipe: str | None = DEFAULT_RECIPE,
    device: str | None = None,
    progress: bool | ProgressLike | None = None,
    timeout: float | None = None,
    rehearse: bool = False,
    clock: Callable[[], float] = time.monotonic,
    **fixed: Any,
) -> TuningResult:
    """Search the space declared beside `model`, judged by `metric` on validation only.

    Parameters
    ----------
    model : a registry name, or a `Recommender` class.
    trials : the budget of the whole study. The first trial is the model's default settings, so
        tuning never loses to not tuning. A model without a search space has one trial.
    storage : a file, so that a killed study resumes and several processes can share it: SQLite
        if it ends in `.db` or `.sqlite` (or is a database URL), an Optuna journal otherwise.
    space : replaces the declared search space.
    init, recipe, device : for neural models, as in `leporid.train`.
    fixed : settings that are not searched.
    timeout : seconds after which no further trial is begun (the first always is).
    rehearse : evaluate on the test part of `leporid.inner_validation_split(split)` instead of on
        validation. It is cut out of train and validation as test was cut out of everything, so it
        lies as far behind its training data as test does; validation lies next to them, and
        settings that do best there may be too close to what was learnt.
    clock : what tells the time, in seconds.
    """
    cls = get(model) if isinstance(model, str) else model
    family, cutoff = parse_metric(metric)
    if family in ("Popularity", "Gini"):
        raise ConfigError(f"{metric} is not a goal to maximise: choose NDCG@10, HR@10 or F1@10")
    if trials < 1:
        raise ConfigError(f"trials must be at least 1, not {trials}")
    if len(split.valid) == 0:
        raise DataError("the validation part of the split is empty: nothing to tune on")
    part: Part = "test" if rehearse else "valid"
    if rehearse:
        split = inner_validation_split(split)
    searched = {k: v for k, v in (space or cls.search_space).items() if k not in fixed}
    check_space(searched, {f.name for f in fields(cls.config_class)}, cls.name)
    fixed = {**cls.recipe_settings(named_recipe(cls, recipe), split.train), **fixed}
    search = _Search(cls, split, part, metric, cutoff, searched, fixed, seed, init, device, clock)
    budget = trials if searched else 1

    logging = import_optuna().logging
    with contextlib.ExitStack() as stack:
        # Optuna's own messages give way to our bar.
        stack.callback(logging.set_verbosity, logging.get_verbosity())
        logging.set_verbosity(logging.WARNING)
        stack.enter_context(storage_errors(storage))
        name = study_name or f"{cls.name}-{canonical_hash(search.question)}"
        study, workers = open_study(storage, name, search.question, search.defaults, clock)
        stack.callback(workers.close)
        ledger = Ledger(study, workers)
        reporter = make_progress(progress)
        reporter.start(f"tuning {cls.name}", budget)
        reporter.advance(len(ledger.finished()))
        deadline = math.inf if timeout is None else clock() + timeout
        while begun := ledger.begin(budget):
            search.trial(study, ledger, *begun)
            best = ledger.best()
            reporter.advance(1, **({} if best is None else {f"best {metric}": best.value}))
            if clock() >= deadline:
                break
        reporter.close()
        return _result(study, ledger, cls, metric)


@dataclass(frozen=True)
class _Search:
    """What one call of `tune` asks for."""

    cls: type[Recommender]
    split: Split
    part: Part
    metric: str
    cutoff: int
    space: SearchSpace
    fixed: dict[str, Any]
    seed: int
    init: str | InitialEmbeddings | None
    device: str | None
    clock: Callable[[], float]
    vectors: dict[int, InitialEmbeddings | None] = field(default_factory=dict)
    """Starting vectors by their length, computed once for all trials."""

    @property
    def question(self) -> dict[str, str]:
        """Trials of one study must all answer this."""
        init = self.init if isinstance(self.init, str | None) else type(self.init).__name__
        return {
            "model": self.cls.name,
            "metric": self.metric,
            "data": self.split.digest,
            "seed": str(self.seed),
            "init": str(init),
            "fixed": canonical_hash(self._complete(self.fixed)),
            "space": canonical_hash(repr(dict(self.space))),
        }

    def _complete(self, settings: Mapping[str, Any]) -> dict[str, Any]:
        return self.cls.config_class.from_dict(settings).to_dict()

    @property
    def defaults(self) -> dict[str, Any]:
        """The default settings, as far as they lie inside the space."""
        config = self._complete(self.fixed)
        return {
            name: config[name]
            for name, dimension in self.space.items()
            if config[name] in dimension and active(dimension, config)
        }

    def trial(self, study: Any, ledger: Ledger, trial: Any, place: int) -> None:
        """One trial: settings out of the space, a fit, the metric on validation."""
        optuna = import_optuna()
        # Seeded by place, so that an interrupted study goes on as if it had not been.
        study.sampler = optuna.samplers.TPESampler(
            n_startup_trials=_STARTUP_TRIALS, seed=self.seed * 100_003 + place
        )
        begun = self.clock()
        try:
            settings = {**self.fixed, **_suggest(trial, self.space)}
            trial.set_user_attr("settings", self._complete(settings))
            value = self._judge(settings)
        except LeporidError as error:
            # Settings that cannot be fitted are an outcome of the search, not its end.
            trial.set_user_attr("error", str(error))
            study.tell(trial, state=optuna.trial.TrialState.FAIL)
            return
        except BaseException:
            ledger.abandon(trial.number)
            raise
        trial.set_user_attr("seconds", self.clock() - begun)
        study.tell(trial, value)

    def _judge(self, settings: Mapping[str, Any]) -> float:
        """Fit with these settings; the metric on the part that judges."""
        vectors = None
        if self.cls.takes_initial_vectors:
            dim = self._complete(settings)["dim"]
            if dim not in self.vectors:
                self.vectors[dim] = initial_embeddings(
                    self.init, self.split.train, dim=dim, seed=self.seed
                )
            vectors = self.vectors[dim]
        options = {"seed": self.seed, "device": self.device or "auto", **settings}
        model = train(self.cls, self.split, vectors, recipe=None, progress=False, **options)
        value = evaluate(model, self.split, at=(self.cutoff,), part=self.part).mean()[self.metric]
        if not math.isfinite(value):
            raise DataError(f"{self.metric} of {self.cls.name} is not finite on validation")
        return float(value)


def _suggest(trial: Any, space: SearchSpace) -> dict[str, Any]:
    chosen: dict[str, Any] = {}
    for name, dim in space.items():
        if not active(dim, chosen):
            continue
        if isinstance(dim, Choice):
            chosen[name] = trial.suggest_categorical(name, list(dim.options))
        else:
            suggest = trial.suggest_int if isinstance(dim, Int) else trial.suggest_float
            chosen[name] = suggest(name, dim.low, dim.high, log=dim.log)
    return chosen


def _result(study: Any, ledger: Ledger, cls: type[Recommender], metric: str) -> TuningResult:
    best = ledger.best()
    if best is None:
        errors = sorted({t.user_attrs["error"] for t in study.trials if "error" in t.user_attrs})
        why = f"; the first error: {errors[0]}" if errors else ""
        raise LeporidError(f"no trial of {cls.name} gave a value{why}")
    rows = [
        {
            "number": trial.number,
            "value": trial.value,
            "seconds": trial.user_attrs.get("seconds"),
            "settings": trial.user_attrs.get("settings", trial.params),
        }
        for trial in ledger.finished()
    ]
    settings, value = best.user_attrs["settings"], float(best.value)
    return TuningResult(cls.name, metric, settings, value, rows, study.study_name)
