"""`transitions` against loops over every pair of events, and the published figures."""

from __future__ import annotations

import dataclasses
import itertools
import math
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import leporid
from benchmarks.transition_published import CONSTANTS
from leporid.data import IdMap, Interactions, Sequences, Split
from leporid.errors import ConfigError, DataError, LeporidWarning
from leporid.models import Recommender
from leporid.models.closed_form.transitions import Transitions, TransitionsConfig
from leporid.selection.candidates import classical_candidates
from leporid.selection.priors import LogStatistics
from tests.test_contract import make_split

N_USERS, N_ITEMS = 14, 9
Histories = list[list[int]]
NEWS = {"user_id": ["u05"], "item_id": [998], "time": [10**9]}


def random_histories(seed: int, longest: int = 12) -> Histories:
    """Histories of every length up to `longest`, with repeats."""
    rng = np.random.default_rng(seed)
    return [rng.integers(N_ITEMS, size=rng.integers(longest + 1)).tolist() for _ in range(N_USERS)]


def split_of(histories: Histories, ordered: bool = True) -> Split:
    """A split whose training part is the histories; nothing is held out."""
    user = np.repeat(np.arange(len(histories)), [len(history) for history in histories])
    item = np.array([item for history in histories for item in history], np.int32)
    train = Interactions.from_arrays(
        user,
        item,
        np.arange(len(item)) if ordered else None,
        IdMap.range(len(histories), "user"),
        IdMap.range(N_ITEMS, "item"),
        duplicates="all",
    )
    nothing = train.select(np.arange(0))
    return Split(train, nothing, nothing, "everything")


def weight_of_distance(config: TransitionsConfig, places: int) -> float:
    if config.distance_weights == "geometric":
        return config.distance_decay**places
    return 1.0 / (1.0 + places) ** config.exponent


def slow_counts(histories: Histories, config: TransitionsConfig) -> NDArray[np.float64]:
    """C by a loop over all pairs of events."""
    counts = np.zeros((N_ITEMS, N_ITEMS))
    for history in histories:
        for first, second in itertools.combinations(range(len(history)), 2):
            places = second - first - 1
            if places < config.distance:
                weight = weight_of_distance(config, places)
                counts[history[first], history[second]] += weight
    return counts


def slow_weights_of_history(length: int, config: TransitionsConfig) -> list[float]:
    """k of a history, newest event first."""
    recent = length if config.recent is None else min(config.recent, length)
    decaying = [config.recency_decay**age for age in range(recent)]
    share = config.older_share if length > recent else 0.0
    newest = [(1 - share) * weight / sum(decaying) for weight in decaying]
    return newest + [share / (length - recent) for _ in range(length - recent)]


def slow_scores(
    histories: Histories, asked: list[int], config: TransitionsConfig, tau: float
) -> list[float]:
    counts = slow_counts(histories, config)
    penalty = config.popularity
    if penalty == "auto":
        places = range(config.distance)
        evidence = sum(weight_of_distance(config, place) for place in places) * N_ITEMS / tau
        size = min(0.002 * sum(map(len, histories)) / N_ITEMS, 0.2)
        penalty = -size * min(evidence / 5, 1)
    popularity = np.bincount([item for history in histories for item in history], minlength=N_ITEMS)
    scores = [0.0] * N_ITEMS
    weights = slow_weights_of_history(len(asked), config)
    for item, weight in zip(reversed(asked), weights, strict=True):
        for target in range(N_ITEMS):
            scores[target] += weight * math.log(1 + counts[item, target] * N_ITEMS / tau)
    most = math.log(1 + max(popularity))
    for target, count in enumerate(popularity):
        amount = math.log(1 + count)
        if penalty < 0 and scores[target] == 0:
            amount = 2 * most - amount
        scores[target] += penalty * amount
    return scores


