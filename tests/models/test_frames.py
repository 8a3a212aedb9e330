"""Frames in, frames out: users, lists, filters and pairs as pandas, polars, Arrow and DuckDB."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from leporid.data import Split, load, random_split
from leporid.errors import DataError, LeporidWarning, UnknownIdError, UnknownNameError
from leporid.models import Recommender
from leporid.models.closed_form.ease import EASE
from leporid.models.closed_form.toppop import TopPop
from tests.test_contract import make_split

duckdb = pytest.importorskip("duckdb")
USERS = ["u07", "u02", "u30"]
KINDS: dict[str, tuple[Callable[[dict[str, Any]], Any], type]] = {
    "pandas": (pd.DataFrame, pd.DataFrame),
    "polars": (pl.DataFrame, pl.DataFrame),
    "polars lazy": (pl.LazyFrame, pl.DataFrame),
    "arrow": (pa.table, pa.Table),
    "arrow reader": (lambda columns: pa.table(columns).to_reader(), pa.Table),
    "duckdb": (lambda columns: duckdb.from_arrow(pa.table(columns)), pa.Table),
    "mapping": (dict, pa.Table),
}


@pytest.fixture(scope="module")
def split() -> Split:
    return make_split()


@pytest.fixture(scope="module")
def model(split: Split) -> Recommender:
    return EASE(l2=5.0).fit(split)


@pytest.fixture(params=list(KINDS))
def kind(request: pytest.FixtureRequest) -> tuple[Callable[[dict[str, Any]], Any], type]:
    return KINDS[request.param]


def columns(frame: Any) -> dict[str, list[Any]]:
    """The columns of any frame as plain lists."""
    if isinstance(frame, pd.DataFrame):
        return {name: frame[name].tolist() for name in frame}
    table = frame if isinstance(frame, pa.Table) else frame.to_arrow()
    return dict(table.to_pydict())


def test_the_kind_of_frame_given_is_the_kind_returned(model: Recommender, kind: Any) -> None:
    make, returned = kind
    expected = model.recommend_frame(USERS, n=20).to_pydict()
    given = make({"customer_id": [*USERS, "u07"], "age": [3, 4, 5, 6]})
    frame = model.recommend_frame(given, n=20)
    assert type(frame) is returned
    assert columns(frame) == expected
    assert None not in expected["item"]
    assert np.isfinite(expected["score"]).all()


def test_series_and_a_single_column_are_users_too(model: Recommender) -> None:
    expected = model.recommend_frame(USERS, n=3).to_pydict()
    for given, returned in (
        (pd.Series(USERS), pd.DataFrame),
        (pl.Series(USERS), pl.DataFrame),
        (pd.Series(USERS, dtype="category").to_frame("whoever"), pd.DataFrame),
        (pa.chunked_array([USERS[:1], USERS[1:]]), pa.Table),
        (np.array(USERS), pa.Table),
    ):
        frame = model.recommend_frame(given, n=3)
        assert type(frame) is returned
        assert columns(frame) == expected
    with pytest.raises(DataError, match=r"no column that looks like the user .*a, b"):
        model.recommend_frame(pd.DataFrame({"a": USERS, "b": USERS}))


def test_users_come_back_as_the_frame_has_them() -> None:
    log: dict[str, list[Any]] = {"user": [1, 1, 2, 2, 3], "item": [*range(5)]}
    numbers = EASE(l2=1.0).fit(random_split(load(log)))
    gaps = pd.DataFrame({"user": [1, None, 2]})  # pandas makes floats of these
    with pytest.warns(LeporidWarning, match="1 of 3 users"):
        lists = numbers.recommend_frame(gaps, n=1, unknown="skip")
    assert lists["user"].tolist() == [1, 2]
    lists = numbers.recommend_frame(pd.DataFrame({"user": ["1", " 2"]}), n=1)
    assert lists["user"].tolist() == ["1", " 2"]
    with pytest.raises(DataError, match="row 1 of the frame has no user id"):
        numbers.recommend_frame(gaps)
    ids = [uuid.UUID(int=n) for n in range(1, 4)]
    log["user"] = [str(ids[n - 1]) for n in log["user"]]
    texts = EASE(l2=1.0).fit(random_split(load(log)))
    lists = texts.recommend_frame(pd.DataFrame({"user": ids[:2]}), n=1)
    assert lists["user"].tolist() == [str(each) for each in ids[:2]]


def test_arrays_come_from_recommend_and_frames_from_recommend_frame(model: Recommender) -> None:
    for given in (pd.DataFrame({"user": USERS}), pl.LazyFrame({"user": USERS}), {"user": USERS}):
        with pytest.raises(DataError, match="recommend_frame takes frames"):
            model.recommend(given)


# Users whom the model does not know.


@pytest.fixture(scope="module")
def popular(split: Split) -> list[int]:
    """The items by their number of known interactions; the smaller index first at a tie."""
    counts = np.bincount(split.train_valid.item, minlength=17)
    order = np.argsort(-counts, kind="stable")
    return [split.items.external(item) for item in order]


def test_skipped_users_are_padding_in_arrays_and_no_rows_in_frames(model: Recommender) -> None:
    asked = ["nobody", "u07", 5, "u02"]
    with pytest.warns(LeporidWarning, match="2 of 4 users are unknown to ease and get no list"):
        items, scores = model.recommend(asked, n=3, unknown="skip")
    assert (items[[0, 2]] == None).all()  # noqa: E711 (an array)
    assert np.isneginf(scores[[0, 2]]).all()
    np.testing.assert_array_equal(items[[1, 3]], model.recommend(["u07", "u02"], n=3)[0])
    with pytest.warns(LeporidWarning, match="2 of 4 users"):
        frame = model.recommend_frame(asked, n=3, unknown="skip")
    assert frame.equals(model.recommend_frame(["u07", "u02"], n=3))
    with pytest.raises(UnknownIdError, match="'nobody'"):
        model.recommend(asked)
    with pytest.raises(UnknownNameError, match="popular"):
        model.recommend(asked, unknown="populer")  # type: ignore[arg-type]


def test_unknown_users_get_the_most_popular_items(
    model: Recommender, split: Split, popular: list[int]
) -> None:
    with pytest.warns(LeporidWarning, match="1 of 1 users .* get the most popular items"):
        items, scores = model.recommend("nobody", n=20, unknown="popular")
    assert items.tolist() == [*popular, None, None, None]
    everything = TopPop().fit(Split(split.train_valid, split.valid, split.test, "all"))
    np.testing.assert_array_equal(
        scores[:17], everything.recommend_history([[3]], 17, include_seen=True)[1][0]
    )
    with pytest.warns(LeporidWarning, match="popular"):
        items, _ = model.recommend(
            ["u03", "nobody"], 3, unknown="popular", only=popular[2:], exclude=[popular[3]]
        )
    assert items[1].tolist() == [popular[2], *popular[4:6]]


def test_unknown_users_of_frames_keep_their_ids(model: Recommender, popular: list[int]) -> None:
    given = pl.DataFrame({"user": ["ana", "u07", "ana", "bob"]})
    with pytest.warns(LeporidWarning, match="3 of 4 users .* the first is 'ana'"):
        frame = model.recommend_frame(given, n=2, unknown="popular")
    assert frame["user"].to_list() == ["ana", "ana", "u07", "u07", "bob", "bob"]
    assert frame.filter(pl.col("user") == "bob")["item"].to_list() == popular[:2]
    numbers = EASE(l2=1.0).fit(random_split(load({"user": [1, 1, 2], "item": [1, 2, 2]})))
    for strangers, shown in (([7], [7, 2]), (["x"], ["x", "2"])):
        with pytest.warns(LeporidWarning):
            frame = numbers.recommend_frame(
                [*strangers, "2"], 1, unknown="popular", include_seen=True
            )
        assert frame["user"].to_pylist() == shown


def test_an_empty_history_gets_popular_items(model: Recommender, popular: list[int]) -> None:
    expected = model.recommend_history([[3, 43]], n=3)
    with pytest.warns(
        LeporidWarning, match="2 of 3 histories have no item that ease knows"
    ) as told:
        items, _ = model.recommend_history([[], [3, 43], ["x"]], n=3, unknown="popular")
    assert len(told) == 1
    assert items[[0, 2]].tolist() == [popular[:3]] * 2
    np.testing.assert_array_equal(items[1], expected[0][0])
    with pytest.warns(LeporidWarning, match="get no list, the first is number 0"):
        items, scores = model.recommend_history([[]], n=2, unknown="skip")
    assert items.tolist() == [[None, None]]
    assert np.isneginf(scores).all()


# Filters for each user.


def test_each_user_has_items_of_their_own(model: Recommender, kind: Any) -> None:
    make, _ = kind
    lists = [[13, 83, 163], [], [3]]
    pairs = {
        "user": [user for user, row in zip(USERS, lists, strict=True) for _ in row],
        "item": [item for row in lists for item in row],
    }
    forms: list[Any] = [
        lists,
        [[13, 83, 163, None], [None, None, None, None], (3, None, None, None)],
        pa.array(lists),
        pl.Series(lists),
        make(pairs),
    ]
    everything = set(model.items.ids.to_pylist())
    for form in forms:
        only, _ = model.recommend(USERS, 17, include_seen=True, only=form)
        assert [set(row) - {None} for row in only] == [{13, 83, 163}, set(), {3}]
        if form is forms[-1]:
            form = make(pairs)  # a reader is read once
        less, _ = model.recommend(USERS, 17, include_seen=True, exclude=form)
        assert [everything - set(row) for row in less] == [{13, 83, 163}, set(), {3}]


def test_filters_of_each_user_hold_in_every_kind_of_list(
    model: Recommender, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Among all other scores, and with the users in chunks."""
    order = [f"u{n:02d}" for n in range(31)]
    rng = np.random.default_rng(0)
    lists = [
        rng.choice(model.items.ids.to_pylist(), n % 7, replace=False).tolist() for n in range(31)
    ]
    scores = model.score(np.arange(31, dtype=np.int32))
    expected = []
    for row, items in zip(scores, lists, strict=True):
        index = sorted(model.items.indices(items), key=lambda i: (-row[i], i))
        expected.append([model.items.external(i) for i in index])
    for rows in (2048, 4):
        monkeypatch.setattr("leporid.ranking.lists.chunk_rows", lambda *_, rows=rows: rows)
        items, _ = model.recommend(order, 8, include_seen=True, only=lists)
        assert [[i for i in row if i is not None] for row in items] == expected
        frame = model.recommend_frame(order[::-1], 8, include_seen=True, only=lists[::-1])
        assert frame["item"].to_pylist() == [item for row in expected[::-1] for item in row]
        top = model.top_k(np.arange(31, dtype=np.int32), 8, include_seen=True, only=lists)
        assert top.items.max(axis=1).tolist() == [
            max([model.items.index(i) for i in row], default=-1) for row in expected
        ]
        histories, _ = model.recommend_history([[3]] * 31, 17, include_seen=True, exclude=lists)
        assert [17 - sum(i is not None for i in row) for row in histories] == [
            n % 7 for n in range(31)
        ]


