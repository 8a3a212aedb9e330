"""Batches against loops over the sequences, and as pure functions of the step.

What they are cut from (`data`) and their seeds (`seeding`) are tested here too.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch

from leporid.data import IdMap, Interactions, Sequences, Split
from leporid.errors import DataError
from leporid.models import Batch, Sampler, Sampling, TrainingData, recent_items

CPU = torch.device("cpu")


def sampler_of(split: Split, sampling: Sampling, batch_size: int = 10, seed: int = 1) -> Sampler:
    data = TrainingData.from_interactions(split.train, CPU)
    return Sampler(data, sampling, batch_size, seed)


def rows(batch: Batch) -> list[tuple[object, ...]]:
    history = batch.history if batch.history is not None else batch.users[:, None]
    return [
        (int(u), tuple(h), tuple(np.atleast_1d(p)))
        for u, h, p in zip(batch.users, history.tolist(), batch.positives.numpy(), strict=True)
    ]


def one_epoch(sampler: Sampler) -> list[tuple[object, ...]]:
    return [row for step in range(sampler.steps_per_epoch) for row in rows(sampler.batch(step))]


def padded(items: list[int], length: int) -> tuple[int, ...]:
    kept = items[-length:]
    return tuple([kept[0]] * (length - len(kept)) + kept)


def test_pairs_are_all_training_interactions(split: Split) -> None:
    sampler = sampler_of(split, Sampling("pairs"), batch_size=1)
    got = [(u, p[0]) for u, _, p in one_epoch(sampler)]
    assert sorted(got) == sorted(
        zip(split.train.user.tolist(), split.train.item.tolist(), strict=True)
    )


def test_windows_are_every_position_with_the_items_before_it(split: Split) -> None:
    sampler = sampler_of(split, Sampling("windows", length=4), batch_size=1)
    sequences = split.train.sequences()
    wanted = [
        (user, padded(items[:t], 4), (items[t],))
        for user in range(split.n_users)
        for items in [sequences.of(user).tolist()]
        for t in range(1, len(items))
    ]
    assert sorted(one_epoch(sampler)) == sorted(wanted)


@pytest.mark.parametrize("length", [1, 3, 50])
def test_a_circle_reads_the_others_of_a_user_never_the_target(split: Split, length: int) -> None:
    sampler = sampler_of(split, Sampling("windows", length=length, circular=True), batch_size=1)
    wanted: list[tuple[object, ...]] = []
    for user in range(split.n_users):
        items = split.train.sequences().of(user).tolist()
        for t, item in enumerate(items) if len(items) > 1 else ():
            others = (items[t + 1 :] + items[:t])[-length:]
            wanted.append((user, tuple([-1] * (length - len(others)) + others), (item,)))
    assert sorted(one_epoch(sampler)) == sorted(wanted)


def test_windows_with_several_targets_repeat_the_last_where_a_user_has_too_few(
    split: Split,
) -> None:
    sampler = sampler_of(split, Sampling("windows", length=2, targets=3), batch_size=1)
    sequences = split.train.sequences()
    wanted = []
    for user in range(split.n_users):
        items = sequences.of(user).tolist()
        for t in range(1, max(1, len(items) - 3) + 1):
            ahead = [items[min(t + i, len(items) - 1)] for i in range(3)]
            wanted.append((user, padded(items[:t], 2), tuple(ahead)))
    assert min(len(sequences.of(u)) for u in range(split.n_users)) < 4  # the case occurs
    assert sorted(one_epoch(sampler)) == sorted(wanted)


def test_sequences_align_each_item_with_its_next(split: Split) -> None:
    sequences = split.train.sequences()
    length = max(map(len, (sequences.of(user) for user in range(split.n_users)))) - 1
    sampling = Sampling("sequences", length=length, negatives=2)
    sampler = sampler_of(split, sampling, batch_size=1)
    batches = [sampler.batch(step) for step in range(sampler.steps_per_epoch)]
    assert sorted(int(b.users) for b in batches) == list(range(split.n_users))
    for batch in batches:
        items = sequences.of(int(batch.users)).tolist()
        fill = [-1] * (length + 1 - len(items))
        assert batch.history is not None
        assert batch.history[0].tolist() == fill + items[:-1]
        assert batch.positives[0].tolist() == fill + items[1:]
        assert batch.negatives.shape == (1, length, 2)
        assert not set(batch.negatives.flatten().tolist()) & set(items)


def test_crops_of_long_sequences_reach_every_stretch(split: Split) -> None:
    sampler = sampler_of(split, Sampling("sequences", length=2, negatives=0), batch_size=99)
    sequences = split.train.sequences()
    longest = max(range(split.n_users), key=lambda u: len(sequences.of(u)))
    items = sequences.of(longest).tolist()
    ends = set()
    for step in range(300):
        batch = sampler.batch(step)
        row = batch.users.tolist().index(longest)
        assert batch.history is not None
        history, positives = batch.history[row].tolist(), batch.positives[row].tolist()
        place = items.index(positives[-1])
        assert [*history, positives[-1]] == items[place - 2 : place + 1]
        ends.add(place)
    assert ends == set(range(2, len(items)))


def test_a_batch_depends_on_seed_and_step_only(split: Split) -> None:
    sampling = Sampling("windows", length=3, negatives=2)
    straight = sampler_of(split, sampling)
    many = [straight.batch(step) for step in range(25)]
    fresh = sampler_of(split, sampling)
    for step in (24, 3, 17):  # out of order, over epochs
        for name in ("users", "positives", "negatives", "history"):
            assert torch.equal(getattr(fresh.batch(step), name), getattr(many[step], name))
    assert straight.steps_per_epoch < 24
    assert not torch.equal(many[0].negatives, many[1].negatives)
    other = sampler_of(split, sampling, seed=2).batch(0)
    assert not torch.equal(other.users, many[0].users)


def test_users_who_have_every_item_are_left_out_where_negatives_are_needed() -> None:
    users, items = IdMap.range(2), IdMap.range(3)
    made = Interactions.from_arrays(
        np.array([0, 0, 0, 1]), np.array([2, 0, 1, 1]), None, users, items
    )
    data = TrainingData.from_interactions(made, CPU)
    assert set(Sampler(data, Sampling("pairs"), 4, 0).batch(0).users.tolist()) == {1}
    assert Sampler(data, Sampling("pairs", negatives=0), 4, 0).n_examples == 4
    with pytest.raises(DataError, match="no example to train on"):
        Sampler(data, Sampling("windows", length=2), 4, 0)


def test_recent_items_repeat_or_fill_short_histories() -> None:
    sequences = Sequences.from_rows([np.array(h, np.int32) for h in ([4, 2, 7], [5], [])])
    users = np.array([2, 0, 1], np.int32)
    assert recent_items(sequences, users, 2).tolist() == [[-1, -1], [2, 7], [5, 5]]
    assert recent_items(sequences, users, 4).tolist()[1:] == [[4, 4, 2, 7], [5] * 4]
    filled = recent_items(sequences, users, 4, repeat=False).tolist()
    assert filled == [[-1] * 4, [-1, 4, 2, 7], [-1, -1, -1, 5]]
    nothing = Sequences(np.zeros(4, np.int64), np.empty(0, np.int32))
    assert recent_items(nothing, users, 2).tolist() == [[-1, -1]] * 3
