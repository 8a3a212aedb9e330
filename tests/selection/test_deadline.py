"""Work that nothing can stop is foreseen, or killed: slow models, injected."""

from __future__ import annotations

import importlib
import math
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

import leporid
from leporid.data import Split
from leporid.errors import DataError
from leporid.models import registry as catalogue
from leporid.selection import (
    Choice,
    evaluator,
    final_fits,
    finalise,
    runtime_estimates,
    schedule,
)
from leporid.selection.budget import OutOfTimeError, Timer
from leporid.selection.candidates import Candidate
from leporid.selection.evaluator import TrialEvaluator
from leporid.selection.runtime_estimates import (
    FitEstimate,
    RuntimeEstimates,
    estimate_seconds,
    share_of,
)
from leporid.selection.subprocess_runner import run_in_subprocess
from leporid.selection.task import SearchTask
from tests.selection import slow_tasks
from tests.selection.clocks import Clock


def planted() -> Split:
    return leporid.temporal_split(leporid.synthesize(120, 70, 3000, seed=5))


def choose(models: tuple[str, ...] = ("toppop", "itemknn"), **how: Any) -> Choice:
    how = {"budget": 600, "clock": Clock(), "progress": False, **how}
    return leporid.choose(planted(), models=models, **how)


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """No variants."""
    monkeypatch.setattr(schedule, "MAX_VARIANT_ROUNDS", 0)


@pytest.fixture
def sleeper(monkeypatch: pytest.MonkeyPatch) -> str:
    paths = {**catalogue._registry._paths, "sleeper": "tests.selection.slow_model:Sleeper"}
    monkeypatch.setattr(catalogue._registry, "_paths", paths)
    # Imported only now: where its name is unknown, the module registers it for good.
    importlib.import_module("tests.selection.slow_model")
    return "sleeper"


def evaluator_of(folder: Path, budget: float = math.inf, tick: float = 0.0) -> TrialEvaluator:
    timer = Timer(budget, clock=Clock(tick))
    return TrialEvaluator(SearchTask.of(planted(), "NDCG@10"), timer, folder)


def test_a_training_is_begun_if_most_of_its_steps_fit(tmp_path: Path) -> None:
    estimates = evaluator_of(tmp_path).estimates
    net = Candidate(model="bpr", init="random", settings={"steps": 1000})
    estimates.speeds["bpr"] = 0.1
    assert estimates.cost(net) == pytest.approx(1.2 * 60)


def test_what_outlasts_its_time_is_killed(tmp_path: Path) -> None:
    pid = tmp_path / "pid"

    def clock() -> float:
        return 3.0 if pid.is_file() and pid.read_text() else 0.0

    with pytest.raises(OutOfTimeError):
        run_in_subprocess(slow_tasks.sleep, 3.0, (), clock, pid=str(pid))
    assert not psutil.pid_exists(int(pid.read_text()))


def test_what_it_does_is_in_files_and_what_it_refuses_is_said(tmp_path: Path) -> None:
    run_in_subprocess(slow_tasks.write, 60.0, (), Clock(), to=str(tmp_path / "a"), text="é\n")
    assert (tmp_path / "a").read_text(encoding="utf-8") == "é\n"
    with pytest.raises(DataError, match=r"^there is nothing to do: leave it$"):
        run_in_subprocess(slow_tasks.refuse, 60.0, (), Clock())
    with pytest.raises(DataError, match="ValueError: what is this"):
        run_in_subprocess(slow_tasks.crash, 60.0, (), Clock())


