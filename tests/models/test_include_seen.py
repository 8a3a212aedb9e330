"""`include_seen`: from the split through training, tuning, `choose` and a saved model to lists."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import leporid
from leporid.data import Interactions, Split, inner_validation_split
from leporid.errors import LeporidWarning
from leporid.models import Recommender, Sampler, Sampling, TrainingData
from leporid.runs import tune
from leporid.selection import task
from tests.models.test_repeats import events
from tests.selection.clocks import Clock

USERS = np.arange(31, dtype=np.int32)
NEURAL: dict[str, Any] = {
    "dim": 8, "steps": 6, "batch_size": 24, "eval_every": 3, "patience": 0, "metric": "NDCG@5",
    "init": None, "recipe": None, "progress": False,
}  # fmt: skip


@pytest.fixture(scope="module")
def split() -> Split:
    return leporid.temporal_split(events())


def shown(model: Recommender, **options: Any) -> list[set[int]]:
    return [set(row[row >= 0].tolist()) for row in model.top_k(USERS, 17, **options).items]


def known(split: Split) -> list[set[int]]:
    return [set(split.train_valid.sequences().of(user).tolist()) for user in USERS]


def test_targets_are_new_items_or_all_of_them(split: Split) -> None:
    for part in ("valid", "test"):
        have, held_out = split.known(part).csr().toarray() > 0, split.part(part)
        pairs = set(zip(held_out.user.tolist(), held_out.item.tolist(), strict=True))
        new = {pair for pair in pairs if not have[pair]}
        assert 0 < len(new) < len(pairs)
        for seen, expected in ((False, new), (True, pairs)):
            found = replace(split, include_seen=seen).targets(part)
            assert len(found) == len(expected)
            assert set(zip(found.user.tolist(), found.item.tolist(), strict=True)) == expected


def test_a_split_keeps_it_through_a_file_and_into_its_inner_split(
    split: Split, tmp_path: Path
) -> None:
    both = split.including_seen()
    assert split.including_seen(None) is split
    assert (split.include_seen, both.include_seen) == (False, True)
    assert both.digest != split.digest
    assert Split.load(both.save(tmp_path / "a")).include_seen
    assert not Split.load(split.save(tmp_path / "b")).include_seen
    assert inner_validation_split(both).include_seen
    assert not inner_validation_split(split).include_seen
    with pytest.warns(LeporidWarning, match="repeats are rare, 0 of .* interactions"):
        leporid.temporal_split(leporid.synthesize(30, 20, 300, seed=0)).including_seen()


@pytest.mark.parametrize("name", ["itemknn", "blend", "sasrec", "dlr2"])
def test_a_model_remembers_what_its_lists_may_show(name: str, split: Split, tmp_path: Path) -> None:
    settings = NEURAL | {"max_history": 4} if name in ("sasrec", "dlr2") else {"progress": False}
    model = leporid.train(name, split, include_seen=True, final=True, **settings)
    again = Recommender.load(model.save(tmp_path / "model"))
    assert model.validated is not None
    for some in (model, model.validated, again, model.refit(events())):
        assert some.fitting.include_seen
        assert all(len(items) == 17 for items in shown(some))
    hidden = shown(model.validated, include_seen=False)
    assert all(not a & b for a, b in zip(hidden, known(split), strict=True))
    items, _ = model.recommend_history([model.items.external(3)], n=17)
    assert model.items.external(3) in items
    plain = leporid.train(name, split, **settings)
    assert not plain.fitting.include_seen
    assert all(not a & b for a, b in zip(shown(plain), known(split), strict=True))


def test_a_blend_ranks_what_users_have_as_its_member_does(split: Split) -> None:
    alone = leporid.train("frequency", split, include_seen=True)
    settings: dict[str, Any] = {"members": ({"model": "frequency"},), "progress": False}
    blend = leporid.train("blend", split, include_seen=True, **settings)
    np.testing.assert_array_equal(blend.top_k(USERS, 9).items, alone.top_k(USERS, 9).items)


def test_evaluation_does_as_the_split_or_the_model_says(split: Split) -> None:
    model = leporid.train("frequency", split, include_seen=True)
    expected = leporid.evaluate(model, split, at=(5,), include_seen=True)
    assert expected.repeated == 0
    both = split.including_seen()
    for found in (
        leporid.evaluate(model, split, at=(5,)),
        leporid.evaluate(model, both, at=(5,)),
        leporid.evaluate(leporid.train("frequency", split), both, at=(5,)),
    ):
        assert found.mean() == expected.mean()
        assert found.include_seen
    new = leporid.evaluate(model, split, at=(5,), include_seen=False)
    assert new.repeated > 0
    assert new.mean() != expected.mean()


@pytest.mark.parametrize("name", ["bpr", "sasrec", "dlr2"])
def test_the_validation_of_a_training_counts_repeats(name: str, split: Split) -> None:
    for seen in (False, True):
        model: Any = leporid.train(name, split, include_seen=seen, **NEURAL)
        table = leporid.evaluate(model, split, at=(5,), part="valid", include_seen=seen)
        if model.closed_form is None:  # DLR2 adds it to the scores when the training is over
            assert model.history.best_metric == pytest.approx(table.mean()["NDCG@5"])


def test_sequences_have_repeats_among_their_targets(split: Split) -> None:
    data = TrainingData.from_interactions(split.train, torch.device("cpu"))
    sampling = Sampling("sequences", length=20, negatives=1)
    batch = Sampler(data, sampling, batch_size=31, seed=0).batch(0)
    for user, targets in zip(batch.users.tolist(), batch.positives.tolist(), strict=True):
        own = split.train.sequences().of(user).tolist()
        assert [item for item in targets if item >= 0] == own[1:]


def test_tuning_counts_repeats(split: Split) -> None:
    for seen in (False, True):
        found = tune("frequency", split, trials=3, metric="NDCG@5", include_seen=seen)
        model = leporid.train("frequency", split, **found.best_config)
        table = leporid.evaluate(model, split, at=(5,), part="valid", include_seen=seen)
        assert found.best_value == pytest.approx(table.mean()["NDCG@5"])


def groceries() -> Interactions:
    """Every second user has four items and nothing else, the others choose among many."""
    rng = np.random.default_rng(0)
    rows = []
    for user in range(60):
        own = rng.choice(40, size=4 if user % 2 else 25, replace=False)
        rows += [(user, int(item)) for item in rng.choice(own, size=20)]
    user, item = np.array(rows).T
    columns = {"user": user, "item": item, "time": np.arange(len(rows))}
    return leporid.load(columns, duplicates="all")


@pytest.mark.parametrize("seen", [False, True])
def test_choose_judges_and_deploys_by_it(seen: bool, tmp_path: Path) -> None:
    split = leporid.temporal_split(groceries())
    some = ("toppop", "frequency", *(() if seen else ("itemknn", "p3alpha")))
    chosen = leporid.choose(
        split, 60, models=some, include_seen=seen, output=tmp_path / "run", progress=False,
        clock=Clock(0.005),
    )  # fmt: skip
    assert chosen.winner.startswith("frequency" if seen else ("itemknn", "p3alpha", "blend"))
    assert chosen.model.fitting.include_seen == seen
    assert Recommender.load(tmp_path / "run" / "model").fitting.include_seen == seen
    first = {row["model"]: row["NDCG@10"] for row in chosen.table if row["settings"] == "default"}
    inner = task.SearchTask.of(split.including_seen(seen), "NDCG@10").inner
    model = leporid.train("toppop", inner)
    table = leporid.evaluate(model, inner, at=(10,), include_seen=seen)
    assert first["toppop"] == pytest.approx(table.mean()["NDCG@10"])


def test_choose_of_a_path_keeps_its_repeats(tmp_path: Path) -> None:
    file = leporid.data.write_log(groceries(), tmp_path / "log.csv")
    models, how = ("toppop", "frequency"), {"progress": False, "clock": Clock(0.01)}
    chosen = leporid.choose(file, 30, models=models, include_seen=True, **how)  # type: ignore[arg-type]
    assert len(chosen.model.known) == len(groceries())


def test_profile_models_learn_what_repeats_are_worth(tmp_path: Path) -> None:
    split = leporid.temporal_split(groceries())
    own: Any = np.zeros((60, split.n_items))
    for user in range(60):
        items = split.train_valid.sequences().of(user)
        np.add.at(own[user], items, 2.0 ** (-np.arange(len(items))[::-1] / 100))
    users = np.arange(60, dtype=np.int32)
    for name in ("slim", "itemknn", "ials"):
        assert leporid.train(name, split, progress=False).config.repeats == 0
        found: Any = leporid.train(name, split, include_seen=True, progress=False)
        without: Any = leporid.train(name, split, include_seen=True, repeats=0.0, progress=False)
        assert found.config.repeats > 0
        expected = without.score(users) + found.config.repeats * own
        np.testing.assert_allclose(found.score(users), expected, rtol=1e-4, atol=1e-5)
        again = Recommender.load(found.save(tmp_path / name))
        np.testing.assert_array_equal(again.score(users), found.score(users))
        values = [
            leporid.evaluate(one, split, at=(10,), part="valid", include_seen=True).mean()
            for one in (found, without)
        ]
        assert values[0]["NDCG@10"] > values[1]["NDCG@10"]
    slim: Any = leporid.train("slim", split, include_seen=True, progress=False)
    history = slim.known.sequences().take([3])
    item = int(history.of(0)[0])
    (reasons,) = slim.reasons(history, np.array([item]), n=40)
    assert item in dict(reasons)
    assert sum(value for _, value in reasons) == pytest.approx(slim.score(users[3:4])[0, item])
