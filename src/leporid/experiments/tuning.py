"""`tune`: the settings of a model that do best on validation, found with Optuna."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from leporid._deprecated import renamed_arguments
from leporid.config import canonical_hash
from leporid.data import Part, Split, inner_validation_split
from leporid.errors import ConfigError, DataError, LeporidError, import_extra
from leporid.evaluation import evaluate, parse_metric
from leporid.experiments.journal import Event, Journal
from leporid.initializers import InitialEmbeddings, initial_embeddings
from leporid.models import DEFAULT_RECIPE, Recommender, get, named_recipe, train
from leporid.progress import ProgressLike, make_progress
from leporid.space import Choice, Dimension, Int, SearchSpace, active, check_space

_STARTUP_TRIALS = 8
"""Trials drawn at random before the sampler (TPE) models the metric."""
_TRIAL = {"number": int, "params": dict, "settings": dict, "value": float, "seconds": float}
_FORMS = {"trial": _TRIAL, "failed trial": {"number": int, "params": dict, "error": str}}


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


@renamed_arguments(rehearse="inner_validation")
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
    inner_validation: bool = False,
    clock: Callable[[], float] = time.monotonic,
    **fixed: Any,
) -> TuningResult:
    """Search the space declared beside `model`, evaluated by `metric` on validation only.

    Parameters
    ----------
    model : a registry name, or a `Recommender` class.
    trials : the budget of the whole study. The first trial is the model's default settings, so
        tuning never loses to not tuning. A model without a search space has one trial.
    storage : a journal file, so that a killed study resumes and several processes can share it.
    space : replaces the declared search space.
    init, recipe, device : for neural models, as in `leporid.train`.
    fixed : settings that are not searched.
    timeout : seconds after which no further trial is begun (the first always is).
    inner_validation : evaluate on the test part of `leporid.inner_validation_split(split)` instead
        of on validation. It lies as far behind its training data as test does; validation lies
        next to them.
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
    part: Part = "test" if inner_validation else "valid"
    if inner_validation:
        split = inner_validation_split(split)
    searched = {k: v for k, v in (space or cls.search_space).items() if k not in fixed}
    check_space(searched, {f.name for f in fields(cls.config_class)}, cls.name)
    fixed = {**cls.recipe_settings(named_recipe(cls, recipe), split.train), **fixed}
    search = _Search(cls, split, part, metric, cutoff, searched, fixed, seed, init, device, clock)
    name = study_name or f"{cls.name}-{canonical_hash(search.question)}"
    _import_optuna()
    journal = Journal(_journal_file(storage), search.question, study=name, forms=_FORMS)
    budget = trials if searched else 1
    reporter = make_progress(progress)
    reporter.start(f"tuning {cls.name}", budget)
    reporter.advance(len(_finished(journal)))
    deadline = math.inf if timeout is None else clock() + timeout
    while _work(search, journal, name, budget):
        best = _best(_finished(journal))
        reporter.advance(1, **({} if best is None else {f"best {metric}": best["value"]}))
        if clock() >= deadline:
            break
    reporter.close()
    return _result(_finished(journal), name, cls, metric)


def _journal_file(storage: str | Path | None) -> Path | None:
    """Refuse what kept studies before 0.8."""
    if storage is None:
        return None
    path = Path(storage)
    old = "://" in str(storage) or path.suffix in {".db", ".sqlite", ".sqlite3"}
    if path.is_file():
        with open(path, "rb") as file:
            old |= b'"op_code"' in file.readline()  # a journal of Optuna
    if old:
        raise ConfigError(
            f"studies are kept in a journal file since 0.8, and {storage} is none; give a file "
            f"such as study.jsonl"
        )
    return path


def _finished(journal: Journal) -> list[Event]:
    """The finished trials in their order, failed ones too."""
    trials = {event["number"]: event for event in journal.of(*_FORMS)}
    return [trials[number] for number in sorted(trials)]


def _best(finished: Sequence[Event]) -> Event | None:
    """The best trial (the earliest of equals); None where no trial gave a value."""
    done = [trial for trial in finished if trial["event"] == "trial"]
    return max(done, key=lambda trial: trial["value"], default=None)


