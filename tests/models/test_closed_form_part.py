"""The closed-form part beside a network, and the window of profiles."""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import leporid
from leporid.data import Interactions, Split
from leporid.errors import DataError, LeporidWarning
from leporid.foundation import torch_threads
from leporid.models import Recommender
from leporid.models.closed_form.history_window import (
    choose_history_window,
    ndcg_per_user,
    sample_validation_users,
)
from leporid.models.closed_form.slim import SLIM
from leporid.models.closed_form.transitions import Transitions
from leporid.models.neural import closed_form_part, component_weights
from leporid.models.neural.closed_form_part import ClosedFormPart
from leporid.models.neural.component_weights import choose_weights
from leporid.models.neural.dlr2 import DLR2Config
from tests.models.test_include_seen import groceries

USERS = np.arange(20, dtype=np.int32)
SETTINGS: dict[str, Any] = {
    "steps": 4, "eval_every": 2, "dim": 8, "progress": False, "device": "cpu",
}  # fmt: skip
BOTH = {"linear_weight": 8.0, "transitions_weight": 2.0}
NONE = {"linear_weight": 0.0, "transitions_weight": 0.0}
GRID = (0.0, 0.5, 1.0, 2.0, 4.0, 8.0)


@pytest.fixture(scope="module")
def split() -> Split:
    return leporid.temporal_split(leporid.synthesize(80, 40, 1500, seed=3))


@pytest.fixture(scope="module", params=["dlr2", "sasrec"])
def model(split: Split, request: Any) -> Any:
    return trained(request.param, split, **BOTH)


def trained(name: str, split: Split, **more: Any) -> Any:
    own = {"channels": 2} if name == "dlr2" else {"max_history": 10}
    return leporid.train(name, split, init="svd", **SETTINGS, **own, **more)


def test_scores_are_the_networks_and_the_weighted_models(split: Split, model: Any) -> None:
    alone = trained(model.name, split, **NONE)
    l1, l2 = model.config.linear_penalties
    slim = SLIM(l1=l1, l2=l2).fit(split, progress=False)
    transitions = Transitions(popularity=0.0).fit(split, progress=False)
    expected = alone.score(USERS) + 8.0 * slim.score(USERS) + 2.0 * transitions.score(USERS)
    np.testing.assert_allclose(model.score(USERS), expected, rtol=1e-4, atol=1e-5)
    histories = [split.train.sequences().of(user) for user in range(5)]
    expected = sum(
        weight * each.score_histories(histories)
        for weight, each in ((1.0, alone), (8.0, slim), (2.0, transitions))
    )
    np.testing.assert_allclose(model.score_histories(histories), expected, rtol=1e-4, atol=1e-5)
    assert (alone.vectors_rank, model.vectors_rank) == ("everything", "first stage")


def test_each_weight_alone_is_one_model_beside_the_network(split: Split) -> None:
    for setting, name in (("linear_weight", "slim"), ("transitions_weight", "transitions")):
        model = trained("sasrec", split, **(NONE | {setting: 4.0}))
        [component] = model.closed_form.components
        assert (component.model.name, component.weight) == (name, 4.0)


def test_scores_made_in_place_and_a_kept_size_change_no_bit(split: Split) -> None:
    again = trained("dlr2", split, **BOTH)
    net, histories = again.network, again.known.sequences().take(USERS)

    def plain() -> Any:
        with torch.no_grad():
            recent = again._recent(None, USERS)
            g = net.target(net.state(net.users(torch.from_numpy(USERS).long()), recent))
            scores = (g @ net.items.weight.T).float() * net.log_temperature.exp() + net.bias
        for model, weight in again.closed_form.components:
            scores = scores + weight * torch.from_numpy(model.score_profile(histories))
        return scores.numpy()

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
    weights = {each.model.name: each.weight for each in final.closed_form.components}
    assert weights == {"slim": 8.0, "transitions": 2.0}
    assert BOTH.items() <= loaded.config.to_dict().items()
    assert len(final.train) == len(split.train) + len(split.valid) + len(split.test)


def test_damaged_settings_are_refused(model: Any) -> None:
    arrays = model.closed_form.arrays()
    arrays["closed_form.slim.settings"] = np.frombuffer(b'{"l1": ', np.uint8)
    with pytest.raises(DataError, match="settings of its slim are damaged"):
        ClosedFormPart.taken_from(arrays, model.train, model.config)


def test_it_learns_repeats_and_so_does_a_refit(tmp_path: Path) -> None:
    split = leporid.temporal_split(groceries())
    how = {"init": "svd", "include_seen": True, **BOTH, **SETTINGS}
    model: Any = leporid.train("dlr2", split, **how)
    loaded: Any = Recommender.load(model.save(tmp_path / "m"))
    np.testing.assert_array_equal(loaded.score(USERS), model.score(USERS))
    for fitted in (model, loaded.refit(split, device="cpu")):
        assert all(each.model.config.repeats > 0 for each in fitted.closed_form.components)


