"""DLR2 in two stages: the same scores as in one, for fewer items."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import leporid
from leporid.models.base import Recommender
from leporid.serve import ServeLimits, create_app
from leporid.serve.engine import _sequences
from leporid.serve.two_stage import two_stage_scores, wants_two_stages
from tests.serve.conftest import post


@pytest.fixture(scope="module")
def dlr2(split: leporid.Split) -> Recommender:
    # The recipe ranks by a mixture of S and G.
    return leporid.train(
        "dlr2", split, init="random", recipe="softmax", steps=3, batch_size=16, dim=8, device="cpu"
    )


@pytest.mark.parametrize("inference", ["mixture", "discriminative"])
def test_retrieved_items_have_the_scores_of_the_model(dlr2: Recommender, inference: str) -> None:
    dlr2.infer_by(inference)  # type: ignore[attr-defined]
    users = np.asarray([7, 0, 31], np.int32)
    past = [dlr2.known.sequences().of(user) for user in users]
    seen = _sequences(past)
    both = (
        (two_stage_scores(dlr2, 9, seen, users=users), dlr2.score(users)),
        (two_stage_scores(dlr2, 9, seen, histories=seen), dlr2.score_histories(past)),
    )
    dlr2.infer_by("generative")  # type: ignore[attr-defined]
    made = (dlr2.score(users), dlr2.score_histories(past))
    for (found, full), retrieved in zip(both, made, strict=True):
        kept = np.isfinite(found)
        np.testing.assert_allclose(found[kept], full[kept], rtol=1e-4, atol=1e-6)
        for row in range(len(users)):
            retrieved[row, past[row]] = -np.inf
            best = np.argsort(-retrieved[row], kind="stable")[:9]
            assert set(np.flatnonzero(kept[row])) == set(best)


def test_fewer_unseen_items_than_the_first_stage_keeps(dlr2: Recommender) -> None:
    dlr2.infer_by("discriminative")  # type: ignore[attr-defined]
    n_items = len(dlr2.items)
    seen = _sequences([np.arange(1, n_items - 2, dtype=np.int32)])
    found = two_stage_scores(dlr2, 9, seen, users=np.asarray([4], np.int32))
    assert np.flatnonzero(np.isfinite(found[0])).tolist() == [0, n_items - 2, n_items - 1]


def test_the_service_uses_it_and_ranks_candidates_in_full(
    dlr2: Recommender, tmp_path: Path
) -> None:
    dlr2.infer_by("discriminative")  # type: ignore[attr-defined]
    dlr2.save(tmp_path / "model")
    assert wants_two_stages(dlr2, 9)
    assert not wants_two_stages(dlr2, len(dlr2.items))
    user = dlr2.users.external(3)
    full, _ = dlr2.recommend(user, n=4)
    all_items = create_app(tmp_path, limits=ServeLimits(two_stage=0))
    fast = create_app(tmp_path, limits=ServeLimits(two_stage=9))
    ask = {"users": [user], "n": 4}
    among = {**ask, "candidates": dlr2.items.ids.to_pylist()}
    for app, request in ((all_items, ask), (fast, among)):
        [result] = post(app, "/recommend", request).json()["results"]
        assert [item["id"] for item in result["items"]] == full.tolist()
    [quick] = post(fast, "/recommend", ask).json()["results"]
    assert len(quick["items"]) == 4
