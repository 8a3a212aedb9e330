"""`ColdItems`: the scores of cold items follow the formula, wherever a extended model is asked.

The formula against plain numpy, the share of the first ranks, the weight of content, vectors whose
products are the scores, saved models and their tampered copies, and extension upon extension.
"""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from leporid.data import Interactions, Sequences, synthesize
from leporid.errors import DataError
from leporid.foundation import read_arrays, write_arrays, write_manifest
from leporid.interop import export_model
from leporid.models import Recommender, everything, train
from leporid.models.neural import cold_items as cold_start
from leporid.models.neural import table_growth
from leporid.models.neural.cold_items import ColdItems
from leporid.models.neural.dlr2 import model as dlr2
from leporid.ranking import masked_top_k
from tests.models.rankings import check_ranking
from tests.models.test_extension import N_USERS, NEW, fitted, log, table

EVERYONE = np.arange(60, dtype=np.int32)
OLD = np.arange(N_USERS, dtype=np.int32)
FEW_CHANNELS: dict[str, Any] = {"channels": 4, "batch_size": 32}
WITH_VECTORS: list[tuple[str, dict[str, Any]]] = [
    ("bpr", {}),
    ("lightgcn", {}),
    ("sasrec", {"max_history": 12, "layers": 1}),
    ("dlr2", {"recipe": "general", "profile_items": 8, **FEW_CHANNELS}),
    ("dlr2", {"inference": "generative", **FEW_CHANNELS}),
]


def trained(name: str, data: Interactions, **settings: Any) -> Any:
    settings = {"dim": 8, "steps": 20, "eval_every": 0, "recipe": None, "lr": 0.02, **settings}
    return train(name, everything(data), None, seed=1, device="cpu", progress=False, **settings)


@functools.cache
def many(name: str, **settings: Any) -> Any:
    """A model of 60 users and 150 items."""
    return trained(name, synthesize(60, 150, 1200, seed=4), **settings)


@functools.cache
def small() -> Any:
    """The model of `test_extension`."""
    return fitted(steps=40)


def about(model: Any, *new: int) -> dict[str, Any]:
    """A table of the model's items and of new ones."""
    ids = [*model.items.ids.to_pylist(), *new]
    return {"item_id": ids, "genres": [[f"g{n % 7}", f"s{n % 5}"] for n in range(len(ids))]}


def had(items: dict[int, int]) -> dict[str, list[Any]]:
    """A log in which as many of the first users as the values say have had each item."""
    pairs = [(f"u{n:02d}", item) for item, count in items.items() for n in range(count)]
    user, item = ([pair[side] for pair in pairs] for side in (0, 1))
    return {"user_id": user, "item_id": item, "time": [9000] * len(pairs)}


def user_content(content: NDArray[Any], newest: NDArray[Any]) -> NDArray[Any]:
    """The mean content of each user's newest items, user by user."""
    means = np.zeros((len(newest), content.shape[1]))
    for user, items in enumerate(newest):
        rows = [content[item] for item in items if item >= 0 and content[item].any()]
        if rows:
            means[user] = np.mean(rows, axis=0)
    return means


def share(model: Any, new: NDArray[Any]) -> float:
    """Of the first ten ranks of everyone, what some items have."""
    return float(np.isin(model.top_k(EVERYONE, 10).items, new).mean())


# -- the formula --------------------------------------------------------------------------


def test_new_columns_follow_the_formula_and_old_ones_keep_every_bit() -> None:
    rng = np.random.default_rng(0)
    content = rng.normal(size=(12, 4))
    content /= np.linalg.norm(content, axis=1, keepdims=True)
    content[[2, 6]] = 0
    scores = rng.normal(size=(5, 12))
    newest = rng.integers(-1, 12, (5, 6))
    newest[0], newest[1], newest[2] = -1, [2, 6, -1, -1, -1, -1], [3, 2, -1, 8, 2, 6]
    items, a, c = np.array([3, 7, 11]), 1.7, np.array([0.4, 0.0, 1.1])
    mean, t = 0.3, 0.05
    parts = [content, [a], a * c, mean - a * (mean + c * t)]
    new = ColdItems(torch.from_numpy(items), *(torch.tensor(p).float() for p in parts))
    given = torch.from_numpy(scores).float()
    before = given.clone()
    adjusted = new.adjust(given, torch.from_numpy(newest))
    like = user_content(content, newest) @ content[items].T
    expected = mean + a * (scores[:, items] - mean + c * (like - t))
    np.testing.assert_allclose(adjusted[:, items], expected, atol=1e-5)
    old = np.setdiff1d(np.arange(12), items)
    assert torch.equal(adjusted[:, old], given[:, old])
    assert torch.equal(given, before)


