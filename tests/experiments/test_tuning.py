"""Tuning: validation only, a budget that survives a kill and is shared, seeded, resumable.

Studies that are killed at every step are in test_tuning_workers.py.
"""

from __future__ import annotations

import errno
import multiprocessing
import os
import signal
import sys
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

import leporid
from leporid.data import Split
from leporid.errors import (
    ConfigError,
    DataError,
    LeporidError,
    MissingExtraError,
    TrainingInterruptedError,
    UnknownNameError,
)
from leporid.foundation import Float, Int, NullProgress, OneOf, sigterm_interrupts
from leporid.models import FitContext, fit, train
from leporid.models.closed_form.ease import EASE
from leporid.runs import Journal, TuningResult, tune
from leporid.runs import tuning as study_module
from tests.test_contract import make_split
from tests.training.toy import Dot


class Counted(EASE):
    """EASE that counts its fits, and can be told to die or to fail."""

    fits: ClassVar[list[float]] = []
    die_after: ClassVar[int | None] = None

    def _fit(self, split: Split, seed: int, context: FitContext) -> None:
        if self.die_after is not None and len(self.fits) >= self.die_after:
            os.kill(os.getpid(), signal.SIGKILL)
        self.fits.append(self.config.l2)
        super()._fit(split, seed, context)


@pytest.fixture(autouse=True)
def _fresh_count() -> None:
    Counted.fits.clear()
    Counted.die_after = None


def test_the_best_settings_are_those_with_the_best_validation_value() -> None:
    split = make_split()
    result = tune("ease", split, trials=12, metric="NDCG@3", seed=1)
    assert result.model == "ease"
    assert len(result.trials) == 12
    assert result.best_value == max(trial["value"] for trial in result.trials)
    for trial in result.trials:
        model = EASE(**trial["settings"]).fit(split)
        value = leporid.evaluate(model, split, at=(3,), part="valid").mean()["NDCG@3"]
        assert trial["value"] == pytest.approx(value)
    assert result.trials[0]["settings"] == EASE().config.to_dict()
    assert len({trial["settings"]["l2"] for trial in result.trials}) == 12


def test_the_test_part_does_not_matter() -> None:
    split = make_split()
    empty = split.test.select(np.zeros(len(split.test), dtype=bool))
    blind = Split(split.train, split.valid, empty, split.protocol)
    values = [
        [t["value"] for t in tune("ease", s, trials=4, seed=1).trials] for s in (split, blind)
    ]
    assert values[0] == values[1]


def test_inner_validation_evaluates_on_the_test_part_of_the_inner_split() -> None:
    split = leporid.temporal_split(make_split().train_valid)
    again = leporid.inner_validation_split(split)
    result = tune("ease", split, trials=3, metric="NDCG@3", seed=1, inner_validation=True)
    for trial in result.trials:
        model = EASE(**trial["settings"]).fit(again)
        value = leporid.evaluate(model, again, at=(3,), part="test").mean()["NDCG@3"]
        assert trial["value"] == pytest.approx(value)
    assert result.study != tune("ease", split, trials=1, metric="NDCG@3", seed=1).study


def test_the_test_part_does_not_matter_to_inner_validation_either() -> None:
    split = leporid.temporal_split(make_split().train_valid)
    other = split.test.select(np.arange(len(split.test)) % 2 == 0)
    values = [
        [t["value"] for t in tune("ease", s, trials=3, seed=1, inner_validation=True).trials]
        for s in (split, Split(split.train, split.valid, other, split.protocol))
    ]
    assert values[0] == values[1]


