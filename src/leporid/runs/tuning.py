"""`tune`: the settings of a model that do best on validation, found with Optuna."""

import inspect
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path
from typing import Any

from leporid import embeddings
from leporid.arguments import checks_arguments, described
from leporid.artifacts import check_output_file
from leporid.data import Part, Split, expect, inner_validation_split
from leporid.embeddings import InitialEmbeddings, initial_embeddings
from leporid.errors import ConfigError, DataError, LeporidError, closest, import_extra
from leporid.evaluation import evaluate, parse_metric
from leporid.hashing import canonical_hash
from leporid.machine import check_device
from leporid.models import DEFAULT_RECIPE, Recommender, model_named, named_recipe, train
from leporid.progress import ProgressLike, make_progress
from leporid.runs.journal import Event, Journal
from leporid.search_space import Choice, Float, Int, SearchSpace, active, check_space

_STARTUP_TRIALS = 8
"""Trials drawn at random before the sampler (TPE) models the metric."""
_TRIAL = {
    "number": int,
    "params": dict,
    "settings": dict,
    "value": float,
    "seconds": float,
}
_FORMS = {
    "trial": _TRIAL,
    "failed trial": {"number": int, "params": dict, "error": str},
}


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


@checks_arguments({"trials": 1, "seed": 0})
def tune(
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
    **fixed: Any,
) -> TuningResult:
    """Search the space declared beside `model`, evaluated by `metric` on validation only.

    Parameters
    ----------
    model : a registry name, or a `Recommender` class.
    trials : the budget of the whole study. The first trial is the model's default settings, so
        tuning never loses to not tuning. A model without a search space has one trial.
    storage : a journal file, so that a killed study resumes and several processes can share it.
    space, fixed : replaces the declared search space; settings that are not searched.
    init, recipe, device, include_seen : as in `leporid.train`.
    inner_validation : evaluate on the test part of `leporid.inner_validation_split(split)`, which
        lies as far behind its training data as test does; validation lies next to them.
    """
    cls = model_named(model)
    _check(metric, split)
    check_device(device or "auto")
    _check_search(cls, space, fixed, init)
    if storage is not None:
        check_output_file(storage)
    split = split.including_seen(include_seen)
    part: Part = "test" if inner_validation else "valid"
    split = inner_validation_split(split) if inner_validation else split
    check_space(
        space or cls.search_space, {f.name for f in fields(cls.config_class)}, cls.name
    )
    searched = {k: v for k, v in (space or cls.search_space).items() if k not in fixed}
    fixed = {**cls.recipe_settings(named_recipe(cls, recipe), split.train), **fixed}
    defaults = cls.config_class.from_dict(fixed).to_dict()
    question = {
        "model": cls.name,
        "metric": metric,
        "data": split.digest,
        "seed": str(seed),
        "init": str(init if isinstance(init, str | None) else type(init).__name__),
        "fixed": canonical_hash(defaults),
        "space": canonical_hash(repr(dict(searched))),
    }
    name = f"{cls.name}-{canonical_hash(question)}"
    optuna = import_extra("optuna", "tuning", "tune")
    journal = Journal(_journal_file(storage), question, study=name, forms=_FORMS)
    vectors = cache(
        lambda dim: initial_embeddings(init, split.train, dim=dim, seed=seed)
    )

    def run_trial(number: int, finished: Sequence[Event]) -> None:
        begun = time.monotonic()
        chosen, params = _ask(optuna, searched, defaults, seed, finished, number)
        about = {"number": number, "params": params, "settings": {**defaults, **chosen}}
        try:
            about["settings"] = complete = cls.config_class.from_dict(
                {**fixed, **chosen}
            ).to_dict()
            own = vectors(complete["dim"]) if cls.takes_initial_vectors else None
            how: dict[str, Any] = {
                "seed": seed,
                "device": device or "auto",
                "progress": False,
            }
            fitted = train(cls, split, own, recipe=None, **how, **fixed | chosen)
            value = evaluate(
                fitted, split, at=(parse_metric(metric)[1],), part=part
            ).mean()[metric]
            if not math.isfinite(value):
                raise DataError(f"{metric} of {cls.name} is not finite on validation")
        except LeporidError as error:
            # Settings that cannot be fitted are an outcome of the search, not its end.
            journal.append("failed trial", **about, error=str(error))
        else:
            journal.append(
                "trial", **about, value=value, seconds=time.monotonic() - begun
            )

    budget = trials if searched else 1
    reporter = make_progress(progress)
    reporter.start(f"tuning {cls.name}", budget)
    reporter.advance(len(_finished(journal)))
    while _work(journal, name, budget, run_trial):
        leading = _best(_finished(journal))
        reporter.advance(1, **({f"best {metric}": leading["value"]} if leading else {}))
    reporter.close()
    return _result(_finished(journal), name, cls, metric)


def _result(
    finished: Sequence[Event], study: str, cls: type[Recommender], metric: str
) -> TuningResult:
    if (best := _best(finished)) is None:
        errors = sorted(trial["error"] for trial in finished)
        why = f"; the first error: {errors[0]}" if errors else ""
        raise LeporidError(f"no trial of {cls.name} gave a value{why}")
    names = ("number", "value", "seconds", "settings")
    rows = [{name: trial.get(name) for name in names} for trial in finished]
    return TuningResult(cls.name, metric, best["settings"], best["value"], rows, study)


