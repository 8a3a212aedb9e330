"""Target events alone are positives, and what users dislike is drawn as negatives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import leporid
from leporid.data import Interactions
from leporid.models import DISLIKED_SHARE, Sampler, Sampling, TrainingData
from tests.data.event_log import WEIGHTS, frame, rows

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def data() -> Interactions:
    how: Any = {
        "event": "kind",
        "weights": WEIGHTS,
        "target_events": "purchase",
        "duplicates": "all",
    }
    return leporid.load(frame(rows(users=12, items=40, n=400)), **how, progress=False)


def epoch(data: Interactions, sampling: Sampling, size: int = 1) -> Any:
    sampler = Sampler(TrainingData.from_interactions(data, CPU), sampling, size, seed=3)
    return [sampler.batch(step) for step in range(sampler.steps_per_epoch)]


def histories(data: Interactions) -> list[tuple[list[int], list[bool]]]:
    assert data.is_target is not None
    return [
        (data.item[data.user == u].tolist(), data.is_target[data.user == u].tolist())
        for u in range(data.n_users)
    ]


def test_pairs_and_windows_have_the_target_events_as_positives(data: Interactions) -> None:
    found = [(int(b.users), int(b.positives)) for b in epoch(data, Sampling("pairs"))]
    targets = data.target_events
    assert sorted(found) == sorted(zip(targets.user.tolist(), targets.item.tolist(), strict=True))
    batches = epoch(data, Sampling("windows", length=3, repeat=False))
    windows = [(int(b.users), int(b.positives), *b.history[0].tolist()) for b in batches]
    wanted = [
        (user, items[t], *([-1] * 3 + items[:t])[-3:])
        for user, (items, marks) in enumerate(histories(data))
        for t in range(1, len(items))
        if marks[t]
    ]
    assert sorted(windows) == sorted(wanted)


def test_further_targets_of_a_window_are_target_events_or_the_first_again(
    data: Interactions,
) -> None:
    for batch in epoch(data, Sampling("windows", length=2, targets=3)):
        items, marks = histories(data)[int(batch.users)]
        bought = {item for item, is_target in zip(items, marks, strict=True) if is_target}
        assert set(batch.positives[0].tolist()) <= bought


@pytest.mark.parametrize("length", [4, 100])
def test_a_sequence_has_targets_at_target_events_alone(data: Interactions, length: int) -> None:
    batches = epoch(data, Sampling("sequences", length=length, negatives=0))
    assert len(batches) == sum(any(marks[1:]) for _, marks in histories(data))
    for batch in batches:
        items, marks = histories(data)[int(batch.users)]
        inputs, targets = batch.history[0].tolist(), batch.positives[0].tolist()
        assert targets[-1] >= 0  # something to learn from
        end = next(
            e for e in range(len(items), 1, -1)
            if marks[e - 1] and ([-1] * length + items[: e - 1])[-length:] == inputs
        )  # fmt: skip
        wanted = [i if is_target else -1 for i, is_target in zip(items, marks, strict=True)][1:end]
        assert targets == ([-1] * length + wanted)[-length:]
        if length == 100:
            assert end == max(t + 1 for t, is_target in enumerate(marks) if is_target)


def test_a_share_of_the_negatives_is_disliked(data: Interactions) -> None:
    assert data.disliked is not None
    for sampling in (
        Sampling("pairs", negatives=400),
        Sampling("windows", length=2, negatives=400),
    ):
        drawn = {u: np.zeros(0, int) for u in range(data.n_users)}
        for batch in epoch(data, sampling):
            user = int(batch.users)
            drawn[user] = np.concatenate([drawn[user], batch.negatives[0].numpy()])
        for user, items in drawn.items():
            own, gone = (set(d.item[d.user == user].tolist()) for d in (data, data.disliked))
            assert not own & set(items.tolist())
            if len(items) and gone:
                uniform = len(gone) / (data.n_items - len(own))
                share = DISLIKED_SHARE + (1 - DISLIKED_SHARE) * uniform
                assert np.isin(items, list(gone)).mean() == pytest.approx(share, abs=0.08)
                assert gone <= set(items.tolist())