def test_a_second_page_excludes_the_first(model: Recommender) -> None:
    first, _ = model.recommend(USERS, 4)
    second, _ = model.recommend(USERS, 4, exclude=first)
    both, _ = model.recommend(USERS, 8)
    np.testing.assert_array_equal(np.hstack([first, second]), both)


def test_filters_that_fit_nobody_are_refused(model: Recommender) -> None:
    with pytest.raises(DataError, match="only has lists for 2 users, and lists for 3"):
        model.recommend(USERS, only=[[3], [13]])
    with pytest.raises(DataError, match="but 13 for user 1"):
        model.recommend(USERS, only=[[3], 13, [3]])
    with pytest.raises(UnknownIdError, match="unknown item 14"):
        model.recommend(USERS, only=[[3], [13, 14], []])
    with pytest.raises(UnknownIdError, match="unknown item 14"):
        model.recommend(USERS, exclude=pd.DataFrame({"user": USERS, "item": [3, 14, 3]}))
    with pytest.warns(LeporidWarning, match="1 of 3 items of only are unknown .* first is 14"):
        items, _ = model.recommend(
            USERS, 1, only=[[3], [14], [13]], include_seen=True, unknown="skip"
        )
    assert items.tolist() == [[3], [None], [13]]


def test_candidates_from_elsewhere_are_ranked_for_each_user(model: Recommender) -> None:
    """Also those of a user whom the model does not know."""
    candidates = pd.DataFrame(
        {"user_id": ["u07", "u07", "ana", "ana", "u02"], "item_id": [3, 13, 163, 3, 83], "rank": 1}
    )
    with pytest.warns(LeporidWarning, match="2 of 5 users"):
        ranked = model.recommend_frame(
            candidates, 50, only=candidates, include_seen=True, unknown="popular"
        )
    assert list(ranked.columns) == ["user", "rank", "item", "score"]
    assert ranked.groupby("user", sort=False)["item"].agg(set).to_dict() == {
        "u07": {3, 13}, "ana": {3, 163}, "u02": {83},
    }  # fmt: skip
    assert ranked[ranked["user"] == "ana"]["item"].tolist() == [3, 163]