def test_initial_vectors_are_computed_once_for_all_trials(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEPORID_CACHE", "off")
    maker = leporid.initializers.get("svd")
    plain, fits = maker.fit, []

    def fit(self: Any, *given: Any, **options: Any) -> Any:
        fits.append(self)
        return plain(self, *given, **options)

    monkeypatch.setattr(maker, "fit", fit)
    settings = {"dim": 4, "steps": 3, "eval_every": 0, "batch_size": 16}
    result = tune("bpr", make_split(), trials=3, init="svd", device="cpu", **settings)
    assert len(result.trials) == 3
    assert len(fits) == 1


def test_vectors_of_a_trial_are_those_of_a_training(monkeypatch: pytest.MonkeyPatch) -> None:
    """Vectors for a model of one's own adapt; those of the library's models do not."""
    monkeypatch.setenv("LEPORID_CACHE", "off")
    maker = leporid.initializers.get("leporid")
    plain, fitted = maker.fit, []

    def fit(self: Any, *given: Any, **options: Any) -> Any:
        fitted.append(self.config)
        return plain(self, *given, **options)

    monkeypatch.setattr(maker, "fit", fit)
    quick: dict[str, Any] = {"dim": 4, "steps": 2, "eval_every": 0, "device": "cpu"}
    tune("bpr", make_split(), trials=1, init="leporid", **quick)
    train("bpr", make_split(), init="leporid", progress=False, recipe=None, **quick)
    assert [config.alpha for config in fitted] == [0.5, 0.5]
    assert fitted[0].replace(seed=0) == fitted[1].replace(seed=0)


def test_the_same_seed_searches_the_same_settings() -> None:
    split = make_split()
    runs = [tune("rp3beta", split, trials=11, seed=seed) for seed in (5, 5, 6)]
    assert [t["settings"] for t in runs[0].trials] == [t["settings"] for t in runs[1].trials]
    assert [t["settings"] for t in runs[0].trials] != [t["settings"] for t in runs[2].trials]


def test_fixed_settings_are_kept_and_conditions_obeyed() -> None:
    result = tune("itemknn", make_split(), trials=10, seed=0, shrink=2.5)
    for trial in result.trials:
        settings = trial["settings"]
        assert settings["shrink"] == 2.5
        if settings["similarity"] != "tversky":
            assert settings["tversky_alpha"] == 1.0
        if settings["similarity"] != "asymmetric_cosine":
            assert settings["asymmetric_alpha"] == 0.5
    assert len({trial["settings"]["similarity"] for trial in result.trials}) > 1


def test_a_fixed_setting_decides_what_depends_on_it() -> None:
    for similarity, searched in (("tversky", True), ("dice", False)):
        result = tune("itemknn", make_split(), trials=6, seed=2, similarity=similarity)
        found = {trial["settings"]["tversky_alpha"] for trial in result.trials}
        assert (len(found) > 1) == searched
        assert {trial["settings"]["similarity"] for trial in result.trials} == {similarity}


def test_a_stored_study_goes_on_as_if_it_had_not_stopped(tmp_path: Path) -> None:
    split = make_split()
    whole = tune("ease", split, trials=9, seed=2)
    path = tmp_path / "deep" / "study.jsonl"
    part = tune(Counted, split, trials=5, seed=2, storage=path)
    assert len(part.trials) == len(Counted.fits) == 5
    rest = tune(Counted, split, trials=9, seed=2, storage=path)
    assert len(Counted.fits) == 9
    assert [t["settings"] for t in rest.trials] == [t["settings"] for t in whole.trials]
    again = tune(Counted, split, trials=9, seed=2, storage=path)
    assert len(Counted.fits) == 9
    assert again == rest


def _tune_and_die(path: Path) -> None:
    Counted.die_after = 3
    tune(Counted, make_split(), trials=8, seed=2, storage=path)


def test_a_killed_study_loses_one_trial_and_repeats_it(tmp_path: Path) -> None:
    path = tmp_path / "study.jsonl"
    child = multiprocessing.get_context("spawn").Process(target=_tune_and_die, args=(path,))
    child.start()
    child.join()
    assert child.exitcode == -signal.SIGKILL
    split = make_split()
    resumed = tune(Counted, split, trials=8, seed=2, storage=path)
    assert len(Counted.fits) == 5
    whole = tune("ease", split, trials=8, seed=2)
    assert [t["settings"] for t in resumed.trials] == [t["settings"] for t in whole.trials]


def _tune_quietly(path: Path) -> None:
    tune("ease", make_split(), trials=10, seed=2, storage=path)


@pytest.mark.slow
def test_processes_share_one_budget(tmp_path: Path) -> None:
    path = tmp_path / "study.jsonl"
    context = multiprocessing.get_context("spawn")
    children = [context.Process(target=_tune_quietly, args=(path,)) for _ in range(2)]
    for child in children:
        child.start()
    for child in children:
        child.join()
        assert child.exitcode == 0
    result = tune(Counted, make_split(), trials=10, seed=2, storage=path)
    assert len(Counted.fits) == 0
    assert len(result.trials) == 10
    assert len({t["settings"]["l2"] for t in result.trials}) == 10


def test_settings_that_cannot_be_fitted_are_counted_and_not_chosen() -> None:
    split = make_split()
    space = {"max_items": Int(15, 18)}
    result = tune("turbocf", split, trials=10, seed=0, space=space, filter="third_order")
    failed = [t for t in result.trials if t["value"] is None]
    assert failed
    assert all(t["settings"]["max_items"] < 17 for t in failed)
    assert result.best_config["max_items"] >= 17
    with pytest.raises(LeporidError, match=r"no trial of turbocf gave a value.*raise max_items"):
        tune("turbocf", split, trials=2, space={"max_items": Int(3, 4)})


def test_neural_models_are_trained_from_the_initialiser_and_recipe_asked_for() -> None:
    quick: dict[str, Any] = {"dim": 4, "steps": 2, "batch_size": 8, "recipe": "paper"}
    space = {"lr": Float(1e-4, 1e-2, log=True)}
    result = tune(
        "dlr2", make_split(), trials=2, space=space, init="svd", device="cpu", seed=3, **quick
    )
    assert result.best_config["dim"] == 4
    assert len({t["settings"]["lr"] for t in result.trials}) == 2
    with pytest.raises(UnknownNameError, match="recipe of dlr2"):
        tune("dlr2", make_split(), trials=1, recipe="papier")
    with pytest.raises(ConfigError, match="no recipes"):
        tune("ease", make_split(), trials=1, recipe="paper")


def test_a_class_of_your_own_is_tuned_and_a_classical_model_refuses_an_initialiser() -> None:
    settings = {"dim": 4, "steps": 2, "batch_size": 8, "eval_every": 0, "device": "cpu"}
    space = {"lr": Float(1e-4, 1e-2, log=True)}
    result = tune(Dot, make_split(), trials=2, space=space, init="svd", **settings)
    assert result.model == "dot"
    assert all(trial["value"] is not None for trial in result.trials)
    with pytest.raises(ConfigError, match="ease has no embedding tables to fill"):
        tune("ease", make_split(), trials=1, init="svd")


def test_a_model_without_a_space_is_fitted_once() -> None:
    assert len(tune("toppop", make_split(), trials=20).trials) == 1


@pytest.mark.parametrize("storage", ["study.db", "study.sqlite3", "postgresql://host/studies"])
def test_a_database_is_refused_with_what_to_give_instead(storage: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"storage of Optuna.*give a file such as study"):
        tune("ease", make_split(), trials=1, storage=storage)


def test_a_journal_of_optuna_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "study.journal"
    path.write_text('{"op_code": 0, "worker_id": "a", "study_name": "s"}\n', encoding="utf-8")
    before = path.read_bytes()
    with pytest.raises(ConfigError, match="storage of Optuna"):
        tune("ease", make_split(), trials=1, storage=path)
    assert path.read_bytes() == before


def test_studies_of_several_models_share_a_file(tmp_path: Path) -> None:
    path, split = tmp_path / "study.jsonl", make_split()
    first = tune("ease", split, trials=3, storage=path)
    tune("rp3beta", split, trials=3, storage=path)
    assert tune("ease", split, trials=3, storage=path) == first


def test_a_choice_is_searched_alike_after_a_resume(tmp_path: Path) -> None:
    space = {"window": OneOf(None, 5), "l2": OneOf(1.0, 50.0)}
    split, path = make_split(), tmp_path / "study.jsonl"
    whole = tune("ease", split, trials=10, space=space, seed=3)
    tune("ease", split, trials=4, space=space, seed=3, storage=path)
    again = tune("ease", split, trials=10, space=space, seed=3, storage=path)
    assert [t["settings"] for t in again.trials] == [t["settings"] for t in whole.trials]


def test_a_full_disk_is_a_sentence_and_the_study_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write, written = Journal._write, []

    def full(self: Journal, *line: Any) -> None:
        written.append(line)
        if len(written) > 4:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        write(self, *line)

    path = tmp_path / "study.jsonl"
    with monkeypatch.context() as patch:
        patch.setattr(Journal, "_write", full)
        with pytest.raises(DataError, match=r"could not write .*: No space left on dev"):
            tune(Counted, make_split(), trials=20, storage=path)
    assert len(tune(Counted, make_split(), trials=5, storage=path).trials) == 5
    assert len(Counted.fits) == 6, "one was lost and is repeated"


def test_progress_shows_the_best_value_so_far() -> None:
    notes: list[str] = []

    class Reporter(NullProgress):
        def advance(self, steps: int = 1, **fields: Any) -> None:
            notes.extend([fields["note"]] if fields else [])

    result = tune("ease", make_split(), trials=4, progress=Reporter())
    values = [trial["value"] for trial in result.trials]
    assert len(notes) == 4
    for number, note in enumerate(notes, 1):
        best = int(np.argmax(values[:number]))
        assert f"{number} of 4 trials" in note
        assert f"best NDCG@10 {values[best]:.4f} in trial {best} " in note
        assert f"default settings: {values[0]:.4f}" in note
        assert ("left" in note) == (number < 4)


@pytest.mark.parametrize("kind", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_study_gives_what_it_has_found_and_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: signal.Signals
) -> None:
    path, plain, fits = tmp_path / "study.jsonl", EASE._fit, 0

    def fit(self: EASE, *arguments: Any) -> None:
        nonlocal fits
        fits += 1
        if fits == 3:
            signal.raise_signal(kind)
        plain(self, *arguments)

    with monkeypatch.context() as patch, sigterm_interrupts():
        patch.setattr(EASE, "_fit", fit)
        with pytest.raises(TrainingInterruptedError, match="after 2 of 4 trials") as caught:
            tune("ease", make_split(), trials=4, storage=path)
    assert caught.value.by is kind
    assert isinstance(caught.value.so_far, TuningResult)
    whole = tune("ease", make_split(), trials=4)
    values = [trial["value"] for trial in whole.trials]
    assert [trial["value"] for trial in caught.value.so_far.trials] == values[:2]
    again = tune("ease", make_split(), trials=4, storage=path)
    assert [trial["value"] for trial in again.trials] == values


def test_an_interrupted_training_is_no_failed_trial(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    plain = Dot.loss

    def loss(self: Dot, batch: Any) -> Any:
        signal.raise_signal(signal.SIGINT)
        return plain(self, batch)

    monkeypatch.setattr(Dot, "loss", loss)
    path = tmp_path / "study.jsonl"
    settings: dict[str, Any] = {"dim": 4, "steps": 3, "batch_size": 8, "device": "cpu"}
    space = {"lr": Float(1e-4, 1e-2, log=True)}
    with pytest.raises(TrainingInterruptedError, match="after 0 of 2 trials") as caught:
        tune(Dot, make_split(), trials=2, space=space, storage=path, recipe=None, **settings)
    assert caught.value.so_far is None
    assert "failed" not in path.read_text()


def test_bad_questions_get_a_sentence() -> None:
    split = make_split()
    with pytest.raises(UnknownNameError, match="did you mean 'NDCG@10'"):
        tune("ease", split, metric="NCDG@10")
    with pytest.raises(UnknownNameError, match="metric 'F1'"):
        tune("ease", split, metric="F1")
    with pytest.raises(ConfigError, match="not a goal to maximise"):
        tune("ease", split, metric="Gini@10")
    with pytest.raises(ConfigError, match="trials"):
        tune("ease", split, trials=0)
    with pytest.raises(ConfigError, match="has no setting 'l3'"):
        tune("ease", split, l3=1.0)
    with pytest.raises(ConfigError, match="not one of its settings"):
        tune("ease", split, space={"l3": Float(0.0, 1.0)})
    empty = split.valid.select(np.zeros(len(split.valid), dtype=bool))
    with pytest.raises(DataError, match="validation part of the split is empty"):
        tune("ease", Split(split.train, empty, split.test, "x"))


def test_another_question_is_another_study_of_the_same_file(tmp_path: Path) -> None:
    split, path = make_split(), tmp_path / "study.jsonl"
    narrow = {"l2": Float(1.0, 2.0)}
    studies = [
        tune("ease", split, trials=1, storage=path, **other).study
        for other in ({}, {"metric": "HR@5"}, {"space": narrow}, {})
    ]
    assert len(set(studies)) == 3
    assert studies[0] == studies[-1]


def test_without_optuna_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(MissingExtraError, match=r"pip install .*\[tune\]"):
        tune("ease", make_split())


def test_what_a_trial_trained_is_what_it_says(monkeypatch: pytest.MonkeyPatch) -> None:
    """The settings on record are those of the network, recipe and all; `train` takes the same."""
    fitted: list[Any] = []

    def watched(*args: Any) -> Any:
        fitted.append(fit(*args))
        return fitted[-1]

    monkeypatch.setattr(study_module, "fit", watched)
    quick: dict[str, Any] = {"dim": 4, "steps": 2, "eval_every": 1, "device": "cpu"}
    space: Any = {"lr": Float(1e-4, 1e-1, log=True)}
    for recipe in ({}, {"recipe": None}, {"recipe": "paper"}):
        result = tune("bpr", make_split(), 1, space=space, **recipe, **quick)
        again = train("bpr", make_split(), init=None, progress=False, **recipe, **quick)
        assert result.best_config == fitted[-1].config.to_dict() == again.config.to_dict()


def test_vectors_of_your_own_set_the_dimension_on_record() -> None:
    split = make_split()
    vectors = leporid.initializers.initial_embeddings("svd", split.train, dim=4, cache=False)
    space: Any = {"lr": Float(1e-4, 1e-1, log=True)}
    quick: dict[str, Any] = {"steps": 2, "eval_every": 0, "device": "cpu", "recipe": None}
    result = tune("bpr", split, 1, space=space, init=vectors, **quick)
    assert result.best_config["dim"] == 4
