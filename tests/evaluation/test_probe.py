"""`probe`: vectors alone predict held-out items as plain loops say."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import leporid
from leporid.data import Split
from leporid.errors import ConfigError, DataError
from leporid.evaluation import evaluate, probe


@pytest.fixture(scope="module")
def split() -> Split:
    split = leporid.temporal_split(leporid.synthesize(70, 40, 1500, seed=5))
    # The first and the last user have nothing to find.
    inside = (split.valid.user > 0) & (split.valid.user < split.n_users - 1)
    return Split(split.train, split.valid.select(inside), split.test, split.protocol)


@pytest.fixture(scope="module")
def vectors(split: Split) -> tuple[Any, Any]:
    draws = np.random.default_rng(2)
    return draws.standard_normal((split.n_users, 6)), draws.standard_normal((split.n_items, 6))


def by_items(split: Split, items: Any, last: int) -> Any:
    known = split.train.sequences()
    rows = [items[known.of(user)[-last:]] for user in range(split.n_users)]
    return np.array([(row.mean(axis=0) if len(row) else 0 * items[0]) @ items.T for row in rows])


def by_users(split: Split, users: Any, neighbours: int) -> Any:
    scores = np.zeros((split.n_users, split.n_items))
    known = split.train.csr().toarray() > 0
    for user in range(split.n_users):
        similarity = users @ users[user]
        others = [other for other in np.argsort(-similarity) if other != user][:neighbours]
        least = similarity[others[-1]]
        spread = max(similarity[others[0]] - least, 1e-30)
        for other in others:
            scores[user] += (similarity[other] - least + 1e-6 * spread) * known[other]
    return scores


def test_it_is_the_plain_loops(split: Split, vectors: tuple[Any, Any]) -> None:
    users, items = vectors
    tables = probe(vectors, split, last=4, neighbours=7).tables
    scores = {"items": by_items(split, items, 4), "users": by_users(split, users, 7)}
    scaled = [(s - s.mean(1, keepdims=True)) / s.std(1, keepdims=True) for s in scores.values()]
    scores["both"] = scaled[0] + scaled[1]
    for side, expected in scores.items():
        table = evaluate(expected.astype(np.float32), split, at=(10,), part="valid")
        different = tables[side].per_user("NDCG@10") != table.per_user("NDCG@10")
        assert different.mean() < 0.1, "rounding decides a few ties"


def test_the_test_part_is_asked_for_by_name(split: Split, vectors: tuple[Any, Any]) -> None:
    assert probe(vectors, split).tables["both"].part == "valid"
    assert probe(vectors, split, part="test").tables["both"].part == "test"


def test_vectors_that_know_the_answer_find_it() -> None:
    """Items in two groups, each user in one of them: unit vectors of the groups are perfect."""
    group = np.arange(24) % 2
    user, item = np.nonzero(group[:, None] == (np.arange(16) % 2)[None])
    draws = np.random.default_rng(0)
    data = leporid.load({"user": user, "item": item, "time": draws.permutation(len(user))})
    split = leporid.temporal_split(data)
    axes = np.eye(2)
    users = axes[np.asarray(split.users.ids) % 2]
    items = axes[np.asarray(split.items.ids) % 2]
    assert probe((users, items), split).value("HR@10") == {"items": 1, "users": 1, "both": 1}
    wrong = probe((None, axes[draws.integers(0, 2, split.n_items)]), split)
    assert [*wrong.tables] == ["items"]
    assert wrong.value()["items"] < 1


def test_it_takes_initial_embeddings_by_their_ids(split: Split) -> None:
    both = leporid.initializers.get("svd")(dim=5).fit(split.train)
    found = probe(both, split)
    assert found.value() == probe((both.users.vectors, both.items.vectors), split).value()
    rows = found.rows("HR@10")
    assert [row["vectors of"] for row in rows] == ["items", "users", "both"]
    assert {"HR@10", "activity-q1", "activity-q4"} <= {*rows[0]}


def test_bad_questions_get_a_sentence(split: Split, vectors: tuple[Any, Any]) -> None:
    users, items = vectors
    with pytest.raises(DataError, match="the split has 40 items: give one row per item"):
        probe((None, items[1:]), split)
    with pytest.raises(ConfigError, match="users or of items"):
        probe((None, None), split)
    with pytest.raises(ConfigError, match="last must be at least 1, not 0"):
        probe((users, None), split, last=0)