def test_the_numbers_of_a_extended_model_are_those_of_the_formula() -> None:
    """Content has a quarter of the spread of scores, less with interactions, none from ten on."""
    model = fitted(steps=80)
    words = table(model.known)
    words = {"item_id": [*words["item_id"], 5], "genres": [*words["genres"], ["g0", "s1"]]}
    extended = model.extend(words, had({5: 5, 14: 10}), cold_item_share=5.0)
    new = extended.cold_items
    items = np.array([extended.items.index(item) for item in (5, 14, 38)])
    np.testing.assert_array_equal(new.items, items)
    scores, extended.cold_items = extended.score(OLD), None
    s, content = extended.score(OLD).astype(np.float64), new.content.numpy()
    mean = np.delete(s, items, axis=1).mean()
    like = user_content(content, extended.newest(None, OLD).numpy()) @ content[items].T
    c = np.array([0.5, 0.0, 1.0]) * 0.25 * s[:, items].std() / like.std()
    a = float(new.scale)
    np.testing.assert_allclose(new.weight, a * c, rtol=1e-4)
    expected = mean + a * (s[:, items] - mean + c * (like - like.mean()))
    np.testing.assert_allclose(scores[:, items], expected, atol=1e-5)


def test_content_decides_between_items_with_the_same_users() -> None:
    model = fitted(steps=80)
    with mock.patch.object(table_growth, "_CONTENT_NEIGHBOURS", 0):  # rows by users alone
        extended = model.extend(table(model.known), had(dict.fromkeys(NEW, 4)))
        with mock.patch.object(cold_start, "CONTENT_WEIGHT", 0.0):
            without = model.extend(table(model.known), had(dict.fromkeys(NEW, 4)))
    first, second = (extended.items.index(item) for item in NEW)
    scores = extended.score(OLD)
    apart = scores[:, first] - scores[:, second]
    assert apart[::2].mean() > 0 > apart[1::2].mean()
    scores = without.score(OLD)
    np.testing.assert_allclose(scores[:, first], scores[:, second], atol=1e-6)


# -- the share of the first ranks --------------------------------------------------------