def _work(search: _Search, journal: Journal, name: str, budget: int) -> bool:
    """Run the first trial that no other process runs; False where none is left."""
    journal.reload()
    done = {trial["number"] for trial in _finished(journal)}
    for number in range(budget):
        if number not in done:
            with journal.claim(f"{canonical_hash(name)}-{number}") as mine:
                journal.reload()
                finished = _finished(journal)
                if mine and all(trial["number"] != number for trial in finished):
                    search.trial(journal, finished, number)
                    return True
    return False


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
    """Initial embeddings by their length, computed once for all trials."""

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
    def _defaults(self) -> dict[str, Any]:
        """The default settings, as far as they lie inside the space, as Optuna has them."""
        config = self._complete(self.fixed)
        return {
            name: dim.options.index(config[name]) if isinstance(dim, Choice) else config[name]
            for name, dim in self.space.items()
            if config[name] in dim and active(dim, config)
        }

    def trial(self, journal: Journal, finished: Sequence[Event], number: int) -> None:
        """One trial: settings out of the space, a fit, the metric on validation."""
        begun = self.clock()
        chosen, params = self._ask(finished, number)
        about = {"number": number, "params": params}
        try:
            settings = {**self.fixed, **chosen}
            complete = self._complete(settings)
            value = self._evaluate(settings)
        except LeporidError as error:
            # Settings that cannot be fitted are an outcome of the search, not its end.
            about |= {"settings": {**self._complete(self.fixed), **chosen}, "error": str(error)}
            journal.append("failed trial", **about)
        else:
            seconds = self.clock() - begun
            journal.append("trial", **about, settings=complete, value=value, seconds=seconds)

    def _ask(self, finished: Sequence[Event], number: int) -> tuple[dict[str, Any], dict[str, Any]]:
        """The settings that the sampler asks for, and the same as Optuna has them.

        The sampler is seeded by the number of the trial and sees the finished ones, so that an
        interrupted study goes on as if it had not been.
        """
        optuna = _import_optuna()
        sampler = optuna.samplers.TPESampler(
            n_startup_trials=_STARTUP_TRIALS, seed=self.seed * 100_003 + number
        )
        before = optuna.logging.get_verbosity()
        optuna.logging.set_verbosity(optuna.logging.WARNING)  # its messages give way to our bar
        study = optuna.create_study(direction="maximize", sampler=sampler)
        optuna.logging.set_verbosity(before)
        for trial in finished:
            failed = trial["event"] == "failed trial"
            own = {name: value for name, value in trial["params"].items() if name in self.space}
            study.add_trial(
                optuna.trial.create_trial(
                    state=optuna.trial.TrialState["FAIL" if failed else "COMPLETE"],
                    params=own,
                    distributions={name: _distribution(self.space[name]) for name in own},
                    value=None if failed else trial["value"],
                )
            )
        if number == 0:
            study.enqueue_trial(self._defaults)
        chosen: dict[str, Any] = {}
        trial = study.ask()
        for name, dim in self.space.items():
            if not active(dim, chosen):
                continue
            if isinstance(dim, Choice):
                place = trial.suggest_categorical(name, range(len(dim.options)))
                chosen[name] = dim.options[place]
            else:
                suggest = trial.suggest_int if isinstance(dim, Int) else trial.suggest_float
                chosen[name] = suggest(name, dim.low, dim.high, log=dim.log)
        return chosen, trial.params

    def _evaluate(self, settings: Mapping[str, Any]) -> float:
        """Fit with these settings; the metric on `part`."""
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


def _distribution(dim: Dimension) -> Any:
    """A dimension of the space as Optuna has it; options by their position, as JSON keeps it."""
    kinds = _import_optuna().distributions
    if isinstance(dim, Choice):
        return kinds.CategoricalDistribution(range(len(dim.options)))
    kind = kinds.IntDistribution if isinstance(dim, Int) else kinds.FloatDistribution
    return kind(dim.low, dim.high, log=dim.log)


def _import_optuna() -> Any:
    return import_extra("optuna", "tuning", "tune")


def _result(
    finished: Sequence[Event], study: str, cls: type[Recommender], metric: str
) -> TuningResult:
    best = _best(finished)
    if best is None:
        errors = sorted(trial["error"] for trial in finished)
        why = f"; the first error: {errors[0]}" if errors else ""
        raise LeporidError(f"no trial of {cls.name} gave a value{why}")
    names = ("number", "value", "seconds", "settings")
    rows = [{name: trial.get(name) for name in names} for trial in finished]
    return TuningResult(cls.name, metric, best["settings"], best["value"], rows, study)