@pytest.mark.parametrize("power", [1.0, 1.5, 2.0, 3.0])
def test_seconds_are_foreseen_from_small_shares(
    power: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, fitted = Clock(), []
    monkeypatch.setattr(runtime_estimates, "share_of", lambda split, share: share)

    def fit(share: Any) -> None:
        fitted.append(share)
        clock.advance(100.0 * share**power)

    linear = 100.0 * (1 / 8) ** (power - 1)
    expected, worst = estimate_seconds(fit, planted(), 1.1 * linear, clock)
    if power < 3:
        assert expected == pytest.approx(100.0)
        assert fitted[-1] == 1 / 4
    assert worst == pytest.approx(100.0 * (1 / fitted[-1]) ** (3 - power))
    expected, worst = estimate_seconds(fit, planted(), math.inf, clock)
    assert expected <= 101 <= 2 * worst
    expected, worst = estimate_seconds(fit, planted(), 1e-3, clock)
    assert expected <= 101 <= 2 * worst
    assert fitted[-1] == 1 / 16, "no larger share where the smallest one says enough"


def test_a_share_is_a_log_of_its_own() -> None:
    split = planted()
    part = share_of(split, 0.25)
    assert 0 < part.n_items < split.n_items / 2
    assert part.train.user.max() == part.n_users - 1
    one = leporid.Split(split.train.select(np.arange(1)), split.valid, split.test, split.protocol)
    assert len(share_of(one, 0.01).train) == 1


def test_a_slow_model_is_left_out_by_its_runtime_estimate(
    sleeper: str, short: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock()
    monkeypatch.setattr("tests.selection.slow_model.Sleeper.wait", clock.advance)
    chosen = choose(models=("toppop", "itemknn", sleeper), budget=12, clock=clock)
    assert "itemknn" in chosen.winner
    [left_out] = chosen.details["left out"]
    assert left_out["model"] == sleeper
    assert "its fit takes about" in left_out["why"]


def test_a_fit_in_doubt_is_killed_at_its_moment(
    sleeper: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trials = evaluator_of(tmp_path, 1000.0, tick=0.1)
    candidate = Candidate(model=sleeper)
    trials.estimates.shares[candidate.key] = FitEstimate(1.0, 9.0)
    trials.estimates.process_seconds = 0.1
    with pytest.raises(OutOfTimeError):
        trials.evaluate(candidate, trials.timer.elapsed + 2.0)
    trials.estimates.process_seconds = 10.0
    monkeypatch.setattr(
        evaluator, "run_in_subprocess", lambda *_, **how: pytest.fail("it was begun")
    )
    with pytest.raises(OutOfTimeError, match="no time to begin"):
        trials.evaluate(candidate, trials.timer.elapsed + 2.0)


def test_near_the_end_an_estimate_is_not_believed(tmp_path: Path) -> None:
    candidate, estimates = Candidate(model="itemknn"), evaluator_of(tmp_path, 100.0).estimates
    estimates.shares[candidate.key] = FitEstimate(1.0, 30.0)
    assert not estimates.is_doubtful(candidate, 50.0)
    assert estimates.is_doubtful(candidate, 25.0), "it may outlast its own time"
    estimates.shares[candidate.key] = FitEstimate(1.0, 40.0)
    assert estimates.is_doubtful(candidate, 50.0), (
        "if the estimate is wrong, it may outlast the search"
    )


def test_a_fit_in_doubt_gives_what_one_without_gives(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, away = evaluator_of(tmp_path / "a"), evaluator_of(tmp_path / "b", 1000.0)
    candidate = Candidate(model="itemknn", settings={"window": 5})
    plain = here.evaluate(candidate, math.inf)
    away.estimates.shares[candidate.key] = FitEstimate(100.0, 900.0)
    away.estimates.process_seconds = 0.1
    with monkeypatch.context() as patch:
        patch.setattr(
            "leporid.models.closed_form.itemknn.ItemKNN.fit", lambda *_, **how: pytest.fail("here")
        )
        killed = away.evaluate(candidate, away.timer.elapsed + 200.0)
    assert (killed.columns == plain.columns).all()
    assert (away.lists(candidate) == here.lists(candidate)).all()


@pytest.mark.slow
def test_the_final_fits_may_run_elsewhere(short: None, monkeypatch: pytest.MonkeyPatch) -> None:
    end, refitted = finalise._fit_and_test, []

    def in_doubt(*given: Any) -> Any:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(RuntimeEstimates, "is_doubtful", lambda *_: True)
            patch.setattr(final_fits, "fit_on", lambda *_, **how: refitted.append(how))
            return end(*given)

    here = choose()
    monkeypatch.setattr(finalise, "_fit_and_test", in_doubt)
    away = choose()
    assert not refitted, "it was fitted here"
    assert away.model.fitting.final
    assert away.winner == here.winner
    users = np.arange(9, dtype=np.int32)
    assert (away.model.score(users) == here.model.score(users)).all()


def test_a_baseline_that_fails_does_not_cost_the_choice(
    short: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any) -> Any:
        raise DataError("it broke")

    def after_the_winner(*given: Any) -> Any:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(finalise, "fit_validated", broken)
            return test_others(*given)

    test_others = finalise.test_others
    monkeypatch.setattr(finalise, "test_others", after_the_winner)
    choice = choose()
    assert choice.model.fitting.final
    assert "could not be tested: it broke" in choice.why