def best_scores() -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Of 80 users: the best four new items, and the first ten old ones, each best first."""
    rng = np.random.default_rng(5)
    parts = rng.normal(0.5, 0.6, (80, 4)), rng.uniform(0.5, 3, (80, 10))
    new, old = (-np.sort(-part, axis=1).astype(np.float32) for part in parts)
    return new, old


def taken(a: float, new: NDArray[np.float32], old: NDArray[np.float32]) -> float:
    """The share of the first ten ranks that new items have when all are sorted."""
    order = np.argsort(-np.concatenate([a * new, old], axis=1), axis=1)[:, :10]
    return float((order < new.shape[1]).mean())


@pytest.mark.parametrize("expected", [0.02, 0.1, 0.2])
def test_the_scale_is_the_largest_below_the_share(expected: float) -> None:
    grid = np.exp(np.linspace(np.log(0.1), np.log(5), 4000))
    shares = np.array([taken(a, *best_scores()) for a in grid])
    assert shares[0] < expected < shares[-1]
    last = int(np.flatnonzero(shares < expected)[-1])
    found = cold_start._scale_for(expected, *best_scores())
    assert grid[last] * 0.99999 <= found <= grid[last + 1] * 1.00001


def test_ranks_that_no_scale_takes_away_are_taken_by_a_shift() -> None:
    model, words = small(), table(small().known)
    for share_of, most in ((0.0, 0.0), (0.5, 0.5 * 2 / 33 + 1 / 400)):  # rounding: a rank
        extended = model.extend(words, cold_item_share=share_of)
        top = extended.top_k(OLD, 10).items
        assert np.isin(top, extended.cold_items.items).mean() <= most


def test_no_share_is_no_rank() -> None:
    assert taken(cold_start._scale_for(0.0, *best_scores()), *best_scores()) == 0


def test_scores_below_zero_leave_new_items_their_share() -> None:
    """Where S is a distance, multiplying scores would push new items the wrong way."""
    model = many("dlr2", recipe="paper", architecture="no_conv", steps=60, lr=0.003, batch_size=32)
    for share_of in (1.0, 2.5):
        extended = model.extend(about(model, *range(1000, 1015)), cold_item_share=share_of)
        assert (extended.score(EVERYONE) < 0).mean() > 0.9
        expected = share_of * 15 / 165
        assert abs(share(extended, extended.cold_items.items.numpy()) - expected) < 0.2 * expected


# -- vectors and lists --------------------------------------------------------------------


@pytest.mark.parametrize(("name", "settings"), WITH_VECTORS)
def test_products_of_vectors_are_the_scores(
    name: str, settings: dict[str, Any], tmp_path: Path
) -> None:
    model = many(name, **settings)
    extended = model.extend(about(model, *range(1000, 1015)), cold_item_share=2.0)
    assert extended.vectors_rank == "everything"
    scores, items = extended.score(EVERYONE), extended.item_vectors()
    near = 1e-5 * float(np.ptp(scores))
    products = extended.user_vectors(extended.known.sequences(), EVERYONE) @ items.T
    np.testing.assert_allclose(products, scores, atol=near)
    new = int(extended.cold_items.items[0])
    histories = [np.array(h, np.int32) for h in ([4, 1, 7], [2], [9, new, 30])]
    strangers = extended.user_vectors(Sequences.from_rows(histories)) @ items.T
    np.testing.assert_allclose(strangers, extended.score_histories(histories), atol=near)
    parity = export_model(extended, tmp_path / "out", to="parquet")
    assert parity is not None
    assert (parity.users, parity.equal) == (60, 60)


def test_a_history_is_scored_as_the_user_who_has_it() -> None:
    model = many("sasrec", max_history=12, layers=1)
    extended = model.extend(about(model, *range(1000, 1015)))
    known = extended.known.sequences()
    scores = extended.score_histories([known.of(user) for user in range(60)])
    np.testing.assert_allclose(scores, extended.score(EVERYONE), atol=1e-5)


def test_lists_of_many_by_s_are_those_of_full_scores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dlr2, "CANDIDATES", 40)
    how: dict[str, Any] = {"architecture": "no_conv", "steps": 30, "batch_size": 32}
    model = trained("dlr2", synthesize(400, 120, 4000, seed=1), **how)
    users = np.arange(400, dtype=np.int32)
    excluded = model.known.sequences()
    assert len(users) >= dlr2._WORTH_ANCHORS
    assert model.retrieve(users, 10, 40, excluded=excluded) is not None
    extended = model.extend(about(model, *range(1000, 1012)), cold_item_share=2.0)
    assert extended.retrieve(users, 10, 40, excluded=excluded) is None
    scores = extended.score(users)
    full = masked_top_k(scores, 10, seen=extended.known.sequences())
    assert np.isin(full.items, extended.cold_items.items).any()
    check_ranking(extended.top_k(users, 10).items, full.items, scores)
    listed = extended.recommend_frame(progress=False)["item"].to_pylist()
    check_ranking(extended.items.encode(listed).reshape(400, 10), full.items, scores)


# -- saved models -------------------------------------------------------------------------


@pytest.mark.parametrize("mapped", [False, True])
@pytest.mark.parametrize("name", ["bpr", "sasrec"])
def test_a_loaded_model_gives_the_same_bits(name: str, mapped: bool, tmp_path: Path) -> None:
    model = fitted(name, steps=5)
    extended = model.extend(table(model.known))
    again = Recommender.load(extended.save(tmp_path / "extended"), mapped=mapped)
    np.testing.assert_array_equal(again.score(OLD), extended.score(OLD))
    users = model.extend(interactions=had({14: 3}))  # without content
    again = Recommender.load(users.save(tmp_path / "users"), mapped=mapped)
    np.testing.assert_array_equal(again.score(OLD), users.score(OLD))


@pytest.mark.parametrize(
    ("part", "change", "says"),
    [
        ("content", lambda array: array[:-1], "do not go with 33 items"),
        ("content", lambda array: array[:, 0], "do not go with 33 items"),
        ("content", lambda array: array.astype(np.float64), "do not go with 33 items"),
        ("items", lambda array: array + 31, "do not go with 33 items"),
        ("items", lambda array: array - 31, "do not go with 33 items"),
        ("items", lambda array: array.astype(np.float32), "do not go with 33 items"),
        ("items", lambda array: array[:1], "do not go with 33 items"),
        ("scale", lambda array: np.repeat(array, 2), "do not go with 33 items"),
        ("weight", lambda array: array[:1], "do not go with 33 items"),
        ("shift", lambda array: array * np.nan, "NaN or infinite"),
        ("shift", None, "lack the array 'cold_items.shift'"),
        ("items", None, "lack the array 'cold_items.items'"),
        ("more", np.zeros, "unexpected or missing cold_items.more"),
    ],
)
def test_what_was_tampered_with_is_refused(
    part: str, change: Any, says: str, tmp_path: Path
) -> None:
    model = small()
    path = model.extend(table(model.known)).save(tmp_path / "extended")
    arrays, _ = read_arrays(path / "weights.safetensors")
    before = arrays.pop(f"model.cold_items.{part}", 3)
    if change is not None:
        arrays[f"model.cold_items.{part}"] = np.ascontiguousarray(change(before))
    write_arrays(path / "weights.safetensors", arrays)
    write_manifest(path, "model", "model.json", "weights.safetensors")
    with pytest.raises(DataError, match=says) as refused:
        Recommender.load(path)
    assert "\n" not in str(refused.value)


# -- extension upon extension -------------------------------------------------------------------


def test_earlier_new_items_stay_cold_and_share_the_ranks() -> None:
    model = many("bpr")
    once = model.extend(about(model, *range(1000, 1010)), cold_item_share=2.0)
    twice = once.extend(about(once, *range(500, 510)), cold_item_share=2.0)
    both = [[twice.items.index(first + n) for n in range(10)] for first in (500, 1000)]
    np.testing.assert_array_equal(twice.cold_items.items, np.sort(np.ravel(both)))
    expected = 2 * 20 / 170
    assert abs(share(twice, np.ravel(both)) - expected) < 0.2 * expected
    assert all(share(twice, np.array(part)) > 0.1 * expected for part in both)


def test_content_outlives_a_growth_without_a_table() -> None:
    once = small().extend(table(small().known))
    twice = once.extend(interactions=had({5: 3}))
    moved = twice.items.encode(once.items.ids)
    content = np.zeros((34, once.cold_items.content.shape[1]), np.float32)
    content[moved] = once.cold_items.content
    np.testing.assert_array_equal(twice.cold_items.content, content)
    assert (twice.cold_items.weight[1:] > 0).all()


@pytest.mark.parametrize("name", ["bpr", "sasrec"])
def test_new_users_alone_change_no_score(name: str) -> None:
    model = fitted(name, steps=5)
    once = model.extend(table(model.known))
    news = {"user_id": ["a", "a", "z"], "item_id": [14, 10, 38], "time": [9000, 9001, 9002]}
    more = once.extend(interactions=news)
    assert len(more.users) == N_USERS + 2
    old = more.users.encode(once.users.ids)
    np.testing.assert_allclose(more.score(old), once.score(OLD), rtol=1e-5, atol=1e-6)
    for now, before in zip(*(vars(m.cold_items).values() for m in (more, once)), strict=True):
        assert torch.equal(now, before)


def test_a_length_leaves_the_scores_to_the_network() -> None:
    model = small()
    extended = model.extend(table(model.known), length=1.0)
    assert extended.cold_items is None
    product = extended.net.users.weight @ extended.net.items.weight.T
    np.testing.assert_allclose(extended.score(OLD), product.detach(), atol=1e-6)
    # After it the cold items of an earlier extension are where their items have moved to.
    once = model.extend(table(model.known))
    words = table(once.known)
    words = {"item_id": [5, *words["item_id"][:-2]], "genres": [["g1"], *words["genres"][:-2]]}
    twice = once.extend(words, length=1.0)
    assert twice.items.index(5) == 0
    np.testing.assert_allclose(twice.score(OLD)[:, 1:], once.score(OLD), atol=1e-6)
    product = twice.net.users.weight @ twice.net.items.weight[0]
    np.testing.assert_allclose(twice.score(OLD)[:, 0], product.detach(), atol=1e-6)


def test_another_fit_forgets_the_cold_items() -> None:
    extended = fitted(steps=5).extend(table(log()))
    assert extended.cold_items is not None
    extended.fit(everything(extended.known), seed=1, device="cpu", progress=False)
    assert extended.cold_items is None
    product = extended.net.users.weight @ extended.net.items.weight.T
    np.testing.assert_allclose(extended.score(OLD), product.detach(), atol=1e-6)