# Pairs.


def test_pairs_get_their_scores(model: Recommender, kind: Any) -> None:
    make, returned = kind
    rng = np.random.default_rng(1)
    users, items = rng.integers(0, 31, 40), rng.integers(0, 17, 40)
    pairs = {
        "when": list(range(40)),
        "item_id": [model.items.external(i) for i in items],
        "user_id": [model.users.external(u) for u in users],
    }
    scored = model.score_pairs(make(pairs))
    assert type(scored) is returned
    found = columns(scored)
    expected = model.score(users.astype(np.int32))[np.arange(40), items]
    np.testing.assert_array_equal(np.array(found.pop("score"), np.float32), expected)
    assert found == pairs


def test_frames_of_pairs_are_not_changed(
    model: Recommender, monkeypatch: pytest.MonkeyPatch
) -> None:
    pairs = pd.DataFrame({"user": ["u02", "u01", "u02"], "item": [3, 13, 23]}, index=[9, 4, 4])
    scored = model.score_pairs(pairs)
    assert list(pairs.columns) == ["user", "item"]
    pd.testing.assert_frame_equal(scored.drop(columns="score"), pairs)
    monkeypatch.setattr("leporid.ranking.pairs.chunk_rows", lambda *_: 1)
    pd.testing.assert_frame_equal(model.score_pairs(pairs), scored)
    renamed = pairs.set_axis(["a", "b"], axis=1)
    assert (
        model.score_pairs(renamed, user="a", item="b")["score"].tolist() == scored["score"].tolist()
    )