@settings(deadline=None, max_examples=60)
@given(
    seed=st.integers(0, 10_000),
    distance=st.integers(1, 14),
    distance_weights=st.sampled_from(["power", "geometric"]),
    exponent=st.sampled_from([0.0, 0.5, 2.0]),
    distance_decay=st.sampled_from([0.3, 0.8, 1.0]),
    tau=st.sampled_from(["auto", 0.7, 300.0]),
    recent=st.sampled_from([None, 1, 3, 20]),
    recency_decay=st.sampled_from([0.4, 0.65, 1.0]),
    older_share=st.sampled_from([0.0, 0.2]),
    popularity=st.sampled_from(["auto", 0.0, 0.3, -0.2]),
)
def test_scores_are_those_of_loops_over_all_pairs_of_events(seed: int, **how: object) -> None:
    config = TransitionsConfig.from_dict(how)
    histories = random_histories(seed)
    model = Transitions(config).fit(split_of(histories))
    asked = random_histories(seed + 1)
    scores = model.score_histories([np.array(history, np.int32) for history in asked])
    tau = float(N_ITEMS) if config.tau == "auto" else float(config.tau)
    for history, found in zip(asked, scores, strict=True):
        if history:
            expected = slow_scores(histories, history, config, tau)
            np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


def test_one_step_of_distance_is_the_markov_chain() -> None:
    histories = random_histories(3)
    model = Transitions(distance=1, recent=1, older_share=0.0, popularity=0.0).fit(
        split_of(histories)
    )
    pairs = np.zeros((N_ITEMS, N_ITEMS))
    for history in histories:
        for first, second in itertools.pairwise(history):
            pairs[first, second] += 1
    np.testing.assert_allclose(np.expm1(model.weights.toarray()), pairs, rtol=1e-5)
    newest = model.score_histories([np.array([4, 7, 2], np.int32)])[0]
    np.testing.assert_allclose(newest, np.log1p(pairs[2]), rtol=1e-5)


def test_a_large_tau_gives_sequential_rules() -> None:
    histories = random_histories(6)
    model = Transitions(distance=4, exponent=1.0, tau=1e7).fit(split_of(histories))
    rules = np.zeros((N_ITEMS, N_ITEMS))
    for history in histories:
        for first, second in itertools.combinations(range(len(history)), 2):
            if second - first <= 4:
                rules[history[first], history[second]] += 1 / (second - first)
    np.testing.assert_allclose(model.weights.toarray() * 1e7 / N_ITEMS, rules, rtol=1e-4)


@pytest.mark.parametrize("top_k", [1, 3, 8])
@pytest.mark.parametrize("ordered", [True, False])
@pytest.mark.filterwarnings("ignore::leporid.errors.LeporidWarning")
def test_the_largest_successors_are_kept(top_k: int, ordered: bool) -> None:
    split = split_of(random_histories(5), ordered)
    every = Transitions().fit(split).weights.toarray()
    kept = Transitions(top_k=top_k).fit(split).weights.toarray()
    for item in range(N_ITEMS):
        order = np.argsort(-every[item], kind="stable")[:top_k]
        expected = np.zeros(N_ITEMS, np.float32)
        expected[order] = every[item, order]
        np.testing.assert_array_equal(kept[item], expected)


def test_the_order_of_a_history_matters() -> None:
    model = Transitions().fit(split_of(random_histories(1)))
    rows = [np.array(row, np.int32) for row in ([1, 2, 3, 4], [4, 3, 2, 1])]
    one, other = model.score_histories(rows)
    assert not np.allclose(one, other)


def test_new_users_get_the_scores_of_known_ones_with_their_history() -> None:
    split = make_split()
    model = Transitions().fit(split)
    users = np.arange(split.n_users, dtype=np.int32)
    known = split.train_valid.sequences()
    np.testing.assert_array_equal(
        model.score_histories([known.of(user) for user in users]), model.score(users)
    )


def test_a_saved_model_scores_with_the_same_bits(tmp_path: Path) -> None:
    model = Transitions(distance=3, top_k=4).fit(make_split())
    loaded = Recommender.load(model.save(tmp_path / "model"))
    assert isinstance(loaded, Transitions)
    assert loaded.weights.dtype == np.float32
    np.testing.assert_array_equal(loaded.weights.toarray(), model.weights.toarray())
    users = np.arange(31, dtype=np.int32)
    np.testing.assert_array_equal(loaded.score(users), model.score(users))