def test_an_extended_model_keeps_it(split: Split, model: Any) -> None:
    known = model.known
    more = leporid.load({"user": [9000, 9000], "item": [0, 7000], "time": [1, 2]})
    wider = model.extend(interactions=more)
    place = wider.items.encode(known.items.ids)
    assert len(wider.items) == len(known.items) + 1
    history = known.sequences().take(USERS)
    moved = type(history).from_rows([place[history.of(row)] for row in range(len(USERS))])
    components = zip(model.closed_form.components, wider.closed_form.components, strict=True)
    for before, after in components:
        assert before.weight == after.weight
        old = before.model.score_profile(history)
        new = after.model.score_profile(moved)
        np.testing.assert_array_equal(new[:, place], old)
        # The new item shares a user with item 0 alone, and gets what that one gets.
        of_new = np.delete(new, place, axis=1)[:, 0]
        np.testing.assert_allclose(of_new, old[:, known.items.index(0)])
        assert of_new.any()


def noisy_scores(split: Split) -> tuple[np.ndarray, ...]:
    """Three components that each know some of the held-out items, with their own noise."""
    draw = np.random.default_rng(0)
    targets = split.valid.csr().toarray()
    shown = [targets * (draw.random(targets.shape) < share) for share in (0.5, 0.4, 0.3)]
    sizes = (1.0, 0.2, 0.5)
    return tuple(
        (size * (part + 0.7 * draw.standard_normal(targets.shape))).astype(np.float32)
        for size, part in zip(sizes, shown, strict=True)
    )


@pytest.mark.parametrize("users_at_once", [10, 1000])
def test_a_slow_loop_over_all_weights_finds_the_same(
    split: Split, users_at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    network, *others = noisy_scores(split)
    users, part = sample_validation_users(split)
    values = {}
    for weights in itertools.product(GRID, GRID):
        total = network + sum(
            np.float32(weight) * scores for weight, scores in zip(weights, others, strict=True)
        )
        values[weights] = ndcg_per_user(total[users], users, part).mean()
    best = max(values, key=values.__getitem__)
    assert min(best) > 0
    monkeypatch.setattr(component_weights, "MAX_SCORES", users_at_once * split.n_items)
    scorers = [scores.__getitem__ for scores in others]
    assert choose_weights(network.__getitem__, scorers, (GRID, GRID), split) == best
    # Half of the items are enough: the best of the sum are high in a component.
    monkeypatch.setattr(component_weights, "_KEPT", 20)
    assert choose_weights(network.__getitem__, scorers, (GRID, GRID), split) == best


@pytest.mark.parametrize("include_seen", [False, True])
def test_candidates_are_evaluated_as_whole_rows_are(include_seen: bool) -> None:
    split = replace(leporid.temporal_split(groceries()), include_seen=include_seen)
    scores = noisy_scores(split)
    users, part = sample_validation_users(split)
    [candidates] = component_weights.candidate_scores([each.__getitem__ for each in scores], split)
    total = scores[0] + np.float32(2.0) * scores[1] + np.float32(0.5) * scores[2]
    expected = ndcg_per_user(total[users], users, part)
    np.testing.assert_allclose(candidates.ndcg((2.0, 0.5)), expected)


@pytest.mark.parametrize("knowing", [0, 1, 2])
def test_the_part_that_alone_knows_gets_the_weight(split: Split, knowing: int) -> None:
    """One component scores the held-out items by 1, the others draw numbers."""
    draw = np.random.default_rng(0)
    targets = split.valid.csr().toarray().astype(np.float32)
    scores = [draw.standard_normal(targets.shape).astype(np.float32) for _ in range(3)]
    scores[knowing] = targets
    network, *others = scores
    scorers = [each.__getitem__ for each in others]
    found = choose_weights(network.__getitem__, scorers, (GRID, GRID), split)
    assert [weight > 0 for weight in found] == [knowing == 1, knowing == 2]


def test_without_validation_nothing_is_fitted(
    split: Split, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("_fit_slim", "_fit_transitions"):
        monkeypatch.setattr(closed_form_part, name, None)
    nothing = split.train.select(np.empty(0, np.int64))
    without = replace(split, valid=nothing)
    model: Any = leporid.train("dlr2", without, init="svd", **(SETTINGS | {"eval_every": 0}))
    assert (model.config.linear_weight, model.config.transitions_weight) == (0.0, 0.0)
    assert model.closed_form is None


def test_without_order_there_are_no_transitions(
    split: Split, monkeypatch: pytest.MonkeyPatch
) -> None:
    shuffled = leporid.random_split(leporid.synthesize(80, 40, 1500, seed=3))
    monkeypatch.setattr(closed_form_part, "LINEAR_WEIGHTS", (8.0, 16.0))
    monkeypatch.setattr(closed_form_part, "TRANSITIONS_WEIGHTS", (2.0, 4.0))
    auto = DLR2Config(linear_weight="auto", transitions_weight="auto")
    for data, names in ((shuffled, ["slim"]), (split, ["slim", "transitions"])):
        part = closed_form_part.fit_closed_form_part(
            lambda users, _, n=data.n_items: np.zeros((len(users), n), np.float32), auto, data
        )
        assert part is not None
        assert [each.model.name for each in part.components] == names


def test_of_very_many_items_only_transitions_are_left(
    split: Split, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(closed_form_part, "_PAIRS", 120)
    monkeypatch.setattr(closed_form_part, "TRANSITIONS_WEIGHTS", (1.0,))
    auto = DLR2Config(linear_weight="auto", transitions_weight="auto")
    with pytest.warns(LeporidWarning, match="40 items with long histories"):
        part = closed_form_part.fit_closed_form_part(lambda *_: np.zeros(1), auto, split)
    assert part is not None
    [transitions] = part.components
    assert np.diff(transitions.model.weights.indptr).max() == 3


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
