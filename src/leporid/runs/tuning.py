"""`tune`: the settings of a model that do best on validation, found with Optuna."""

from __future__ import annotations

import inspect
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from pathlib import Path
from types import ModuleType
from typing import TypedDict

from leporid import embeddings
from leporid.data import Part, Split, inner_validation_split
from leporid.embeddings import EmbeddingSpec, InitialEmbeddings
from leporid.errors import (
    ConfigError,
    DataError,
    LeporidError,
    TrainingInterruptedError,
    closest,
    import_extra,
)
from leporid.evaluation import evaluate, parse_metric
from leporid.foundation import (
    Config,
    Float,
    Int,
    OneOf,
    ProgressLike,
    SearchSpace,
    SettingValue,
    canonical_hash,
    check_device,
    check_output_file,
    check_space,
    checks_arguments,
    described,
    duration,
    make_progress,
    signal_of,
)
from leporid.models import (
    DEFAULT_RECIPE,
    FitContext,
    ModelSpec,
    Recommender,
    fit,
    model_named,
    named_recipe,
)
from leporid.runs.journal import Event, Journal, Schema
from leporid.runs.proposals import FinishedTrial, propose

_TRIAL = "trial"
_FAILED_TRIAL = "failed trial"
_SCHEMAS: dict[str, Schema] = {
    _TRIAL: {
        "number": int,
        "params": dict,
        "settings": dict,
        "value": float,
        "seconds": float,
    },
    _FAILED_TRIAL: {"number": int, "params": dict, "error": str},
}


class TrialRow(TypedDict):
    """A finished trial."""

    number: int
    value: float | None
    """The metric on validation; None if the settings could not be fitted."""
    seconds: float | None
    settings: dict[str, SettingValue]


@dataclass(frozen=True)
class TuningResult:
    """The outcome of a study."""

    model: str
    metric: str
    best_config: dict[str, SettingValue]
    """All settings of the best trial: pass them to the model as they are."""
    best_value: float
    """The metric on validation."""
    trials: list[TrialRow]
    """One row per finished trial: `number`, `value` (None if it failed), `seconds`, `settings`."""
    study: str
    """Name of the study in its storage."""


@checks_arguments({"trials": 1, "seed": 0})
def tune(  # noqa: PLR0913 (options are spelled out)
    model: str | type[Recommender],
    split: Split,
    trials: int = 20,
    metric: str = "NDCG@10",
    *,
    seed: int = 0,
    storage: str | Path | None = None,
    space: SearchSpace | None = None,
    init: str | InitialEmbeddings | None = None,
    recipe: str | None = DEFAULT_RECIPE,
    device: str | None = None,
    progress: bool | ProgressLike | None = None,
    inner_validation: bool = False,
    include_seen: bool | None = None,
    **fixed: SettingValue,
) -> TuningResult:
    """Search the space declared beside `model`, evaluated by `metric` on validation only.

    Ctrl-C or SIGTERM ends it with a `TrainingInterruptedError` whose `so_far` is the result of the
    finished trials.

    Parameters
    ----------
    model : a registry name, or a `Recommender` class.
    trials : the budget of the whole study. The first trial is the model's default settings, so
        tuning never loses to not tuning. A model without a search space has one trial.
    storage : a journal file, so that a killed study resumes and several processes can share it.
    space, fixed : replaces the declared search space; settings that are not searched.
    init, recipe, device, include_seen : as in `leporid.train`.
    progress : a line per trial at most, with the best value and that of the default settings
    inner_validation : evaluate on the test part of `leporid.inner_validation_split(split)`, which
        lies as far behind its training data as test does; validation lies next to them.
    """
    model_class = model_named(model)
    check_goal(metric, split)
    check_device(device or "auto")
    check_init(model_class, init)
    check_ranges(space)
    check_names(model_class, fixed)
    if storage is not None:
        check_output_file(storage)
    split = split.including_seen(include_seen)
    if inner_validation:
        split = inner_validation_split(split)
    space = space or model_class.search_space
    settings = {each.name for each in fields(model_class.config_class)}
    check_space(space, settings, model_class.name)
    base = model_class.recipe_settings(named_recipe(model_class, recipe), split.train)
    if isinstance(init, InitialEmbeddings):
        base["dim"] = init.users.dim

    study = Study(
        model_class=model_class,
        split=split,
        part="test" if inner_validation else "valid",
        metric=metric,
        seed=seed,
        space={name: space[name] for name in space if name not in fixed},
        fixed={**base, **fixed},
        init=init,
        device=device or "auto",
    )
    optuna = import_extra("optuna", "tuning", "tune")
    journal = Journal(
        journal_file(storage), study.question, study=study.name, schemas=_SCHEMAS
    )
    budget = trials if study.space else 1
    reporter = make_progress(progress)
    reporter.start(f"tuning {model_class.name}", budget)
    reporter.advance(len(finished_trials(journal)))
    try:
        while run_next_trial(study, journal, budget, optuna):
            note = study_note(finished_trials(journal), budget, metric)
            reporter.advance(1, note=note)
    except (KeyboardInterrupt, TrainingInterruptedError) as error:
        raise interrupted_study(
            study, finished_trials(journal), budget, storage, error
        ) from None
    finally:
        reporter.close()
    return result_of(study, finished_trials(journal))


