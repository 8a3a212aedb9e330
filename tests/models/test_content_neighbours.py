"""ItemKNN with an item table: neighbours by content, saved and served like any model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest

import leporid
from leporid.data import Split, item_features
from leporid.errors import DataError
from leporid.models import FitContext, Recommender


@pytest.fixture(scope="module")
def split() -> Split:
    return leporid.temporal_split(leporid.synthesize(80, 40, 1600, seed=3))


@pytest.fixture(scope="module")
def table(split: Split, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Items whose index has the same remainder share a genre and half of their title."""
    rows = [
        f"{key},word{place % 5} again{place % 10},genre{place % 5}"
        for place, key in enumerate(split.items.ids.to_pylist())
    ]
    path = tmp_path_factory.mktemp("items") / "items.csv"
    path.write_text("\n".join(["item_id,title,genre", *rows]) + "\n", encoding="utf-8")
    return str(path)


def test_content_alone_is_the_cosine_of_the_features(split: Split, table: str) -> None:
    model = leporid.train("itemknn", split, items=table, content=1.0, k=6, progress=False)
    features = item_features(split.items, table).matrix.toarray()
    cosines = features @ features.T
    np.fill_diagonal(cosines, 0)
    weights = model.weights.toarray().T  # type: ignore[attr-defined]
    kept = weights > 0
    assert (np.count_nonzero(kept, axis=1) <= 6).all()
    ratios = weights[kept] / cosines[kept]
    assert ratios == pytest.approx(ratios[0], rel=1e-4)
    assert (np.sort(cosines, axis=1)[:, -6] <= np.where(kept, cosines, 9).min(axis=1) + 1e-5).all()


def test_the_share_goes_from_shared_users_to_content(split: Split, table: str) -> None:
    how: dict[str, Any] = {"k": 6, "window": None, "progress": False}
    plain = leporid.train("itemknn", split, **how).weights  # type: ignore[attr-defined]
    none, half, whole = (
        leporid.train("itemknn", split, items=table, content=share, **how).weights  # type: ignore[attr-defined]
        for share in (0.0, 0.5, 1.0)
    )
    assert none.toarray() == pytest.approx(plain.toarray() / plain.data.mean(), rel=1e-5)
    assert half.toarray() == pytest.approx((none.toarray() + whole.toarray()) / 2, rel=1e-5)


def test_it_is_saved_and_answers_without_the_table(
    split: Split, table: str, tmp_path: Path
) -> None:
    model = leporid.train("itemknn", split, items=table, progress=False)
    model.save(tmp_path / "model")
    away = Path(table).rename(tmp_path / "items.csv")
    loaded = Recommender.load(tmp_path / "model")
    away.rename(table)
    users = np.arange(9, dtype=np.int32)
    assert np.array_equal(loaded.score(users), model.score(users))
    assert loaded.recommend_history([[split.items.external(2)]], n=3)[0].shape == (1, 3)


def test_a_table_in_memory_does_as_its_file_and_is_asked_for_again(
    split: Split, table: str, tmp_path: Path
) -> None:
    frame = pa.csv.read_csv(table)
    model = leporid.train("itemknn", split, items=frame, progress=False)
    users = np.arange(9, dtype=np.int32)
    by_file = leporid.train("itemknn", split, items=table, progress=False)
    assert np.array_equal(model.score(users), by_file.score(users))
    loaded = Recommender.load(model.save(tmp_path / "model"))
    assert np.array_equal(loaded.score(users), model.score(users))
    with pytest.raises(DataError, match="the item table"):
        loaded.refit(split)
    again, final = (
        loaded.refit(split, context=FitContext(tables={"items": frame})),
        leporid.train("itemknn", split, items=frame, final=True, progress=False),
    )
    assert np.array_equal(again.score(users), final.score(users))
    assert not np.array_equal(again.score(users), loaded.score(users))
