"""The linear part beside a network, and the window of profiles."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import leporid
from leporid.data import Interactions, Split
from leporid.errors import LeporidWarning
from leporid.machine import torch_threads
from leporid.models import Recommender
from leporid.models.closed_form.history_window import choose_history_window
from leporid.models.closed_form.slim import SLIM
from leporid.models.neural import linear_part
from leporid.models.neural.dlr2 import DLR2Config
from leporid.models.neural.linear_part import choose_gain
from tests.models.test_include_seen import groceries

USERS = np.arange(20, dtype=np.int32)
SETTINGS: dict[str, Any] = {
    "steps": 4, "eval_every": 2, "dim": 8, "progress": False, "device": "cpu",
}  # fmt: skip


@pytest.fixture(scope="module")
def split() -> Split:
    return leporid.temporal_split(leporid.synthesize(80, 40, 1500, seed=3))


@pytest.fixture(scope="module", params=["dlr2", "sasrec"])
def model(split: Split, request: Any) -> Any:
    return trained(request.param, split, linear_gain=8.0)


def trained(name: str, split: Split, **more: Any) -> Any:
    own = {"channels": 2} if name == "dlr2" else {"max_history": 10}
    return leporid.train(name, split, init="svd", **SETTINGS, **own, **more)


def test_scores_are_the_networks_and_the_gain_times_slims(split: Split, model: Any) -> None:
    alone = trained(model.name, split, linear_gain=0.0)
    l1, l2 = model.config.linear_penalties
    slim = SLIM(l1=l1, l2=l2).fit(split, progress=False)
    expected = alone.score(USERS) + 8.0 * slim.score(USERS)
    np.testing.assert_allclose(model.score(USERS), expected, rtol=1e-4, atol=1e-5)
    histories = [split.train.sequences().of(user) for user in range(5)]
    expected = alone.score_histories(histories) + 8.0 * slim.score_histories(histories)
    np.testing.assert_allclose(model.score_histories(histories), expected, rtol=1e-4, atol=1e-5)
    assert (alone.vectors_rank, model.vectors_rank) == ("everything", "first stage")


def test_scores_made_in_place_and_a_kept_size_change_no_bit(split: Split) -> None:
    again = trained("dlr2", split, linear_gain=8.0)
    net, histories = again.network, again.known.sequences().take(USERS)

    def plain() -> Any:
        with torch.no_grad():
            recent = again._recent(None, USERS)
            g = net.target(net.state(net.users(torch.from_numpy(USERS).long()), recent))
            scores = (g @ net.items.weight.T).float() * net.log_temperature.exp() + net.bias
        return (scores + 8.0 * torch.from_numpy(again.linear.scores(histories))).numpy()

    with torch_threads(1):
        np.testing.assert_array_equal(again.score(USERS), plain())
        before = float(net.item_size())
        with torch.no_grad():
            net.items.weight.mul_(2.0)
        again.weights_changed()
        assert float(net.item_size()) == 2.0 * before
        np.testing.assert_array_equal(again.score(USERS), plain())
        with torch.no_grad():
            net.items.weight.mul_(2.0)
        assert float(net.train().item_size()) == 4.0 * before  # in training nothing is kept


def test_it_is_saved_and_refitted(split: Split, model: Any, tmp_path: Path) -> None:
    loaded: Any = Recommender.load(model.save(tmp_path / "m"))
    np.testing.assert_array_equal(loaded.score(USERS), model.score(USERS))
    final = loaded.refit(split, device="cpu")
    assert final.linear.gain == loaded.config.linear_gain == 8.0
    assert len(final.train) == len(split.train) + len(split.valid) + len(split.test)


def test_it_learns_repeats_and_so_does_a_refit(tmp_path: Path) -> None:
    split = leporid.temporal_split(groceries())
    how = {"init": "svd", "linear_gain": 8.0, "include_seen": True, **SETTINGS}
    model: Any = leporid.train("dlr2", split, **how)
    loaded: Any = Recommender.load(model.save(tmp_path / "m"))
    np.testing.assert_array_equal(loaded.score(USERS), model.score(USERS))
    assert model.linear.model.config.repeats > 0
    assert loaded.refit(split, device="cpu").linear.model.config.repeats > 0


def test_an_extended_model_keeps_it(split: Split, model: Any) -> None:
    known = model.known
    more = leporid.load({"user": [9000, 9000], "item": [0, 7000], "time": [1, 2]})
    wider = model.extend(interactions=more)
    place = wider.items.encode(known.items.ids)
    assert len(wider.items) == len(known.items) + 1
    history = known.sequences().take(USERS)
    old = model.linear.scores(history)
    moved = [place[history.of(row)] for row in range(len(USERS))]
    new = wider.linear.scores(type(history).from_rows(moved))
    np.testing.assert_array_equal(new[:, place], old)
    # The new item shares a user with item 0 alone, and says what that one says.
    np.testing.assert_allclose(np.delete(new, place, axis=1)[:, 0], old[:, known.items.index(0)])
    assert old[:, known.items.index(0)].any()


@pytest.mark.parametrize(
    ("informed", "gains"), [("network", {0.0}), ("linear", {16.0, 32.0, 64.0, 128.0})]
)
def test_the_gain_is_large_where_the_linear_part_alone_knows(
    split: Split, informed: str, gains: set[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One part scores the held-out items by 1, the other draws numbers."""
    targets = split.valid.csr().toarray().astype(np.float32)
    noise = np.random.default_rng(0).standard_normal(targets.shape).astype(np.float32)
    network, linear = (targets, np.abs(noise)) if informed == "network" else (5 * noise, targets)
    found = choose_gain(network.__getitem__, linear.__getitem__, split)
    assert found in gains
    monkeypatch.setattr(linear_part, "MAX_SCORES", 10 * split.n_items)  # ten users at a time
    assert choose_gain(network.__getitem__, linear.__getitem__, split) == found


