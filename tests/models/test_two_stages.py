"""Two stages: anchors determine scores of low rank, and doubts are settled by full scores."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from leporid.data import Sequences, synthesize, temporal_split
from leporid.models.neural.dlr2 import model as dlr2
from leporid.models.neural.dlr2.model import DLR2
from leporid.models.neural.dlr2.two_stages import Anchors
from leporid.ranking import masked_top_k
from tests.models.rankings import check_ranking


def test_anchors_determine_a_matrix_of_their_rank() -> None:
    draws = torch.Generator().manual_seed(0)
    left, right = (torch.randn(n, 4, generator=draws) for n in (30, 50))
    scores = left @ right.T + torch.randn(50, generator=draws)
    anchors = Anchors.of(scores[:12], count=4)
    estimates = anchors.estimate(scores[:, anchors.items])
    torch.testing.assert_close(estimates, scores, rtol=1e-4, atol=1e-4)


@pytest.fixture(scope="module")
def model() -> DLR2:
    split = temporal_split(synthesize(420, 300, 6000, seed=1))
    settings = {"architecture": "no_conv", "dim": 8, "steps": 40, "batch_size": 32}
    return DLR2(**settings, eval_every=0).fit(split, device="cpu")


def test_estimates_that_are_off_are_not_relied_on(model: DLR2, monkeypatch) -> None:
    users = np.arange(20, dtype=np.int32)
    full = masked_top_k(model.score(users), 5, seen=model.known.sequences().take(users))
    asked = []
    every, plain = model.network.discriminative.all_items, Anchors.estimate
    monkeypatch.setattr(
        type(model.network.discriminative),
        "all_items",
        lambda self, s, items: asked.append(len(s)) or every(s, items),
    )
    model.anchors()
    asked.clear()
    # Anchors that see the ranking the wrong way round.
    monkeypatch.setattr(Anchors, "estimate", lambda self, scores: -plain(self, scores))
    staged = model.retrieve(users, 5, 30, excluded=model.known.sequences().take(users))
    assert staged is not None
    assert sum(asked) == len(users)
    check_ranking(staged.items, full.items, model.score(users))


@pytest.mark.parametrize("include_seen", [False, True])
def test_many_lists_come_in_two_stages_and_are_those_of_the_full_ranking(
    model: DLR2, monkeypatch, include_seen: bool
) -> None:
    monkeypatch.setattr(dlr2, "CANDIDATES", 40)
    everyone = np.arange(model.train.n_users, dtype=np.int32)
    assert len(everyone) >= dlr2._WORTH_ANCHORS
    seen = model.known.sequences().take(everyone) if not include_seen else None
    full = masked_top_k(model.score(everyone), 10, seen=seen)
    calls, plain = [], DLR2.two_stages
    monkeypatch.setattr(DLR2, "two_stages", lambda *a: calls.append(1) or plain(*a))
    top = model.top_k(everyone, 10, include_seen=include_seen)
    assert calls
    same = [len(np.intersect1d(a, b)) for a, b in zip(top.items, full.items, strict=True)]
    assert np.mean(same) >= 9.9


def test_new_weights_have_new_anchors(model: DLR2) -> None:
    before = model.anchors()
    assert model.anchors() is before
    model.weights_changed()
    assert model.anchors() is not before


def test_nobody_asked_nothing_answered(model: DLR2) -> None:
    nobody = np.empty(0, np.int32)
    top = model.retrieve(nobody, 3, 20, excluded=Sequences.from_rows([]))
    assert top is not None
    assert top.items.shape == (0, 3)
