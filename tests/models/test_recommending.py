"""What a fitted model is asked: filters, frames, similar items, reasons, ids of any spelling."""

from __future__ import annotations

import uuid

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from leporid.data import Interactions, Split, load, random_split
from leporid.embeddings.svd import SVD
from leporid.errors import DataError, LeporidWarning, UnknownIdError
from leporid.models import Recommender
from leporid.models.closed_form.ease import EASE
from leporid.models.closed_form.itemknn import ItemKNN
from leporid.models.closed_form.userknn import UserKNN
from tests.test_contract import make_split


@pytest.fixture(scope="module")
def split() -> Split:
    return make_split()


@pytest.fixture(scope="module")
def model(split: Split) -> Recommender:
    return EASE(l2=5.0).fit(split)


def test_a_frame_holds_the_lists_of_recommend(
    model: Recommender, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = model.recommend_frame(n=20)
    assert whole.column_names == ["user", "rank", "item", "score"]
    assert whole.schema.types == [pa.string(), pa.int32(), pa.int64(), pa.float32()]
    items, scores = model.recommend(model.users.ids, n=20)
    frame = whole.to_pandas()
    assert frame["user"].unique().tolist() == model.users.ids.to_pylist()
    for row, (_, group) in enumerate(frame.groupby("user", sort=False)):
        kept = [item for item in items[row] if item is not None]
        assert len(kept) < 20, "seen items are missing, and pads are no rows"
        assert group["item"].tolist() == kept
        assert group["rank"].tolist() == list(range(1, len(kept) + 1))
        np.testing.assert_array_equal(group["score"], scores[row][: len(kept)])
    monkeypatch.setattr("leporid.ranking.lists.chunk_rows", lambda *_: 4)
    assert model.recommend_frame(n=20).equals(whole)
    some = model.recommend_frame(["u07", "u02"], n=2, include_seen=True)
    assert pl.from_arrow(some)["user"].to_list() == ["u07", "u07", "u02", "u02"]
    assert model.recommend_frame([], n=2).num_rows == 0


def test_only_and_exclude_bound_every_kind_of_list(model: Recommender) -> None:
    options = {"n": 17, "include_seen": True}
    for ask in (
        lambda **more: model.recommend("u03", **options, **more)[0],
        lambda **more: model.recommend_history([3, 43], **options, **more)[0],
        lambda **more: model.recommend_frame("u03", **options, **more)["item"].to_pylist(),
    ):
        names = set(model.items.ids.to_pylist())
        assert set(ask(only=[13, 83, 163])) - {None} == {13, 83, 163}
        assert set(ask(exclude=[13, 83])) - {None} == names - {13, 83}
        assert set(ask(only=[13, 83], exclude=83)) - {None} == {13}


def test_unknown_items_of_a_history_are_left_out_and_counted(model: Recommender) -> None:
    with pytest.warns(LeporidWarning, match="2 of 4 history items are unknown to ease .* 'x'"):
        items, _ = model.recommend_history([[3, "x"], [43, 4]], n=3)
    np.testing.assert_array_equal(items, model.recommend_history([[3], [43]], n=3)[0])
    with pytest.raises(UnknownIdError, match="history 1 has no item that ease knows: 4 is none"):
        model.recommend_history([[3], [4]], n=3)
    with pytest.raises(DataError, match="history 1 is empty"):
        model.recommend_history([[3], []], n=3)
    for option in ("only", "exclude"):
        with pytest.raises(UnknownIdError, match="unknown item 14"):
            model.recommend("u03", **{option: [13, 14]})


def _jaccard(known: Interactions) -> np.ndarray:
    X = known.csr().toarray()
    both = X.T @ X
    either = X.sum(0)[:, None] + X.sum(0)[None] - both
    return np.asarray(both / either)


def test_similar_items_are_those_with_the_same_users(model: Recommender) -> None:
    jaccard = _jaccard(model.known)
    np.fill_diagonal(jaccard, -1)
    items, values = model.similar_items(model.items.ids, n=5)
    best = np.argsort(-jaccard, axis=1, kind="stable")[:, :5]
    np.testing.assert_array_equal(items, model.items.externals(best))
    np.testing.assert_allclose(values, np.take_along_axis(jaccard, best, 1), rtol=1e-6)
    one, value = model.similar_items(43, n=5)
    np.testing.assert_array_equal(one, items[4])
    np.testing.assert_array_equal(value, values[4])
    assert model.similar_items(43, n=40)[0][-1] is None
    with pytest.raises(UnknownIdError):
        model.similar_items(44)


def test_reasons_are_the_nearest_items_a_person_has(split: Split) -> None:
    """Of a model without weights between items."""
    model = UserKNN().fit(split)
    assert model.reason_kind == "nearest by shared users"
    jaccard = _jaccard(model.known)
    own = model.known.sequences().of(5)
    for item in range(model.known.n_items):
        reasons = sorted((-jaccard[item, i], i) for i in own if i != item and jaccard[item, i])
        for person in ("u05", model.items.externals(own).tolist()):
            items, values = model.explain(person, model.items.external(item))
            assert items.tolist() == [model.items.external(i) for _, i in reasons[:3]]
            np.testing.assert_allclose(values, [-value for value, _ in reasons[:3]], rtol=1e-6)
    with pytest.raises(UnknownIdError):
        model.explain("nobody", 3)


def test_ids_come_as_arrow_scalars_and_uuids() -> None:
    rng = np.random.default_rng(0)
    users, items = ([uuid.UUID(int=base + i) for i in range(12)] for base in (7, 900))
    rows = [(user, items[i]) for user in users for i in rng.permutation(12)[:7]]
    frame = pd.DataFrame(rows, columns=["user", "item"])
    data = load(frame)
    assert data.users.ids.to_pylist() == sorted(map(str, users))
    for other in (frame.to_dict("list"), pa.table(frame.to_dict("list"))):
        assert load(other).digest == data.digest
    model = ItemKNN(k=5).fit(random_split(data))
    one, _ = model.recommend(users[3], n=2)
    np.testing.assert_array_equal(one, model.recommend(str(users[3]), n=2)[0])
    model.recommend_history([items[0], items[1]])
    model.recommend(users[3], only=items)
    numbers = EASE(l2=1.0).fit(random_split(load({"user": [1, 1, 1, 2, 2], "item": [*range(5)]})))
    assert numbers.recommend(numbers.users.ids, n=2)[0].shape == (2, 2)
    assert numbers.recommend(numbers.users.ids[0], n=2)[0].shape == (2,)


def test_reprs_say_what_is_not_usual_and_whether_fitted(split: Split, model: Recommender) -> None:
    assert repr(EASE()) == "EASE(not fitted)"
    assert repr(model) == "EASE(l2=5.0; fitted on 31 users, 17 items)"
    assert repr(SVD(dim=8)) == "SVD(dim=8)"
    assert repr(SVD(dim=8).fit(split.train)) == (
        "InitialEmbeddings(31 users, 17 items, 8 columns, svd)"
    )
    assert repr(SVD(dim=8).fit(split.train).users) == "Embedding(31 rows, 8 columns, svd)"
    parts = f"train {len(split.train)}, valid {len(split.valid)}, test {len(split.test)}"
    assert repr(split) == f"Split(contract: 31 users, 17 items; {parts})"
    assert repr(split.users) == "IdMap(31 users, str)"