def test_an_extended_model_is_one_that_has_counted_both_logs() -> None:
    split = make_split()
    model = Transitions(distance=3).fit(split)
    old = model.known
    new = {"user_id": ["u05", "new", "new", "u02"], "item_id": [998, 13, 999, 998]}
    new["time"] = [10**9, 10**9, 10**9 + 1, 10**9]
    extended = model.extend(interactions=new)
    assert set(extended.items.ids.to_pylist()) - set(model.items.ids.to_pylist()) == {998, 999}
    assert extended.config.tau == model.config.tau

    events: dict[object, list[tuple[int, int]]] = {}
    times = np.concatenate([old.time, new["time"]]).tolist()
    users = [*old.users.externals(old.user).tolist(), *new["user_id"]]
    items = [*old.items.externals(old.item).tolist(), *new["item_id"]]
    for user, item, time in zip(users, items, times, strict=True):
        events.setdefault(user, []).append((time, extended.items.index(item)))
    counts = np.zeros((len(extended.items), len(extended.items)))
    for history in events.values():
        ordered = [item for _, item in sorted(history, key=lambda event: event[0])]
        for first, second in itertools.combinations(range(len(ordered)), 2):
            if second - first <= 3:
                counts[ordered[first], ordered[second]] += (second - first) ** -0.5
    scale = len(extended.items) / float(model.config.tau)
    np.testing.assert_allclose(extended.weights.toarray(), np.log1p(counts * scale), rtol=1e-5)
    assert model.items.ids.to_pylist() == make_split().train.items.ids.to_pylist()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "extend it by interactions alone"),
        ({"items": {"item_id": [999]}}, "extend it by interactions alone"),
        ({"interactions": NEWS, "steps": 5}, "extend it by interactions alone"),
        ({"interactions": make_split().train}, "nothing is new"),
    ],
)
def test_what_transitions_cannot_be_extended_by_is_refused(
    arguments: dict[str, Any], message: str
) -> None:
    model = Transitions().fit(make_split())
    with pytest.raises(
        ConfigError if "interactions alone" in message else DataError, match=message
    ):
        model.extend(**arguments)


def test_smoothing_follows_from_the_number_of_items() -> None:
    model = Transitions(window="auto").fit(split_of(random_histories(2)))
    assert model.config.tau == N_ITEMS
    assert "auto" not in model.config.to_dict().values()
    assert model.requested.tau == "auto"


