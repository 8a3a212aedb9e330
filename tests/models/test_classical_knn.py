"""UserKNN and ItemKNN: similarities against brute force and similaripy, scores against sums."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import similaripy
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import sparse

from leporid.errors import ConfigError
from leporid.graph import canonical
from leporid.models.closed_form.itemknn import ItemKNN, KNNConfig, neighbour_weights, weigh
from leporid.models.closed_form.userknn import UserKNN
from tests.test_contract import make_split


def brute(x: NDArray[np.float64], other: NDArray[np.float64], c: KNNConfig) -> NDArray[np.float64]:
    """All similarities, pair by pair."""
    out = np.zeros((len(x), len(other)))
    for i, a in enumerate(x):
        for j, b in enumerate(other):
            shared, size, its = float(a @ b), a.sum(), b.sum()
            if shared == 0:
                continue
            if not c.normalize:
                out[i, j] = shared
                continue
            if c.similarity == "jaccard":
                below = size + its - shared
            elif c.similarity == "dice":
                shared, below = 2 * shared, size + its
            elif c.similarity == "cosine":
                below = np.sqrt(size * its)
            elif c.similarity == "asymmetric_cosine":
                below = size**c.asymmetric_alpha * its ** (1 - c.asymmetric_alpha)
            else:
                below = shared + c.tversky_alpha * (size - shared) + c.tversky_beta * (its - shared)
            out[i, j] = shared / (below + c.shrink)
    return out


def random_rows(seed: int, rows: int = 17, columns: int = 29) -> NDArray[np.float64]:
    rng = np.random.default_rng(seed)
    x = (rng.random((rows, columns)) < 0.5 * rng.random(rows)[:, None]).astype(np.float64)
    x[3] = 0.0
    return x


CONFIGS: list[dict[str, Any]] = [
    {},
    {"shrink": 3.0},
    {"similarity": "dice", "shrink": 2.0},
    {"similarity": "cosine"},
    {"similarity": "cosine", "shrink": 10.0},
    {"similarity": "cosine", "normalize": False},
    {"similarity": "asymmetric_cosine", "asymmetric_alpha": 0.2, "shrink": 1.5},
    {"similarity": "tversky", "tversky_alpha": 0.3, "tversky_beta": 1.4},
]


@settings(deadline=None, max_examples=40)
@given(seed=st.integers(0, 10_000), k=st.integers(1, 20), config=st.sampled_from(CONFIGS))
def test_similarities_are_those_of_brute_force(seed: int, k: int, config: dict[str, Any]) -> None:
    x = random_rows(seed)
    settings_ = KNNConfig(k=k, **config)
    dense = brute(x, x, settings_)
    np.fill_diagonal(dense, 0.0)
    found = neighbour_weights(canonical(sparse.csr_array(x)), settings_).toarray()
    wanted = -np.sort(-dense, axis=1)[:, :k]
    np.testing.assert_allclose(-np.sort(-found, axis=1)[:, :k], wanted, rtol=1e-5)
    np.testing.assert_allclose(found[found > 0], dense[found > 0], rtol=1e-5)


@settings(deadline=None, max_examples=15)
@given(seed=st.integers(0, 10_000))
def test_item_similarities_are_those_of_similaripy(seed: int) -> None:
    x = sparse.csr_array(random_rows(seed, 40, 23).T.astype(np.float32))
    common: dict[str, Any] = {"k": 40, "verbose": False, "format_output": "csr"}
    peers = {
        "jaccard": (similaripy.jaccard(x, shrink=2.0, **common), {}),
        "cosine": (similaripy.cosine(x, shrink=2.0, **common), {}),
        "asymmetric_cosine": (
            similaripy.asymmetric_cosine(x, alpha=0.3, shrink=2.0, **common),
            {"asymmetric_alpha": 0.3},
        ),
        "tversky": (
            similaripy.tversky(x, alpha=0.4, beta=1.2, shrink=2.0, **common),
            {"tversky_alpha": 0.4, "tversky_beta": 1.2},
        ),
    }
    for similarity, (peer, options) in peers.items():
        config = KNNConfig(k=40, similarity=similarity, shrink=2.0, **options)  # type: ignore[arg-type]
        ours = neighbour_weights(canonical(x), config).toarray()
        expected = peer.toarray()
        np.fill_diagonal(expected, 0.0)
        np.testing.assert_allclose(ours, expected, rtol=1e-4, atol=1e-6, err_msg=similarity)


def dense_weights(
    profiles: NDArray[np.float64], train: NDArray[np.float64], weighting: str
) -> NDArray[np.float64]:
    """Entry by entry as in the study's program: items are documents, people are terms."""
    out = np.zeros_like(profiles)
    n_items, popularity = train.shape[1], train.sum(axis=0)
    for user, item in zip(*np.nonzero(profiles), strict=True):
        idf = np.log(n_items / (1 + profiles[user].sum()))
        length_norm = 0.25 + 0.75 * popularity[item] / popularity.mean()
        tf = 1.0 if weighting == "tfidf" else (1.2 + 1) / (1.2 * length_norm + 1)
        out[user, item] = tf * idf
    return out