def test_unknown_pairs_have_no_score(model: Recommender, kind: Any) -> None:
    make, _ = kind
    pairs = {"user": ["u01", "ana", "u01", None], "item": [3, 3, 4, 3]}
    with pytest.raises(UnknownIdError, match="unknown user 'ana'"):
        model.score_pairs(make(pairs))
    with pytest.warns(LeporidWarning, match=r"3 of 4 pairs .* the first is \('ana', 3\)"):
        scores = columns(model.score_pairs(make(pairs), unknown="skip"))["score"]
    missing = [score is None or score != score for score in scores]
    assert missing == [False, True, True, True]


def test_pairs_that_cannot_be_scored_are_refused(model: Recommender) -> None:
    pairs = pd.DataFrame({"user": ["u01"], "item": [3]})
    with pytest.raises(DataError, match="'score', which would be replaced"):
        model.score_pairs(model.score_pairs(pairs))
    with pytest.raises(DataError, match=r"has one column, 'user'"):
        model.score_pairs(pairs[["user"]])
    with pytest.raises(DataError, match=r"has no column .x."):
        model.score_pairs(pairs, user="x")
    for wrong in (5, None, "pairs.csv", [("u01", 3)]):
        with pytest.raises(DataError):
            model.score_pairs(wrong)
    assert model.score_pairs(pairs[:0])["score"].tolist() == []


# Similar users.


def test_similar_users_are_those_with_the_same_items(model: Recommender) -> None:
    X = model.known.csr().toarray()
    both = X @ X.T
    jaccard = both / (X.sum(1)[:, None] + X.sum(1)[None] - both)
    np.fill_diagonal(jaccard, -1)
    best = np.argsort(-jaccard, axis=1, kind="stable")[:, :5]
    users, values = model.similar_users(model.users.ids, n=5)
    np.testing.assert_allclose(values, np.take_along_axis(jaccard, best, 1), rtol=1e-6)
    np.testing.assert_array_equal(users, model.users.externals(best))
    one, value = model.similar_users("u04", n=5)
    np.testing.assert_array_equal(one, users[4])
    np.testing.assert_array_equal(value, values[4])
    pair, _ = model.similar_users(["u30", "u04", "u30"], n=5)
    np.testing.assert_array_equal(pair, users[[30, 4, 30]])
    assert model.similar_users("u04", n=40)[0][-1] is None
    with pytest.raises(UnknownIdError):
        model.similar_users("nobody")
