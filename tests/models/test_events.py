"""Models fitted on a log with target events: their lists, their files, and what they count."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import leporid
from leporid.data import Split
from leporid.models import Recommender
from tests.data.event_log import WEIGHTS, frame, rows

SMALL: dict[str, dict[str, Any]] = {
    "toppop": {},
    "itemknn": {"k": 5},
    "ease": {},
    "blend": {"members": ({"model": "ease"}, {"model": "itemknn"})},
    "bpr": {"steps": 20, "dim": 4, "init": "none"},
    "sasrec": {"steps": 10, "dim": 4, "init": "none", "heads": 1},
    "dlr2": {"steps": 10, "dim": 4, "init": "none"},
}


@pytest.fixture(scope="module")
def split() -> Split:
    how: Any = {"event": "kind", "weights": WEIGHTS, "target_events": "purchase"}
    return leporid.temporal_split(leporid.load(frame(rows()), **how, progress=False))


@pytest.mark.filterwarnings("ignore::leporid.errors.LeporidWarning")
@pytest.mark.parametrize("name", SMALL)
def test_lists_hide_what_was_bought_or_is_disliked_also_after_loading(
    name: str, split: Split, tmp_path: Path
) -> None:
    model = leporid.train(name, split, progress=False, **SMALL[name])
    model.save(tmp_path / "model")
    loaded = Recommender.load(tmp_path / "model")
    known = split.train_valid
    assert loaded.known.digest == known.digest
    assert known.disliked is not None
    shown_views = 0
    for again in (False, True):
        top = loaded.top_k(np.arange(split.n_users), split.n_items, include_seen=again).items
        for user in range(split.n_users):
            bought = (
                set()
                if again
                else set(known.target_events.item[known.target_events.user == user].tolist())
            )
            gone = set(known.disliked.item[known.disliked.user == user].tolist())
            listed = set(top[user][top[user] >= 0].tolist())
            assert listed == set(range(split.n_items)) - bought - gone
            viewed = set(known.item[known.user == user].tolist()) - bought
            shown_views += len(listed & viewed)
    assert shown_views > 30
    table = leporid.evaluate(loaded, split, at=(5,))
    assert table.relevant.sum() == len(split.targets("test"))


@pytest.mark.filterwarnings("ignore::leporid.errors.LeporidWarning")
def test_popularity_counts_the_target_events(split: Split) -> None:
    model = leporid.train("toppop", split, progress=False)
    assert split.train.is_target is not None
    bought = split.train.item[split.train.is_target]
    wanted = [int(np.count_nonzero(bought == item)) for item in range(split.n_items)]
    assert model.score(np.array([0], np.int32))[0].tolist() == wanted


def test_members_of_a_blend_vote_for_what_was_only_viewed(split: Split) -> None:
    model = leporid.train("blend", split, progress=False, **SMALL["blend"])
    bought = split.train_valid.target_events.csr().toarray() > 0
    for own, scores in zip(bought, model.score(np.arange(split.n_users)), strict=True):
        assert scores[~own].min() > scores[own].max(initial=-1)


def test_a_refit_keeps_targets_and_dislikes(split: Split) -> None:
    final = leporid.train("ease", split, progress=False, final=True)
    n = sum(len(part) for part in (split.train, split.valid, split.test))
    assert len(final.known) == n
    assert final.known.is_target is not None
    parts = (split.train, split.valid, split.test)
    assert len(final.known.disliked or ()) == sum(len(p.disliked or ()) for p in parts)


@pytest.mark.filterwarnings("ignore::leporid.errors.LeporidWarning")
def test_an_extended_model_has_them_under_its_new_ids(split: Split) -> None:
    model: Any = leporid.train("bpr", split, progress=False, **SMALL["bpr"])
    # -1 sorts before all items, so that every index moves.
    first = int(split.users.external(0))
    new = leporid.load({"user": [first], "item": [-1], "time": [10_000]}, progress=False)
    extended = model.extend(interactions=new)
    before, after = model.known, extended.known
    assert after.n_items == before.n_items + 1
    assert after.is_target is not None
    assert after.is_target.sum() == before.is_target.sum() + 1

    def named(data: Any, rows: Any) -> set[tuple[Any, Any]]:
        pairs = data.users.externals(rows.user), data.items.externals(rows.item)
        return set(zip(*pairs, strict=True))

    assert named(after, after.disliked) == named(before, before.disliked)
    assert named(after, after.target_events) == named(before, before.target_events) | {(first, -1)}