def _check_search(
    cls: type[Recommender], space: object, fixed: Mapping[str, object], init: object
) -> None:
    """Refuse a search space that is none, and names that neither `tune` nor the model has."""
    if init not in (None, "none") and not cls.takes_initial_vectors:
        raise ConfigError(
            f"{cls.name} has no embedding tables to fill: leave `init` out"
        )
    if init is not None and not isinstance(init, str | InitialEmbeddings):
        raise ConfigError(
            f"init must be the name of an initialiser, InitialEmbeddings or None, not "
            f"{described(init)}"
        )
    if isinstance(init, str) and init != "none":
        embeddings.get(init)
    if space is not None:
        if not isinstance(space, Mapping):
            raise ConfigError(
                f"space must be a dictionary of ranges, not {described(space)}"
            )
        for name, dimension in space.items():
            if not isinstance(dimension, Choice | Int | Float):
                raise ConfigError(
                    f"space[{name!r}] must be Int(low, high), Float(low, high) or Choice(...) of "
                    f"leporid.search_space, not {described(dimension)}"
                )
    own, arguments = cls.config_class().to_dict(), inspect.signature(tune).parameters
    for name in fixed.keys() - own.keys():
        if (guess := closest(name, [*own, *arguments])) in arguments:
            raise ConfigError(f"tune has no argument {name!r}: did you mean {guess!r}?")


def _check(metric: str, split: Split) -> None:
    expect(split, Split, "tune(model, split)")
    if parse_metric(metric)[0] in ("Popularity", "Gini"):
        raise ConfigError(
            f"{metric} is not a goal to maximise: choose NDCG@10, HR@10 or F1@10"
        )
    if len(split.valid.goals) == 0:
        raise DataError("the validation part of the split is empty: nothing to tune on")


def _journal_file(storage: str | Path | None) -> Path | None:
    """The file of the studies; a storage of Optuna's own is refused."""
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


def _finished(journal: Journal) -> list[Event]:
    """The finished trials in their order, failed ones too."""
    trials = {event["number"]: event for event in journal.of(*_FORMS)}
    return [trials[number] for number in sorted(trials)]


def _best(finished: Sequence[Event]) -> Event | None:
    """The best trial (the earliest of equals); None where no trial gave a value."""
    done = [trial for trial in finished if trial["event"] == "trial"]
    return max(done, key=lambda trial: trial["value"], default=None)


def _work(
    journal: Journal,
    name: str,
    budget: int,
    run_trial: Callable[[int, Sequence[Event]], None],
) -> bool:
    """Run the first trial that no other process runs; False where none is left."""
    journal.reload()
    done = {finished["number"] for finished in _finished(journal)}
    for number in (n for n in range(budget) if n not in done):
        with journal.claim(f"{canonical_hash(name)}-{number}") as mine:
            journal.reload()
            finished = _finished(journal)
            if mine and all(other["number"] != number for other in finished):
                run_trial(number, finished)
                return True
    return False


def _ask(
    optuna: Any,
    space: SearchSpace,
    defaults: Mapping[str, Any],
    seed: int,
    finished: Sequence[Event],
    number: int,
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The settings that the sampler asks for, and the same as Optuna has them.

    The sampler is seeded by the number of the trial and sees the finished ones, so that an
    interrupted study goes on as if it had not been. The first trial has the `defaults`, as far as
    they lie inside the space. Optuna has options by their position, as JSON keeps it.
    """
    kinds = optuna.distributions
    space_of: dict[str, Any] = {}
    for name, dim in space.items():
        if isinstance(dim, Choice):
            space_of[name] = kinds.CategoricalDistribution(range(len(dim.options)))
        else:
            kind = (
                kinds.IntDistribution
                if isinstance(dim, Int)
                else kinds.FloatDistribution
            )
            space_of[name] = kind(dim.low, dim.high, log=dim.log)
    sampler = optuna.samplers.TPESampler(
        n_startup_trials=_STARTUP_TRIALS, seed=seed * 100_003 + number
    )
    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(
        optuna.logging.WARNING
    )  # its messages give way to our bar
    study = optuna.create_study(direction="maximize", sampler=sampler)
    optuna.logging.set_verbosity(before)
    for trial in finished:
        failed = trial["event"] == "failed trial"
        own = {name: value for name, value in trial["params"].items() if name in space}
        study.add_trial(
            optuna.trial.create_trial(
                state=optuna.trial.TrialState["FAIL" if failed else "COMPLETE"],
                params=own,
                distributions={name: space_of[name] for name in own},
                value=None if failed else trial["value"],
            )
        )
    if number == 0:
        inside = {
            n: d for n, d in space.items() if defaults[n] in d and active(d, defaults)
        }
        position = {
            n: d.options.index for n, d in inside.items() if isinstance(d, Choice)
        }
        study.enqueue_trial(
            {
                n: position[n](defaults[n]) if n in position else defaults[n]
                for n in inside
            }
        )
    chosen: dict[str, Any] = {}
    # A condition may be about a setting that is not searched.
    given = {name: value for name, value in defaults.items() if name not in space}
    trial = study.ask()
    for name, dim in space.items():
        if not active(dim, {**given, **chosen}):
            continue
        if isinstance(dim, Choice):
            chosen[name] = dim.options[
                trial.suggest_categorical(name, range(len(dim.options)))
            ]
        else:
            suggest = trial.suggest_int if isinstance(dim, Int) else trial.suggest_float
            chosen[name] = suggest(name, dim.low, dim.high, log=dim.log)
    return chosen, trial.params
