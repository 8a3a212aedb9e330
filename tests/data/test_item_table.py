"""Item tables and vectors of any origin become columns by id; what cannot be is one sentence."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from leporid.data import IdMap, ItemTable
from leporid.embeddings import Embedding, InitialEmbeddings
from leporid.errors import DataError

ITEMS = IdMap.from_values([3, 5, 7], "item")
VECTORS = np.arange(6, dtype=np.float32).reshape(3, 2)


def test_a_csv_keeps_its_ids_as_text_and_finds_numbers(tmp_path: Path) -> None:
    path = tmp_path / "items.csv"
    path.write_text('item_id,title,year\n007,"Heat, ""the"" film",1995\n3, ,\n')
    table = ItemTable.load(path)
    assert table.ids.to_pylist() == ["007", "3"]
    assert table.columns["title"].to_pylist() == ['Heat, "the" film', None]
    assert table.columns["year"].to_pylist() == [1995.0, None]
    assert table.places(ITEMS).tolist() == [2, 0]
    assert table.places(IdMap.from_values(["007", "x"], "item")).tolist() == [0, -1]


@pytest.mark.parametrize("ids", [[5, 3, 5, 9], ["5", "3", "5", "x"], [5.0, 3.0, 5.0, None]])
def test_rows_find_their_items_and_a_second_row_is_nobodys(ids: list[Any]) -> None:
    table = ItemTable.load({"item_id": ids, "genres": [["a"], ["b"], ["c"], ["d"]]})
    assert table.places(ITEMS).tolist() == [1, 0, -1, -1]


@pytest.mark.parametrize("form", ["npy", "parquet", "safetensors", "recbole"])
def test_vectors_of_any_format_are_a_column(tmp_path: Path, form: str) -> None:
    if form == "npy":
        path = tmp_path / "v.npy"
        np.save(path, VECTORS)
        np.save(tmp_path / "v.ids.npy", np.array([3, 5, 7]))
    elif form == "recbole":
        path = tmp_path / "x.itememb"
        path.write_text("iid:token\titem_emb:float_seq\n3\t0 1\n5\t2 3\n7\t4 5\n")
    elif form == "parquet":
        path = tmp_path / "v.parquet"
        pq.write_table(pa.table({"id": [3, 5, 7], "vector": VECTORS.tolist()}), path)
    else:
        path = tmp_path / "v.safetensors"
        side = Embedding(VECTORS)
        InitialEmbeddings(side, side, ITEMS, ITEMS).save(path)
    table = ItemTable.load(path)
    assert table.places(ITEMS).tolist() == [0, 1, 2]
    assert table.columns["vector"].to_pylist() == VECTORS.tolist()


def test_what_is_no_item_table_is_said_in_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"needs a column of item ids.*columns found: colour"):
        ItemTable.load({"colour": ["red"]})
    with pytest.raises(DataError, match="holds no items"):
        ItemTable.load({"item_id": [], "title": []})
    with pytest.raises(DataError, match="cannot load an int"):
        ItemTable.load(3)
    broken = tmp_path / "x.parquet"
    broken.write_bytes(b"no")
    with pytest.raises(DataError, match="not a whole parquet file"):
        ItemTable.load(broken)
    with pytest.raises(DataError, match="no such file"):
        ItemTable.load(tmp_path / "nowhere.parquet")
    np.save(tmp_path / "alone.npy", VECTORS)
    with pytest.raises(DataError, match=r"no such file.*alone\.ids\.npy"):
        ItemTable.load(tmp_path / "alone.npy")