def study_note(finished: Sequence[FinishedTrial], budget: int, metric: str) -> str:
    """Say how far a study is, what is best, and against which default."""
    note = f"{len(finished)} of {budget} trials"
    best = best_trial(finished)
    if best is not None and best.value is not None:
        note += f", best {metric} {best.value:.4f} in trial {best.number}"
    default = finished[0].value
    if default is not None:
        note += f" (default settings: {default:.4f})"
    seconds = [trial.seconds for trial in finished if trial.seconds is not None]
    left = budget - len(finished)
    if seconds and left:
        note += f"; about {duration(left * sum(seconds) / len(seconds))} left"
    return note


def interrupted_study(
    study: Study,
    finished: Sequence[FinishedTrial],
    budget: int,
    storage: str | Path | None,
    error: BaseException,
) -> TrainingInterruptedError:
    """Return the error of a study that somebody interrupted, with the best trial so far."""
    has_value = best_trial(finished) is not None
    advice = "give a `storage` to be able to go on"
    if storage is not None:
        advice = f"the same study with the storage {storage} goes on from there"
    return TrainingInterruptedError(
        f"the study of {study.model_class.name} ended after {len(finished)} of {budget} trials; "
        f"{advice}",
        signal_of(error),
        result_of(study, finished) if has_value else None,
    )


@dataclass(frozen=True, kw_only=True)
class Study:
    """What is searched: which settings of a model do best on a held-out part."""

    model_class: type[Recommender]
    split: Split
    part: Part
    """The part of the split that settings are evaluated on."""
    metric: str
    seed: int
    space: SearchSpace
    """The settings that are searched."""
    fixed: dict[str, SettingValue]
    """Settings that are not searched."""
    init: str | InitialEmbeddings | None
    device: str
    _vectors: dict[int, InitialEmbeddings] = field(default_factory=dict)
    """Initial embeddings by dimension, computed once for all trials."""

    @cached_property
    def defaults(self) -> dict[str, SettingValue]:
        """All settings of the model before anything is searched."""
        return self.model_class.config_class.from_dict(self.fixed).to_dict()

    @cached_property
    def question(self) -> dict[str, str]:
        """What a journal of this study was made for."""
        init = self.init
        return {
            "model": self.model_class.name,
            "metric": self.metric,
            "data": self.split.digest,
            "seed": str(self.seed),
            "init": str(init if isinstance(init, str | None) else type(init).__name__),
            "fixed": canonical_hash(self.defaults),
            "space": canonical_hash(repr(dict(self.space))),
        }

    @property
    def name(self) -> str:
        """Name of the study in its storage, which other studies may share."""
        return f"{self.model_class.name}-{canonical_hash(self.question)}"

    def evaluate(self, config: Config) -> float:
        """Fit the model with these settings; return its metric."""
        spec = ModelSpec(
            self.model_class, config, init=self.vectors(config), seed=self.seed
        )
        fitted = fit(spec, self.split, FitContext(device=self.device))
        cutoff = parse_metric(self.metric)[1]
        table = evaluate(fitted, self.split, at=(cutoff,), part=self.part)
        value = table.mean()[self.metric]
        if not math.isfinite(value):
            raise DataError(
                f"{self.metric} of {spec.model} is not finite on validation"
            )
        return value

    def vectors(self, config: Config) -> InitialEmbeddings | None:
        """Return the initial embeddings for these settings; None for closed-form models."""
        if not self.model_class.takes_initial_vectors:
            return None
        if isinstance(self.init, InitialEmbeddings):
            return self.init
        if self.init is None or self.init == "none":
            return None
        dim = config.to_dict()["dim"]
        if dim not in self._vectors:
            settings = {"dim": dim, "seed": self.seed}
            spec = EmbeddingSpec.resolve(self.init, settings, use_cache=True)
            self._vectors[dim] = spec.fit(self.split.train)
        return self._vectors[dim]


def run_next_trial(
    study: Study, journal: Journal, budget: int, optuna: ModuleType
) -> bool:
    """Run the first trial that no other process runs; tell whether there was one."""
    journal.reload()
    done = {trial.number for trial in finished_trials(journal)}
    for number in range(budget):
        if number in done:
            continue
        with journal.try_lock(f"{canonical_hash(study.name)}-{number}") as mine:
            journal.reload()
            finished = finished_trials(journal)
            if mine and all(trial.number != number for trial in finished):
                run_trial(study, journal, number, finished, optuna)
                return True
    return False