def test_without_an_order_a_pair_counts_as_on_average_over_all_orders() -> None:
    histories = random_histories(7, longest=5)
    with pytest.warns(LeporidWarning, match="no order, so transitions cannot tell what follows"):
        model = Transitions(distance=3).fit(split_of(histories, ordered=False))
    expected = np.zeros((N_ITEMS, N_ITEMS))
    for history in histories:
        orders = list(itertools.permutations(history))
        for order in orders:
            expected += slow_counts([list(order)], model.config) / len(orders)
    np.testing.assert_allclose(np.expm1(model.weights.toarray()), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.filterwarnings("ignore::leporid.errors.LeporidWarning")
def test_without_an_order_that_of_a_history_does_not_matter(tmp_path: Path) -> None:
    fitted = Transitions().fit(split_of(random_histories(7), ordered=False))
    rows = [np.array(row, np.int32) for row in ([1, 2, 3, 4], [4, 3, 2, 1])]
    for model in (fitted, Recommender.load(fitted.save(tmp_path / "model"))):
        one, other = model.score_histories(rows)
        np.testing.assert_allclose(one, other, rtol=1e-6)


def test_an_order_needs_no_warning() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Transitions().fit(split_of(random_histories(7)))


def test_choose_offers_it_where_there_is_an_order() -> None:
    for has_order in (True, False):
        log = LogStatistics(interactions_per_user=9.0, density=0.01, has_order=has_order)
        found = classical_candidates(log)
        assert ("transitions" in [candidate.model for candidate in found]) == has_order
    asked = classical_candidates(log, only=["transitions"])
    assert [candidate.model for candidate in asked] == ["transitions"]


@pytest.mark.parametrize("ordered", [True, False])
@pytest.mark.filterwarnings("ignore::leporid.errors.LeporidWarning")
def test_reasons_say_which_share_of_an_items_users_went_on(ordered: bool) -> None:
    histories = random_histories(4)
    model = Transitions(distance=2).fit(split_of(histories, ordered))
    past = [6, 1, 3, 6, 0]
    history = Sequences.from_rows([np.array(past, np.int32)])
    wanted = np.arange(N_ITEMS, dtype=np.int32)
    shown = 0
    for target, reasons in enumerate(model.reasons(history, wanted, n=2)):
        contributions = {
            item: float(model.weights[[item]].toarray()[0, target]) * weight
            for item, weight in weight_by_item(past, model.config, ordered).items()
        }
        strongest = sorted(contributions, key=lambda item: -contributions[item])
        expected = [item for item in strongest[:2] if contributions[item] > 0]
        assert [item for item, _ in reasons] == expected
        for item, share in reasons:
            assert share == pytest.approx(slow_share(histories, item, target, 2, ordered))
            shown += 1
    assert shown > N_ITEMS


def weight_by_item(past: list[int], config: TransitionsConfig, ordered: bool) -> dict[int, float]:
    """The sum of k over the events of each item."""
    weights = slow_weights_of_history(len(past), config)
    if not ordered:
        weights = [1 / len(past)] * len(past)
    found = dict.fromkeys(past, 0.0)
    for item, weight in zip(reversed(past), weights, strict=True):
        found[item] += weight
    return found


def slow_share(
    histories: Histories, source: int, target: int, distance: int, ordered: bool
) -> float:
    """The share of the users of `source` who had `target` within `distance` events after it."""
    users = followers = 0
    for history in histories:
        places = [place for place, item in enumerate(history) if item == source]
        users += bool(places)
        if ordered:
            followers += any(target in history[p + 1 : p + 1 + distance] for p in places)
        else:
            followers += bool(places) and target in history
    return followers / users


def test_a_person_can_ask_why() -> None:
    model = Transitions().fit(make_split())
    items, _ = model.recommend("u05", n=1)
    reasons, shares = model.explain("u05", items[0])
    assert len(reasons) > 0
    assert set(reasons.tolist()) <= set(model.known.items.values[model.known.sequences().of(5)])
    assert ((shares > 0) & (shares <= 1)).all()


def test_a_penalty_never_lists_rare_items_first_where_nothing_is_known() -> None:
    """Item 8 is followed by nothing: its users get the most popular items."""
    histories = [[0, 1], [2, 1], [1, 0, 8], [0, 3]]
    model = Transitions(popularity=-0.5).fit(split_of(histories))
    scores = model.score_histories([np.array([8], np.int32)])[0]
    counts = np.bincount(np.concatenate(histories), minlength=N_ITEMS)
    np.testing.assert_array_equal(
        np.argsort(-scores, kind="stable"), np.argsort(-counts, kind="stable")
    )
    nothing = Sequences.from_rows([np.zeros(0, np.int32)])
    np.testing.assert_array_equal(model.score_profile(nothing), np.zeros((1, N_ITEMS)))
    followed = model.score_histories([np.array([0], np.int32)])[0]
    assert set(np.argsort(-followed)[:3].tolist()) == {1, 3, 8}


@pytest.mark.parametrize(("repeats", "expected"), [(1, -0.002 * 24 / N_ITEMS), (500, -0.2)])
def test_the_penalty_of_popular_items_follows_from_interactions_per_item(
    repeats: int, expected: float
) -> None:
    histories = [[0, 1, 2, 3, 4, 5], [6, 7, 8, 0, 1, 2]] * 2 * repeats
    model = Transitions().fit(split_of(histories))
    assert model.config.popularity == pytest.approx(expected)
    assert model.requested.popularity == "auto"


@pytest.mark.slow
@pytest.mark.realdata
@pytest.mark.parametrize(
    ("log", "core", "hits", "gain"),
    [("beauty", 1, 0.0998, 0.0635), ("toys", 1, 0.1130, 0.0738), ("ml-1m", 5, 0.3057, 0.1815)],
)
def test_published_figures_refitted_with_the_validation_item(
    log: str, core: int, hits: float, gain: float, real_data: Path
) -> None:
    split = leporid.leave_last_out(leporid.load(real_data / f"{log}.parquet").core(core))
    nothing = split.valid.select(np.arange(0))
    whole = dataclasses.replace(split, train=split.train_valid, valid=nothing)
    model = leporid.train("transitions", whole, progress=False, **CONSTANTS[log])
    found = leporid.evaluate(model, whole, at=(10,)).mean()
    assert found["HR@10"] == pytest.approx(hits, abs=1e-3)
    assert found["NDCG@10"] == pytest.approx(gain, abs=1e-3)
