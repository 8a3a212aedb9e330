"""The final fit: the settings and steps that were validated, on everything."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from leporid.data import Interactions, Split, load
from leporid.embeddings.svd import SVD
from leporid.errors import ConfigError, DataError, NotFittedError
from leporid.evaluation import evaluate
from leporid.models import FitContext, Recommender, StopWhen, everything, train, trained_on
from leporid.models.closed_form.ease import EASE
from tests.models.neural_data import initial_vectors, small_split
from tests.training.toy import make_split

QUICK: dict[str, Any] = {"dim": 4, "batch_size": 8, "device": "cpu"}


@pytest.fixture(scope="module")
def split() -> Split:
    return make_split()


def owned(split: Split) -> set[tuple[int, int]]:
    parts = (split.train, split.valid, split.test)
    return {(int(u), int(i)) for p in parts for u, i in zip(p.user, p.item, strict=True)}


def recommended(model: Recommender) -> set[tuple[int, int]]:
    users = np.arange(len(model.users), dtype=np.int32)
    rows = model.top_k(users, 3).items
    return {(int(u), int(i)) for u, row in zip(users, rows, strict=True) for i in row if i >= 0}


@pytest.mark.parametrize("name", ["ease", "bpr", "dlr2"])
def test_a_final_model_recommends_nothing_that_anybody_has(split: Split, name: str) -> None:
    settings = {} if name == "ease" else {**QUICK, "steps": 4, "eval_every": 2, "init": "svd"}
    final = train(name, split, final=True, **settings)
    assert not recommended(final) & owned(split)
    assert final.validated is not None
    assert recommended(final.validated) & owned(split)
    assert {(int(u), int(i)) for u, i in zip(final.known.user, final.known.item, strict=True)} == (
        owned(split)
    )


@pytest.mark.parametrize("name", ["bpr", "dlr2", "sasrec"])
def test_a_network_goes_on_with_more_data(split: Split, name: str) -> None:
    settings = {**QUICK, "steps": 6, "eval_every": 2, "init": "svd"}
    if name != "bpr":
        # The closed-form part is not trained on, it is fitted again.
        settings |= {"linear_weight": 0.0, "transitions_weight": 0.0}
    model = train(name, split, **settings)
    nothing = split.train.select(np.empty(0, np.int64))
    more = Split(split.train_valid, nothing, split.test, split.protocol)
    users = np.arange(len(model.users), dtype=np.int32)
    same, later = (trained_on(model, more, share, FitContext()) for share in (0.0, 1.0))
    history = model.known.sequences()
    np.testing.assert_allclose(same.score(users, history), model.score(users, history), rtol=1e-5)
    assert not np.allclose(later.score(users, history), model.score(users, history))
    assert len(later.train) == len(split.train_valid)
    assert (later.fitting.init, later.fitting.best_step) == (
        model.fitting.init,
        model.fitting.best_step,
    )


def named(split: Split, gone: tuple[int, ...], prefix: str = "") -> Interactions:
    """All interactions but those of some users and items, with ids of their own."""
    whole = everything(split).train
    part = whole.select(~np.isin(whole.user, gone) & ~np.isin(whole.item, gone))
    user, item = ([f"{prefix}{x:03}" for x in column] for column in (part.user, part.item))
    return load(pa.table({"user_id": user, "item_id": item, "timestamp": part.time}))


@pytest.mark.parametrize("name", ["bpr", "dlr2", "hgn", "lightgcn", "sasrec"])
@pytest.mark.parametrize("gone", [(0, 1), (0, 1, 2)])
def test_a_refit_from_a_model_has_its_rows(split: Split, name: str, gone: tuple[int, ...]) -> None:
    """The log loses users and items, and gets two (or as many) that are new."""
    settings = {**QUICK, "steps": 6, "eval_every": 0, "init": None, "recipe": None}
    old: Any = train(name, everything(named(split, (5, 6))), **settings)
    data = named(split, gone)
    new: Any = old.refit(
        data, init=old, device="cpu", context=FitContext(first_step=old.fitting.best_step)
    )
    tables = {k: v for k, v in old.net.state_dict().items() if k in ("items.weight", "bias")}
    rows = new.items.encode(old.items.ids)
    assert (rows < 0).any()
    assert (old.items.encode(new.items.ids) < 0).any()
    for key, table in tables.items():
        after = new.net.state_dict()[key]
        np.testing.assert_array_equal(after[rows[rows >= 0]], table[rows >= 0])
        assert after.isfinite().all()
    assert new.fitting.final
    moved: Any = old.refit(data, init=old, device="cpu")
    assert not np.array_equal(moved.net.items.weight.detach(), new.net.items.weight.detach())


def test_a_refit_goes_on_for_half_of_the_steps(split: Split) -> None:
    steps: list[int] = []
    count = StopWhen(lambda step: steps.append(step) is not None)
    model: Any = train("bpr", split, **QUICK, steps=8, eval_every=0, init=None, recipe=None)
    model.refit(split, init=model, device="cpu", context=FitContext(callbacks=(count,)))
    assert steps == [5, 6, 7, 8]


def test_a_refit_from_something_else_is_refused(split: Split) -> None:
    settings = {**QUICK, "steps": 2, "eval_every": 0, "init": None, "recipe": None}
    model, other = (train(name, split, **settings) for name in ("bpr", "sasrec"))
    with pytest.raises(ConfigError, match="of the same settings only"):
        model.refit(split, init=other, device="cpu")
    wider = train("bpr", split, **{**settings, "dim": 5})
    with pytest.raises(ConfigError, match="cannot extend 'users"):
        model.refit(split, init=wider, device="cpu")
    with pytest.raises(DataError, match="knows none of these"):
        model.refit(named(split, (), "x"), init=model, device="cpu")


def test_a_refit_from_a_model_holds_rows_that_come_from_content(
    split: Split, tmp_path: Path
) -> None:
    whole = named(split, ())
    table = pa.table(
        {"item_id": whole.items.ids, "genre": [f"g{i % 3}" for i in range(len(whole.items))]}
    )
    pq.write_table(table, tmp_path / "items.parquet")
    few = everything(whole.select(whole.item > 2))
    settings = {**QUICK, "steps": 4, "eval_every": 0, "recipe": None, "init": "content"}
    chosen = {"items": str(tmp_path / "items.parquet")}
    model: Any = train("bpr", few, **settings, init_settings=chosen)
    assert model.cold_items is not None
    assert model.refit(few, init=model, device="cpu").cold_items is not None


def test_everything_is_in_time_order_whatever_the_split(split: Split) -> None:
    whole = everything(split).train
    assert (np.lexsort((whole.time, whole.user)) == np.arange(len(whole))).all()
    swapped = Split(split.test, split.valid, split.train, "backwards")
    np.testing.assert_array_equal(everything(swapped).train.item, whole.item)
    timeless = [
        Interactions(part.user, part.item, None, part.users, part.items)
        for part in (split.train, split.valid, split.test)
    ]
    np.testing.assert_array_equal(everything(Split(*timeless, "x")).train.item, whole.item)
    assert everything(whole).train is whole
    with pytest.raises(DataError, match="takes Interactions or a Split, not list"):
        EASE().fit(split).refit([1, 2])  # type: ignore[arg-type]


def test_a_classical_model_is_that_of_the_whole_log(split: Split) -> None:
    final = EASE(l2=3.0).fit(split, seed=4).refit(split)
    np.testing.assert_array_equal(final.weights, EASE(l2=3.0).fit(everything(split)).weights)
    assert (final.fitting.final, final.fitting.seed) == (True, 4)
    with pytest.raises(NotFittedError):
        EASE().refit(split)


def test_a_network_stops_at_the_step_that_validation_chose(split: Split) -> None:
    options = {**QUICK, "steps": 40, "eval_every": 5, "lr": 0.2, "init": None, "seed": 3}
    model: Any = train("bpr", split, **options)
    best = model.history.best_step
    assert 0 < best < 40
    final = model.refit(split, device="cpu")
    assert final.history.rows[-1]["step"] == best
    assert final.history.best_metric is None
    # The rate falls as it did: over 40 steps, not over the best ones.
    rate = {row["step"]: row["lr"] for row in model.history.rows}
    assert final.history.rows[-1]["lr"] == rate[best]
    again = final.refit(split, device="cpu")
    users = np.arange(5, dtype=np.int32)
    np.testing.assert_array_equal(again.score(users), final.score(users))


def test_epochs_are_counted_by_the_validated_run(split: Split) -> None:
    model: Any = train("bpr", split, init=None, epochs=1.0, steps=2000, eval_every=750, **QUICK)
    assert model.fitting.steps == 750
    assert model.refit(split, device="cpu").config.steps == 750


def test_initial_vectors_are_computed_again_on_everything(split: Split) -> None:
    options = {**QUICK, "steps": 2, "freeze_steps": -1, "seed": 6}
    final: Any = train("bpr", split, init="svd", final=True, **options)
    whole = SVD(dim=4, seed=6).fit(everything(split).train).standardized(final.init_size)
    np.testing.assert_allclose(final.net.items.weight.detach(), whole.items.vectors, rtol=1e-5)


def test_vectors_from_elsewhere_must_be_given_again() -> None:
    split, vectors = small_split(), initial_vectors()
    final: Any = train("bpr", split, init=vectors, final=True, steps=2, **QUICK)
    assert final.fitting.init == {}
    with pytest.raises(DataError, match="came from elsewhere"):
        final.refit(split)
    final.refit(split, init=vectors, device="cpu")


def test_a_saved_model_can_be_refitted(split: Split, tmp_path: Path) -> None:
    model = train("dlr2", split, init="svd", steps=4, eval_every=2, **QUICK)
    loaded = Recommender.load(model.save(tmp_path / "m"))
    assert loaded.fitting == model.fitting
    users = np.arange(5, dtype=np.int32)
    expected = model.refit(split, device="cpu").score(users)
    np.testing.assert_array_equal(loaded.refit(split, device="cpu").score(users), expected)


def test_nobody_evaluates_a_final_model_on_what_it_has_seen(split: Split) -> None:
    final = train("ease", split, final=True)
    assert final.validated is not None
    for part in ("valid", "test"):
        with pytest.raises(DataError, match="final model, fitted on"):
            evaluate(final, split, part=part)  # type: ignore[arg-type]
        evaluate(final.validated, split, part=part)  # type: ignore[arg-type]
    # Fitted on everything up to a day, it may be judged on what came after.
    evaluate(EASE().fit(split).refit(split.train_valid), split)