WEIGHTED: list[dict[str, Any]] = [
    {"similarity": "cosine", "weighting": "tfidf", "shrink": 3.0},
    {"similarity": "cosine", "weighting": "bm25"},
    {"similarity": "cosine", "weighting": "bm25", "normalize": False},
    {"similarity": "asymmetric_cosine", "asymmetric_alpha": 0.2, "weighting": "tfidf"},
    {
        "similarity": "asymmetric_cosine",
        "asymmetric_alpha": 0.9,
        "weighting": "bm25",
        "shrink": 2.0,
    },
]


def dense_cosines(
    x: NDArray[np.float64], other: NDArray[np.float64], c: KNNConfig
) -> NDArray[np.float64]:
    products = x @ other.T
    if not c.normalize:
        return np.asarray(products)
    share = c.asymmetric_alpha if c.similarity == "asymmetric_cosine" else 0.5
    lengths, others = np.linalg.norm(x, axis=1), np.linalg.norm(other, axis=1)
    below = lengths[:, None] ** (2 * share) * others[None, :] ** (2 - 2 * share) + c.shrink
    return np.divide(products, below, out=np.zeros_like(products), where=products > 0)


@pytest.mark.parametrize("config", WEIGHTED)
def test_weighted_models_are_their_dense_formulas(config: dict[str, Any]) -> None:
    split, everyone = make_split(), np.arange(31, dtype=np.int32)
    train, known = (p.csr().toarray().astype(float) for p in (split.train, split.train_valid))
    voters, asked = (dense_weights(x, train, config["weighting"]) for x in (train, known))
    items = ItemKNN(k=3, **config).fit(split)
    dense = dense_cosines(voters.T, voters.T, items.config)
    np.fill_diagonal(dense, 0.0)
    near = np.argsort(-np.round(dense, 9), axis=1, kind="stable")[:, :3]
    scores = items.score(everyone)
    for item in range(17):
        expected = asked[:, near[item]] @ dense[item, near[item]]
        np.testing.assert_allclose(scores[:, item], expected, rtol=1e-4, atol=1e-6)
    users = UserKNN(k=4, **config).fit(split)
    dense = dense_cosines(asked, voters, users.config)
    strangers = users.score_histories([split.train_valid.sequences().of(u) for u in range(31)])
    for weights, found in ((dense, strangers), (dense * (1 - np.eye(31)), users.score(everyone))):
        near = np.argsort(-np.round(weights, 9), axis=1, kind="stable")[:, :4]
        for user in range(31):
            expected = weights[user, near[user]] @ voters[near[user]]
            np.testing.assert_allclose(found[user], expected, rtol=1e-4, atol=1e-6)


