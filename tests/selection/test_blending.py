"""Greedy blends of finished candidates, and the fusion of their lists."""

from __future__ import annotations

import json
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import leporid
from leporid.data import IdMap, Interactions, Split
from leporid.errors import ConfigError
from leporid.models import BlendMember, pick_blend
from leporid.models.blend import BlendConfig, fuse
from leporid.selection.budget import Deadline, OutOfTimeError, Timer


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 4), st.integers(1, 6), st.integers(0, 10_000))
def test_fused_lists_are_those_of_a_count_by_hand(lists: int, k: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    tops = [
        np.stack([rng.permutation(9)[:k] for _ in range(3)]).astype(np.int32) for _ in range(lists)
    ]
    tops[0][0, -1] = -1
    fused = fuse(tops)
    for row in range(3):
        votes: Counter[int] = Counter()
        for top in tops:
            for place, item in enumerate(top[row]):
                if item >= 0:
                    votes[int(item)] += 1 / (60 + place)  # type: ignore[assignment]
        best = sorted(votes, key=lambda item: (-round(votes[item], 12), item))[:k]
        scores = [round(votes[int(i)], 9) for i in fused[row] if i >= 0]
        assert scores == [round(votes[i], 9) for i in best]
        assert len(set(fused[row][fused[row] >= 0])) == len(best)


def split_of(wanted: np.ndarray) -> Split:
    """Every user has one item of their own in train and `wanted` in test."""
    n = len(wanted)
    users, items = (IdMap.from_values(list(range(size)), "id") for size in (n, 100))
    user, time = np.arange(n, dtype=np.int32), np.arange(n, dtype=np.int64)
    train = Interactions.from_arrays(user, np.full(n, 99, np.int32), time, users, items)
    test = Interactions.from_arrays(user, wanted.astype(np.int32), time + n, users, items)
    return Split(train, train.select(np.empty(0, np.int64)), test, "temporal(0.7, 0.1)")


def test_two_that_know_different_things_are_blended() -> None:
    n = 400
    wanted = np.arange(n) % 40
    part = split_of(wanted)
    first = np.stack([40 + (np.arange(20) + u) % 20 for u in range(n)]).astype(np.int32)
    second = np.stack([60 + (np.arange(20) + u) % 20 for u in range(n)]).astype(np.int32)
    # Each finds what half of the users want, and the other half not at all.
    odd = np.arange(n) % 4 < 2
    first[odd, 0], second[~odd, 0] = wanted[odd], wanted[~odd]
    found = pick_blend([first, second], part, "HR@10")
    assert found is not None
    weights, gain = found
    assert weights.keys() == {0, 1}
    assert gain.outcome == "better"
    assert gain.mean_a == 1.0
    with pytest.raises(OutOfTimeError):
        pick_blend([first, second], part, "HR@10", Deadline(Timer(10.0), 0.0))


def test_a_copy_of_the_best_is_no_help() -> None:
    n = 100
    wanted = np.arange(n) % 40
    lists = np.stack([40 + (np.arange(20) + u) % 20 for u in range(n)]).astype(np.int32)
    lists[::2, 0] = wanted[::2]
    worse = lists.copy()
    worse[:, 0] = 98
    assert pick_blend([lists, worse], split_of(wanted), "NDCG@10") is None


def test_the_served_blend_ranks_as_the_fused_lists_do() -> None:
    split = leporid.temporal_split(leporid.synthesize(80, 40, 1600, seed=3))
    models = [leporid.train(name, split, progress=False) for name in ("itemknn", "ease")]
    blend = leporid.models.Blend.of(models, [{"model": "itemknn"}, {"model": "ease"}])
    users = np.arange(80, dtype=np.int32)
    whole = [model.top_k(users, 40).items for model in models]
    fused = fuse(whole)
    served = blend.top_k(users, 5)
    for row in range(80):
        unseen = 40 - len(split.train_valid.sequences().of(row))
        some = min(5, unseen)
        ranks = [{int(i): p for p, i in enumerate(top[row])} for top in whole]
        votes = [
            [sum(1 / (60 + r[int(i)]) for r in ranks) for i in lists[:some]]
            for lists in (fused[row], served.items[row])
        ]
        assert np.allclose(*votes)


def test_members_are_read_from_mappings_and_written_as_mappings() -> None:
    members = [{"model": "itemknn"}, {"model": "bpr", "init": "svd", "weight": 2}]
    config = BlendConfig.from_dict({"members": members})
    assert config.members == (
        BlendMember(model="itemknn"),
        BlendMember(model="bpr", init="svd", weight=2.0),
    )
    stored = json.loads(json.dumps(config.to_dict()))
    assert stored["members"][0]["model"] == "itemknn"
    assert BlendConfig.from_dict(stored) == config.replace(damping=60.0) == config
    [described, *_] = json.loads(json.dumps(BlendConfig.describe()))
    assert [member["model"] for member in described["default"]] == ["itemknn", "ease"]


@pytest.mark.parametrize("entry", [{"weight": 1.0}, {"model": "ease", "wieght": 1.0}, "ease"])
def test_a_member_that_is_none_is_refused(entry: object) -> None:
    with pytest.raises(ConfigError, match="a member of a blend has a model, settings, init and"):
        BlendConfig.from_dict({"members": [entry]})
