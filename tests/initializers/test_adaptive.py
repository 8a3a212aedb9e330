"""Row lengths of LEPORID, and settings chosen by a probe inside the training data."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import leporid
from leporid.embeddings import get
from leporid.embeddings.fit import cached_fit
from leporid.embeddings.probe import inner_split, with_fewer_users
from leporid.embeddings.row_norm import half_whitened, item_sums
from leporid.errors import ConfigError
from leporid.evaluation import probe


@pytest.fixture(scope="module")
def train() -> leporid.Interactions:
    return leporid.temporal_split(leporid.synthesize(90, 60, 2500, seed=4)).train


def test_popular_items_are_the_sum_of_their_users() -> None:
    train = leporid.synthesize(30, 20, 300, seed=3)
    matrix = train.csr()
    users = np.random.default_rng(1).standard_normal((train.n_users, 3)).astype(np.float32)
    dense = matrix.toarray() > 0
    expected = np.zeros((train.n_items, 3))
    for item in range(train.n_items):
        having = np.flatnonzero(dense[:, item])
        for user in having:
            expected[item] += users[user] / np.sqrt(dense[user].sum())
        expected[item] /= max(len(having), 1) ** 0.6
    found = item_sums(users, matrix, 0.6, 0.5)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("row_norm", ["unit", "popularity", "balanced"])
def test_rows_have_the_lengths_that_were_asked_for(train, row_norm) -> None:
    both = get("leporid")(dim=6, k=20, row_norm=row_norm).fit(train)
    plain = get("leporid")(dim=6, k=20).fit(train)
    sides = [(both.users, plain.users), (both.items, plain.items)]
    for side, before in sides[: 2 if row_norm == "unit" else 1]:
        norms = np.linalg.norm(side.vectors[~side.isolated], axis=1)
        np.testing.assert_allclose(norms, np.sqrt(6), rtol=1e-5)
        cosine = (side.vectors * before.vectors).sum(axis=1)[~side.isolated]
        cosine /= norms * np.linalg.norm(before.vectors[~side.isolated], axis=1)
        np.testing.assert_allclose(cosine, 1, rtol=1e-5)
    for side in (both.users, both.items):
        assert side.size == pytest.approx(1, rel=1e-5)
        # Models only scale them: z-scored columns would have other lengths.
        np.testing.assert_allclose(side.standardized(0.5).vectors, side.vectors / 2, rtol=1e-6)
    if row_norm == "popularity":
        unit = both.users.vectors / np.sqrt(np.float32(6))
        sums = item_sums(unit, train.csr(), 0.6, 0.5)
        factor = np.sqrt((both.items.vectors**2).sum() / (sums**2).sum())
        np.testing.assert_allclose(both.items.vectors, factor * sums, rtol=1e-4, atol=1e-5)


def test_balanced_vectors_of_singular_vectors_are_those_of_svd(train) -> None:
    matrix = train.csr()
    u, s, v = np.linalg.svd(matrix.toarray(), full_matrices=False)
    sums = item_sums(u[:, :6].astype(np.float32), matrix, 0.0, 0.0)
    found = half_whitened(sums).astype(np.float64)
    expected = v[:6].T * np.sqrt(s[:6])
    np.testing.assert_allclose(found @ found.T, expected @ expected.T, atol=1e-4)
    again = half_whitened(np.hstack([sums, np.zeros_like(sums[:, :2])]))
    np.testing.assert_allclose(again @ again.T, expected @ expected.T, atol=1e-4)
    assert np.isfinite(half_whitened(np.zeros((4, 3), np.float32))).all()


@pytest.mark.parametrize("row_norm", ["as-is", "balanced"])
def test_folded_in_users_are_the_mean_of_their_items(row_norm) -> None:
    train = leporid.synthesize(40, 25, 500, seed=2)
    # The last user has one item, which the mean must not shorten.
    last = np.flatnonzero(train.user == train.n_users - 1)
    keep = np.ones(len(train), dtype=bool)
    keep[last[1:]] = False
    train = train.select(keep)
    settings = {"dim": 5, "k": 12, "row_norm": row_norm}
    plain = get("leporid")(**settings).fit(train)
    both = get("leporid")(**settings, fold_in_users=True).fit(train)
    expected = np.array([
        plain.items.vectors[train.item[train.user == user]].mean(axis=0)
        for user in range(train.n_users)
    ])  # fmt: skip
    factor = np.linalg.norm(both.users.vectors) / np.linalg.norm(expected)
    np.testing.assert_allclose(both.users.vectors, factor * expected, rtol=1e-4, atol=1e-5)
    # Both sides are one space: models may scale them, but not z-score each side.
    for side in (both.users, both.items):
        assert side.size == pytest.approx(1, rel=1e-5)
        np.testing.assert_allclose(side.standardized(0.5).vectors, side.vectors / 2, rtol=1e-6)


def test_balanced_items_are_half_whitened_sums(train) -> None:
    both = get("leporid")(dim=6, k=20, row_norm="balanced", popularity_power=0.4).fit(train)
    unit = both.users.vectors / np.sqrt(np.float32(6))
    expected = half_whitened(item_sums(unit, train.csr(), 0.4, 0.0))
    factor = np.sqrt((both.items.vectors**2).sum() / (expected**2).sum())
    np.testing.assert_allclose(both.items.vectors, factor * expected, rtol=1e-3, atol=1e-4)


def test_auto_takes_what_predicts_held_out_training_items_best(train, tmp_path: Path) -> None:
    initializer = get("leporid")(dim=6, k=20, alpha="auto", row_norm="auto")
    both = initializer.fit(train)
    about = both.items.provenance
    values = [row["NDCG@10"] for row in about["candidates"]]
    assert len(values) == 14
    best = {**about["candidates"][int(np.argmax(values))]}
    del best["NDCG@10"]
    assert about["chosen"] == best
    settled = get("leporid")(dim=6, k=20, **best).fit(train)
    np.testing.assert_array_equal(both.items.vectors, settled.items.vectors)
    np.testing.assert_array_equal(both.users.vectors, settled.users.vectors)
    held_out = inner_split(train)
    again = get("leporid")(dim=6, k=20, **best).fit(held_out.train)
    assert probe(again, held_out).value()["items"] == pytest.approx(max(values), abs=1e-9)
    for _ in range(2):
        cached = cached_fit(initializer, train, cache_dir=tmp_path)
        np.testing.assert_array_equal(cached.items.vectors, both.items.vectors)


def test_each_candidate_has_the_value_of_its_own_settings(train) -> None:
    both = get("leporid")(dim=6, k=20, alpha="auto").fit(train)
    held_out, candidates = inner_split(train), both.items.provenance["candidates"]
    assert [row["alpha"] for row in candidates] == [0.0, 0.5]
    for candidate in candidates:
        settings = {name: value for name, value in candidate.items() if name != "NDCG@10"}
        alone = get("leporid")(dim=6, k=20, **settings).fit(held_out.train)
        value = probe(alone, held_out).value()["items"]
        assert candidate["NDCG@10"] == pytest.approx(value, abs=1e-9)
    assert candidates[0]["NDCG@10"] != candidates[1]["NDCG@10"]


def test_the_probe_of_many_users_judges_a_sample_of_them(train) -> None:
    split = inner_split(train)
    assert with_fewer_users(split) is split
    fewer = with_fewer_users(split, most=7)
    kept = np.unique(fewer.valid.user)
    assert len(kept) == 7
    of_kept = np.isin(split.valid.user, kept)
    np.testing.assert_array_equal(fewer.valid.item, split.valid.item[of_kept])
    assert fewer.train is split.train


def test_a_setting_that_is_given_is_kept(train) -> None:
    both = get("leporid")(dim=4, k=20, alpha=0.3, row_norm="auto").fit(train)
    assert {row["alpha"] for row in both.items.provenance["candidates"]} == {0.3}
    given = {"row_norm": "popularity", "popularity_power": 0.3}
    both = get("leporid")(dim=4, k=20, alpha="auto", **given).fit(train)
    assert {**both.items.provenance["chosen"], **given} == both.items.provenance["chosen"]


def test_other_values_are_refused() -> None:
    with pytest.raises(ConfigError, match="alpha"):
        get("leporid")(alpha="automatic")
    with pytest.raises(ConfigError, match="row_norm"):
        get("leporid")(row_norm="long")
    with pytest.raises(ConfigError, match="alpha"):
        get("leporid_content")(alpha="auto")