def run_trial(
    study: Study,
    journal: Journal,
    number: int,
    finished: Sequence[FinishedTrial],
    optuna: ModuleType,
) -> None:
    """Fit and evaluate the settings that are proposed, and write the outcome into the journal."""
    begun = time.monotonic()
    proposal = propose(
        optuna, study.space, study.defaults, study.seed, finished, number
    )
    params = proposal.params
    settings = {**study.defaults, **proposal.settings}
    try:
        config = study.model_class.config_class.from_dict(
            {**study.fixed, **proposal.settings}
        )
        settings = config.to_dict()
        value = study.evaluate(config)
    except TrainingInterruptedError:
        raise
    except LeporidError as error:
        # Settings that cannot be fitted are an outcome of the search, not its end.
        journal.append(
            _FAILED_TRIAL,
            number=number,
            params=params,
            settings=settings,
            error=str(error),
        )
    else:
        journal.append(
            _TRIAL,
            number=number,
            params=params,
            settings=settings,
            value=value,
            seconds=time.monotonic() - begun,
        )


def finished_trials(journal: Journal) -> list[FinishedTrial]:
    """Return the finished trials in their order, failed ones too."""
    events = {event["number"]: event for event in journal.of(_TRIAL, _FAILED_TRIAL)}
    return [trial_of(events[number]) for number in sorted(events)]


def trial_of(event: Event) -> FinishedTrial:
    """Return the trial that an event of the journal tells of."""
    return FinishedTrial(
        number=event["number"],
        params=event["params"],
        settings=event.get("settings", {}),
        value=event.get("value"),
        seconds=event.get("seconds"),
        error=event.get("error", ""),
    )


def best_trial(finished: Sequence[FinishedTrial]) -> FinishedTrial | None:
    """Return the best trial (the earliest of equals); None if no trial gave a value."""
    best = None
    best_value = -math.inf
    for trial in finished:
        if trial.value is not None and trial.value > best_value:
            best = trial
            best_value = trial.value
    return best


def result_of(study: Study, finished: Sequence[FinishedTrial]) -> TuningResult:
    """Return what a study has found; an error if no trial gave a value."""
    model = study.model_class.name
    best = best_trial(finished)
    if best is None or best.value is None:
        errors = sorted(trial.error for trial in finished)
        why = f"; the first error: {errors[0]}" if errors else ""
        raise LeporidError(f"no trial of {model} gave a value{why}")
    rows: list[TrialRow] = [
        {
            "number": trial.number,
            "value": trial.value,
            "seconds": trial.seconds,
            "settings": trial.settings,
        }
        for trial in finished
    ]
    return TuningResult(
        model, study.metric, best.settings, best.value, rows, study.name
    )


def check_goal(metric: str, split: Split) -> None:
    """Refuse a metric that nobody maximises, and a split without a validation part."""
    if parse_metric(metric)[0] in ("Popularity", "Gini"):
        raise ConfigError(
            f"{metric} is not a goal to maximise: choose NDCG@10, HR@10 or F1@10"
        )
    if len(split.valid.target_events) == 0:
        raise DataError("the validation part of the split is empty: nothing to tune on")


def check_init(
    model_class: type[Recommender], init: str | InitialEmbeddings | None
) -> None:
    """Refuse an initialisation that does not exist or that the model has no use for."""
    if init not in (None, "none") and not model_class.takes_initial_vectors:
        raise ConfigError(
            f"{model_class.name} has no embedding tables to fill: leave `init` out"
        )
    if init is not None and not isinstance(init, str | InitialEmbeddings):
        raise ConfigError(
            f"init must be the name of an initialiser, InitialEmbeddings or None, not "
            f"{described(init)}"
        )
    if isinstance(init, str) and init != "none":
        embeddings.get(init)


def check_ranges(space: SearchSpace | None) -> None:
    """Refuse a search space that is none."""
    if space is None:
        return
    if not isinstance(space, Mapping):
        raise ConfigError(
            f"space must be a dictionary of ranges, not {described(space)}"
        )
    for name, dimension in space.items():
        if not isinstance(dimension, OneOf | Int | Float):
            raise ConfigError(
                f"space[{name!r}] must be Int(low, high), Float(low, high) or OneOf(...) of "
                f"leporid.foundation, not {described(dimension)}"
            )


def check_names(
    model_class: type[Recommender], fixed: Mapping[str, SettingValue]
) -> None:
    """Refuse an unknown setting whose name is nearest to that of an argument of `tune`."""
    settings = model_class.config_class().to_dict()
    arguments = inspect.signature(tune).parameters
    for name in fixed.keys() - settings.keys():
        guess = closest(name, [*settings, *arguments])
        if guess in arguments:
            raise ConfigError(f"tune has no argument {name!r}: did you mean {guess!r}?")


def journal_file(storage: str | Path | None) -> Path | None:
    """Return the file of the studies; a storage of Optuna's own is refused."""
    if storage is None:
        return None
    path = Path(storage)
    is_database = "://" in str(storage) or path.suffix in {".db", ".sqlite", ".sqlite3"}
    if is_database or (path.is_file() and b'"op_code"' in path.read_bytes()):
        raise ConfigError(
            f"{storage} is a storage of Optuna, and studies are kept in a journal of their own: "
            f"give a file such as study.jsonl"
        )
    return path
