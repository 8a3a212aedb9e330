"""Lists from elsewhere: the same numbers as the model that made them, and loud errors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

from leporid.errors import DataError, LeporidWarning, UnknownIdError, UnknownNameError
from leporid.evaluation import Recommendations, evaluate
from leporid.ranking import masked_top_k
from tests.evaluation.helpers import make_split, random_split


def write(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def small_split(**ids: Any) -> Any:
    return make_split([[0], [1], [2]], [[], [], []], [[1, 2], [], [3]], n_items=4, **ids)


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_same_as_the_model_that_made_them(tmp_path: Path, suffix: str) -> None:
    split = random_split(2)
    rng = np.random.default_rng(2)
    # Distinct multiples of a quarter, so that CSV keeps them exactly; rows shuffled.
    scores = rng.permuted(np.tile(np.arange(33) / 4, (40, 1)), axis=1).astype(np.float32)
    top = masked_top_k(scores, 10, seen=split.train_valid.sequences())
    listed = top.items >= 0
    user = np.repeat(np.arange(40), listed.sum(axis=1))
    table = pa.table(
        {
            "item": split.items.ids.take(pa.array(top.items[listed])),
            "score": top.scores[listed],
            "user": split.users.ids.take(pa.array(user)),
        }
    ).take(pa.array(rng.permutation(len(user))))
    path = tmp_path / f"lists{suffix}"
    if suffix == ".csv":
        pa.csv.write_csv(table, path)
    else:
        pa.parquet.write_table(table, path)
    found = evaluate(Recommendations.read(path), split)
    assert found.mean() == evaluate(scores, split).mean()


def test_order_by_score_then_item_or_by_row(tmp_path: Path) -> None:
    split = small_split()
    rows = "u2,i03,1\nu0,i02,5\nu0,i01,5\nu0,i03,9\n"
    scored = Recommendations.read(write(tmp_path / "a.csv", "user,item,score\n" + rows))
    assert evaluate(scored, split, at=(3,)).top.tolist() == [[3, 1, 2], [3, -1, -1]]
    plain = Recommendations.read(write(tmp_path / "b.csv", "user,item,rank\n" + rows))
    assert evaluate(plain, split, at=(3,)).top.tolist() == [[2, 1, 3], [3, -1, -1]]


def test_short_lists_are_divided_by_n(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", "user,item,score\nu0,i01,1\nu2,i03,1\n")
    means = evaluate(Recommendations.read(path), small_split(), at=(10,)).mean()
    assert means["Precision@10"] == pytest.approx(0.1)
    assert means["Recall@10"] == pytest.approx((0.5 + 1) / 2)


def test_unknown_items_keep_their_rank_and_are_counted(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", "user,item,score\nu0,new,9\nu0,i01,5\nu2,old,9\nu2,i03,9\n")
    with pytest.warns(LeporidWarning, match="2 recommended items"):
        table = evaluate(Recommendations.read(path), small_split(), at=(1, 2))
    # Between equal scores the known item comes first.
    assert table.per_user("HR@1").tolist() == [0.0, 1.0]
    assert table.per_user("HR@2").tolist() == [1.0, 1.0]


def test_users_without_a_list_are_counted(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", "user,item,score\nu0,i01,5\n")
    with pytest.warns(LeporidWarning, match="1 users with items to find"):
        table = evaluate(Recommendations.read(path), small_split(), at=(1,))
    assert table.per_user("HR@1").tolist() == [1.0, 0.0]


def test_integer_ids_and_leading_zeros(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", "user,item,score\n10,7,5\n30,9,5\n")
    numbers = small_split(users=[10, 20, 30], items=[5, 7, 8, 9])
    assert evaluate(Recommendations.read(path), numbers, at=(1,)).mean()["HR@1"] == 1.0
    path = write(tmp_path / "b.csv", "user,item,score\n010,07,5\n030,x,5\n")
    text = small_split(users=["010", "020", "030"], items=["05", "07", "08", "x"])
    assert evaluate(Recommendations.read(path), text, at=(1,)).mean()["HR@1"] == 1.0
    path = write(tmp_path / "c.csv", "user,item,score\n10,seven,5\n30,9,5\n")
    with pytest.warns(LeporidWarning, match="1 recommended items"):
        evaluate(Recommendations.read(path), numbers, at=(1,))


@pytest.mark.parametrize(
    ("text", "error", "match"),
    [
        ("user,item,score\nu0,i01,1\nghost,i01,1\n", UnknownIdError, "1 users.*'ghost'"),
        ("user,item,score\nu0,i01,1\nu2,i03,1\nu2,i03,0\n", DataError, "'i03' to user 'u2'"),
        ("user,item,score\nu0,new,1\nu0,new,0\n", DataError, "'new' to user 'u0'"),
        ("usr,item,score\nu0,i01,1\n", UnknownNameError, "'usr'"),
        ("user,item,score\nu0,i01,high\n", DataError, "'score'"),
        ("user,item,score\nu0,i01,1\nu2,i03,\n", DataError, "row 2"),
        ("user,item,score\nu0,i01,1\n,i03,1\n", DataError, "row 2 is missing"),
        ("user,item,score\nu0,i01\n", DataError, "cannot read"),
        ("", DataError, "cannot read"),
    ],
)
def test_bad_files(tmp_path: Path, text: str, error: type[Exception], match: str) -> None:
    path = write(tmp_path / "bad.csv", text)
    with pytest.raises(error, match=match):
        evaluate(Recommendations.read(path), small_split())


def test_missing_file_and_other_column_names(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no such file"):
        Recommendations.read(tmp_path / "none.csv")
    path = write(tmp_path / "a.csv", "who,what,s\nu0,i02,1\nu0,i01,5\nu2,i03,1\n")
    read = Recommendations.read(path, "who", "what", "s")
    assert evaluate(read, small_split(), at=(2,)).top.tolist() == [[1, 2], [3, -1]]