def test_without_validation_there_is_none_to_choose(split: Split) -> None:
    nothing = split.train.select(np.empty(0, np.int64))
    model: Any = leporid.train(
        "dlr2", replace(split, valid=nothing), init="svd", **{**SETTINGS, "eval_every": 0}
    )
    assert (model.config.linear_gain, model.linear) == (0.0, None)


def test_a_catalogue_that_is_too_large_has_none(
    split: Split, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(linear_part, "_PAIRS", 100.0)
    auto = DLR2Config(linear_gain="auto")
    with pytest.warns(LeporidWarning, match="40 items with long histories"):
        found = linear_part.fit_linear_part(lambda *_: np.zeros(1), auto, split)
    assert found is None


def successors(n_users: int, length: int, n_items: int, seed: int) -> Interactions:
    """Users who walk through a cycle of items and jump now and then: the last item says it all."""
    draw = np.random.default_rng(seed)
    jumps = draw.random((n_users, length)) < 0.15
    steps = np.where(jumps, draw.integers(0, n_items, jumps.shape), 1)
    item = np.cumsum(steps, axis=1) % n_items
    user, time = np.divmod(np.arange(n_users * length), length)
    return leporid.load({"user": user, "item": item.ravel(), "time": time})


def test_the_window_is_short_where_the_last_items_tell_the_next() -> None:
    log = successors(300, 30, 200, seed=1)
    assert choose_history_window(log) == 5
    assert choose_history_window(replace(log, time=None)) is None
    model = SLIM().fit(leporid.temporal_split(log))
    assert model.config.window == 5
    assert repr(model).startswith("SLIM(fitted on")


def test_the_window_is_everything_where_order_says_nothing() -> None:
    """Each user likes two groups of items out of ten, one of them more, in any order."""
    draw = np.random.default_rng(0)
    groups = np.arange(1000).reshape(10, 100)
    item = []
    for _ in range(600):
        much, little = groups[draw.permutation(10)[:2]]
        own = np.concatenate([draw.choice(much, 24, False), draw.choice(little, 6, False)])
        item.append(draw.permutation(own))
    user, time = np.divmod(np.arange(600 * 30), 30)
    log = leporid.load({"user": user, "item": np.concatenate(item), "time": time})
    assert choose_history_window(log) is None
