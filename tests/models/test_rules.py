"""Rules in `recommend*`, and reasons that are the model's own."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

import leporid
from leporid.data import Sequences, synthesize
from leporid.errors import ConfigError
from leporid.ranking import write_recommendations

SPLIT = leporid.temporal_split(synthesize(70, 50, 1400, seed=4))
ITEMS = {
    "item_id": SPLIT.items.ids.to_pylist(),
    "genre": [("Drama", "War|Drama", "Comedy")[i % 3] for i in range(50)],
}
LINEAR = ("ease", "slim", "itemknn", "p3alpha", "rp3beta", "turbocf")


def test_all_ways_to_ask_follow_the_rules(tmp_path: Path) -> None:
    model = leporid.train("ease", SPLIT)
    bound = leporid.Rules(max_per={"genre": 2}, diversity=0.2).bind(model.item_columns(ITEMS))
    user = model.users.external(3)
    items, scores = model.recommend(user, 6, rules=bound)
    index = model.items.indices([item for item in items if item is not None])
    assert max(np.bincount(index % 3)) <= 2
    np.testing.assert_allclose(scores[: len(index)], model.score(np.asarray([3]))[0][index])
    frame = model.recommend_frame([user], 6, rules=bound)
    assert frame["item"].to_pylist() == [item for item in items if item is not None]
    target = tmp_path / "recs.parquet"
    write_recommendations(model, target, [user], 6, rules=bound)
    assert pq.read_table(target) == frame
    history = [model.items.external(i) for i in model.known.sequences().of(3)]
    np.testing.assert_array_equal(model.recommend_history(history, 6, rules=bound)[0], items)
    assert model.recommend(user, 6)[0].tolist() != items.tolist()


def test_rules_of_another_model_and_unbound_ones_are_refused() -> None:
    model = leporid.train("toppop", SPLIT)
    other = leporid.train("toppop", leporid.temporal_split(synthesize(70, 40, 900, seed=5)))
    rules = leporid.Rules(diversity=0.5)
    for wrong in (rules, rules.bind(other.item_columns())):
        with pytest.raises(ConfigError, match="bound to this model"):
            model.recommend(model.users.external(0), rules=wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["ials", "ease"])
def test_diversity_spreads_the_list(name: str) -> None:
    """On a model's own vectors, and on those of the log."""
    model = leporid.train(name, SPLIT)
    item_columns = model.item_columns()
    users = model.users.ids.to_pylist()
    alike = []
    for diversity in (0.0, 0.6):
        bound = leporid.Rules(diversity=diversity).bind(item_columns)
        lists = model.recommend(users, 5, rules=bound)[0]
        vectors = [item_columns.vectors[model.items.indices(row.tolist())] for row in lists]
        alike.append(np.mean([(v @ v.T)[np.triu_indices(5, 1)].mean() for v in vectors]))
    assert alike[1] < alike[0] - 0.02


@pytest.mark.parametrize("name", LINEAR)
def test_contributions_of_linear_models_sum_to_the_score(name: str) -> None:
    model = leporid.train(name, SPLIT)
    assert model.reason_kind == "the model's own weights"
    history = Sequences.from_rows([np.asarray([4, 9, 2, 30], np.int32)])
    scores = model.score_histories([history.of(0)])[0]
    wanted = np.argsort(-scores, kind="stable")[:6].astype(np.int32)
    every = model.reasons(history, wanted, n=50)
    for item, reasons in zip(wanted, every, strict=True):
        values = [value for _, value in reasons]
        assert values == sorted(values, reverse=True)
        assert {index for index, _ in reasons} <= {4, 9, 2, 30}
        assert min(values) > 0
        if name not in ("ease", "slim"):  # those two have negative weights as well
            np.testing.assert_allclose(sum(values), scores[item], rtol=1e-4)


def test_the_contribution_is_the_change_without_the_item() -> None:
    model = leporid.train("ease", SPLIT, window=None)
    past = [4, 9, 2, 30]
    whole = model.score_histories([np.asarray(past, np.int32)])[0]
    best = int(np.argmax(whole))
    ids = [model.items.external(i) for i in past]
    items, values = model.explain(ids, model.items.external(best), n=2)
    assert len(items) > 0
    for item, value in zip(items, values, strict=True):
        rest = [i for i in past if model.items.external(i) != item]
        without = model.score_histories([np.asarray(rest, np.int32)])[0]
        np.testing.assert_allclose(whole[best] - without[best], value, rtol=1e-3, atol=1e-6)
