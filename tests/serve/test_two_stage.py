"""DLR2 is served in two stages, and candidates are ranked in full."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import leporid
from leporid.data import Sequences
from leporid.models.neural.dlr2.model import DLR2
from leporid.serve import ServeLimits, create_app
from tests.serve.conftest import post


@pytest.fixture(scope="module")
def dlr2(split: leporid.Split) -> DLR2:
    # The recipe ranks by a mixture of S and G.
    model = leporid.train(
        "dlr2", split, init="random", recipe="softmax", steps=3, batch_size=16, dim=8, device="cpu"
    )
    assert isinstance(model, DLR2)
    return model


def inferred_by(model: DLR2, branch: str) -> DLR2:
    model.config = model.config.replace(inference=branch)
    return model


def test_the_service_uses_it_and_ranks_candidates_in_full(dlr2: DLR2, tmp_path: Path) -> None:
    inferred_by(dlr2, "discriminative").save(tmp_path / "model")
    known = np.asarray([3], np.int32)
    excluded = dlr2.known.sequences().take(known)
    assert dlr2.retrieve(known, 4, 9, excluded=excluded) is not None
    assert dlr2.retrieve(known, 4, len(dlr2.items), excluded=excluded) is None
    assert inferred_by(dlr2, "generative").retrieve(known, 4, 9, excluded=excluded) is None
    inferred_by(dlr2, "discriminative")
    user = dlr2.users.external(3)
    full, _ = dlr2.recommend(user, n=4)
    all_items = create_app(tmp_path, limits=ServeLimits(two_stage=0))
    fast = create_app(tmp_path, limits=ServeLimits(two_stage=9))
    ask = {"users": [user], "n": 4}
    among = {**ask, "candidates": dlr2.items.ids.to_pylist()}
    for app, request in ((all_items, ask), (fast, among)):
        [result] = post(app, "/recommend", request).json()["results"]
        assert [item["id"] for item in result["items"]] == full.tolist()


def test_answers_are_those_of_the_models_two_stages(dlr2: DLR2, tmp_path: Path) -> None:
    inferred_by(dlr2, "mixture").save(tmp_path / "model")
    app = create_app(tmp_path, limits=ServeLimits(two_stage=9))
    known, past = np.asarray([7, 31], np.int32), dlr2.known.sequences().of(5)
    best = dlr2.retrieve(known, 1, 9, excluded=dlr2.known.sequences().take(known))
    assert best is not None
    left_out = int(best.items[0, 0])
    ask = {
        "users": [dlr2.users.external(i) for i in known],
        "histories": [[dlr2.items.external(i) for i in past]],
        "exclude": [dlr2.items.external(left_out)],
        "n": 4,
    }
    results = post(app, "/recommend", ask).json()["results"]
    rows = [*(dlr2.known.sequences().of(i) for i in known), past]
    excluded = [np.append(row, left_out).astype(np.int32) for row in rows]
    users, person = Sequences.from_rows(excluded[:2]), Sequences.from_rows(excluded[2:])
    first = dlr2.retrieve(known, 4, 9, excluded=users)
    new = dlr2.retrieve(None, 4, 9, histories=Sequences.from_rows([past]), excluded=person)
    assert first is not None
    assert new is not None
    expected = [*first.items, *new.items]
    for result, items in zip(results, expected, strict=True):
        assert [item["id"] for item in result["items"]] == [dlr2.items.external(i) for i in items]
