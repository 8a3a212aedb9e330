"""Item-to-item lists against a sort of each row of the weights."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.compute
import pyarrow.parquet
import pytest
from scipy import sparse

from leporid import models
from leporid.errors import ConfigError
from leporid.models import Recommender
from leporid.models.closed_form.profiles import ItemWeights
from leporid.ranking import ItemListsUnsupportedError, item_lists, write_item_lists
from tests.test_contract import make, make_split

NAMES = [name for name in models.available() if issubclass(models.get(name), ItemWeights)]


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(item_lists, "chunk_rows", lambda *_: 3)


def slow_lists(model: ItemWeights, n: int) -> list[dict[str, object]]:
    """The lists by sorting each row of the weights on its own."""
    rows = model.weights.toarray() if sparse.issparse(model.weights) else model.weights
    ids = model.items.ids.to_pylist()
    found: list[dict[str, object]] = []
    for item, weights in enumerate(rows.tolist()):
        others = [j for j, weight in enumerate(weights) if weight > 0 and j != item]
        others.sort(key=lambda j: -weights[j])
        for rank, other in enumerate(others[:n], 1):
            score = weights[other]
            row = {"item": ids[item], "rank": rank, "other_item": ids[other], "score": score}
            found.append(row)
    return found


@pytest.mark.parametrize("name", NAMES)
def test_lists_are_the_largest_weights_of_each_row(name: str) -> None:
    model = make(name).fit(make_split(), seed=3)
    assert isinstance(model, ItemWeights)
    for n in (1, 4, 1000):
        assert model.item_lists(n).to_pylist() == slow_lists(model, n)


def test_the_list_of_an_item_is_what_a_user_of_it_alone_gets() -> None:
    """In `transitions` a transposed matrix would list what users had before."""
    model = models.get("transitions")(popularity=0.0).fit(make_split(), seed=3)
    for item in model.items.ids.to_pylist():
        rows = model.item_lists(3).filter(pa.compute.field("item") == item).to_pylist()
        items, scores = model.recommend_history([item], n=3)
        expected = [i for i, score in zip(items, scores, strict=True) if score > 0]
        assert [row["other_item"] for row in rows] == expected


def test_the_formats_hold_the_rows_of_the_table(tmp_path: Path) -> None:
    model = make("slim").fit(make_split(), seed=3)
    table = model.item_lists(2)
    for suffix in ("parquet", "jsonl"):
        assert write_item_lists(model, tmp_path / f"lists.{suffix}", 2) == table.num_rows
    assert pa.parquet.read_table(tmp_path / "lists.parquet").equals(table)
    lines = (tmp_path / "lists.jsonl").read_text().splitlines()
    assert pa.Table.from_pylist(list(map(json.loads, lines)), table.schema).equals(table)
    with pytest.raises(ConfigError, match=r"lists\.xlsx: the suffix is the format"):
        write_item_lists(model, tmp_path / "lists.xlsx", 2)


def test_a_saved_model_gives_the_same_lists(tmp_path: Path) -> None:
    model = make("transitions").fit(make_split(), seed=3)
    loaded = Recommender.load(model.save(tmp_path / "model"))
    assert loaded.item_lists(5).equals(model.item_lists(5))


def test_models_without_weights_between_items_are_refused(tmp_path: Path) -> None:
    model = make("userknn").fit(make_split(), seed=3)
    with pytest.raises(ItemListsUnsupportedError, match="userknn has no item-to-item weights"):
        model.item_lists()
    with pytest.raises(ItemListsUnsupportedError):
        write_item_lists(model, tmp_path / "lists.parquet")
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(ConfigError, match="n must be"):
        make("slim").fit(make_split(), seed=3).item_lists(0)