@settings(deadline=None, max_examples=15)
@given(seed=st.integers(0, 10_000), weighting=st.sampled_from(["tfidf", "bm25"]))
def test_weighted_cosines_are_those_of_similaripy(seed: int, weighting: str) -> None:
    binary = canonical(sparse.csr_array(random_rows(seed, 40, 23)))
    x = sparse.csr_array(weigh(binary, binary, weighting).toarray().T)
    peer = similaripy.cosine(x, k=40, shrink=2.0, verbose=False, format_output="csr").toarray()
    np.fill_diagonal(peer, 0.0)
    config = KNNConfig(k=40, similarity="cosine", shrink=2.0, weighting=weighting)  # type: ignore[arg-type]
    ours = neighbour_weights(canonical(x), config).toarray()
    np.testing.assert_allclose(ours, peer, rtol=1e-4, atol=1e-6)


def test_user_scores_sum_what_the_neighbours_have() -> None:
    split = make_split()
    train = split.train.csr().toarray().astype(np.float64)
    model = UserKNN(k=4, similarity="asymmetric_cosine", asymmetric_alpha=0.3).fit(split)
    known = split.train_valid.csr().toarray().astype(np.float64)
    dense = brute(known, train, model.config)
    np.fill_diagonal(dense, 0.0)
    scores = model.score(np.arange(31, dtype=np.int32))
    for user in range(31):
        near = np.argsort(-dense[user].astype(np.float32), kind="stable")[:4]
        np.testing.assert_allclose(scores[user], dense[user, near] @ train[near], rtol=1e-5)


def test_item_scores_sum_over_the_neighbours_of_the_target() -> None:
    """The K nearest are those of the item that is scored, not of the item in the profile."""
    split = make_split()
    train = split.train.csr().toarray().astype(np.float64)
    model = ItemKNN(k=3, similarity="asymmetric_cosine", asymmetric_alpha=0.1).fit(split)
    dense = brute(train.T, train.T, model.config)
    np.fill_diagonal(dense, 0.0)
    known = split.train_valid.csr().toarray().astype(np.float64)
    scores = model.score(np.arange(31, dtype=np.int32))
    for item in range(17):
        near = np.argsort(-dense[item].astype(np.float32), kind="stable")[:3]
        np.testing.assert_allclose(scores[:, item], known[:, near] @ dense[item, near], rtol=1e-5)


def test_a_new_user_is_compared_with_the_fitted_ones() -> None:
    split = make_split()
    train = split.train.csr().toarray().astype(np.float64)
    model = UserKNN(k=5).fit(split)
    histories = [np.array([4, 0, 9], dtype=np.int32), np.array([16], dtype=np.int32)]
    rows = np.zeros((2, 17))
    rows[0, [4, 0, 9]] = 1.0
    rows[1, 16] = 1.0
    dense = brute(rows, train, model.config)
    scores = model.score_histories(histories)
    for row in range(2):
        near = np.argsort(-dense[row].astype(np.float32), kind="stable")[:5]
        np.testing.assert_allclose(scores[row], dense[row, near] @ train[near], rtol=1e-5)


def test_an_item_model_scores_a_history_like_the_user_who_has_it() -> None:
    split = make_split()
    model = ItemKNN(k=5).fit(split)
    history = split.train_valid.sequences().of(11)
    np.testing.assert_allclose(
        model.score_histories([history])[0], model.score(np.array([11], dtype=np.int32))[0]
    )


def test_nobody_is_their_own_neighbour() -> None:
    """One row has everything user 2 has, and it is that of user 2."""
    split = make_split()
    model = UserKNN(k=1, shrink=0.0, window=None).fit(split)
    train = split.train.csr().toarray()
    alone = model.score(np.array([2], dtype=np.int32), split.train.sequences())[0]
    assert not np.array_equal(alone > 0, train[2] > 0)
    stranger = model.score_histories([split.train.sequences().of(2)])[0]
    np.testing.assert_array_equal(stranger, train[2])


def test_settings_without_meaning_are_refused() -> None:
    for cls in (UserKNN, ItemKNN):
        for wrong in (
            {"k": 0},
            {"window": 0},
            {"shrink": -1.0},
            {"asymmetric_alpha": 1.5},
            {"tversky_beta": -0.1},
            {"normalize": False},
            {"weighting": "bm25"},
        ):
            with pytest.raises(ConfigError, match=next(iter(wrong))):
                cls(**wrong)
        with pytest.raises(ConfigError, match="did you mean 'jaccard'"):
            cls(similarity="jacard")
