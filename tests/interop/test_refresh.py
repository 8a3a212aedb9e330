"""A refresh keeps coordinates, writes what changed and nothing else, and deletes what is gone."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import leporid
from leporid.cli.app import app
from leporid.data import IdMap, Interactions, Sequences
from leporid.errors import ConfigError, DataError
from leporid.interop import ModelVectors, export_model, refreshed
from leporid.models import Recommender, everything
from tests.interop.test_model_export import database

__all__ = ["database"]


def log(users: range, items: range) -> Interactions:
    """Texts for users, whole numbers for items."""
    data = leporid.synthesize(60, 40, 900, seed=3)
    rows = np.isin(data.user, users) & np.isin(data.item, items)
    columns = {"user_id": [f"user {u:02}" for u in data.user[rows]], "item_id": data.item[rows]}
    assert data.time is not None
    return leporid.load(pa.table({**columns, "timestamp": data.time[rows]}))


@pytest.fixture(scope="module")
def old() -> Recommender:
    """Users 0 to 54, items 0 to 36."""
    return leporid.train("ials", everything(log(range(55), range(37))), dim=8, progress=False)


@pytest.fixture(scope="module")
def new() -> Recommender:
    """Users 3 to 59, items 2 to 39."""
    data = log(range(3, 60), range(2, 40))
    return leporid.train("ials", everything(data), dim=8, seed=9, progress=False)


def exported(model: Recommender, folder: Path, to: str = "parquet", **how: Any) -> dict[str, Any]:
    export_model(model, folder, to, check=20, **how)
    about: dict[str, Any] = json.loads((folder / "export.json").read_text())
    return about


def few(vectors: Any, ids: list[int], seen: list[list[int]]) -> ModelVectors:
    """Two users, and items with these ids and vectors."""
    rows = Sequences.from_rows([np.array(row, np.int32) for row in seen])
    users = IdMap.from_values(["a", "b"], "user")
    queries = np.array([[1, 0], [0, 2]], np.float32)
    matrix = np.array(vectors, np.float32)
    return ModelVectors(queries, matrix, users, IdMap.from_values(ids, "item"), rows)


def write(vectors: ModelVectors, folder: Path) -> Path:
    from leporid.interop.targets import ParquetFiles

    folder.mkdir()
    ParquetFiles(folder).write(vectors)
    return folder


def test_the_same_model_in_other_coordinates_writes_nothing(
    old: Recommender, tmp_path: Path
) -> None:
    vectors = ModelVectors.of(old)
    turn, _ = np.linalg.qr(np.random.default_rng(0).standard_normal((8, 8)))
    turned = replace(
        vectors,
        users=(vectors.users @ turn).astype(np.float32),
        items=(vectors.items @ turn).astype(np.float32),
    )
    held, changes = refreshed(turned, write(vectors, tmp_path / "old"), moved=1e-4)
    assert changes.counts() == {
        "written": {"users": 0, "items": 0},
        "deleted": {"users": 0, "items": 0},
    }
    np.testing.assert_array_equal(held.items, vectors.items)


def test_products_are_the_models_where_every_row_is_written(
    old: Recommender, new: Recommender, tmp_path: Path
) -> None:
    vectors = ModelVectors.of(new)
    held, changes = refreshed(vectors, write(ModelVectors.of(old), tmp_path / "old"), moved=0)
    assert all(rows.all() for rows in changes.written.values())
    np.testing.assert_allclose(
        held.users @ held.items.T, vectors.users @ vectors.items.T, rtol=1e-4, atol=1e-5
    )
    assert not np.allclose(held.items, vectors.items, atol=1e-2)


def test_rows_that_moved_are_new_or_have_other_items_are_written(tmp_path: Path) -> None:
    before = few([[1, 0], [0, 3], [2, 2], [0, 1]], [1, 2, 3, 4], [[0, 1], [3]])
    after = few([[1.15, 0], [0, 3.5], [2, 2], [5, 5]], [1, 2, 3, 9], [[0, 1], [2]])
    held, changes = refreshed(after, write(before, tmp_path / "old"), moved=0.1)
    # The median length is 1.9: a short vector may move by more than a tenth of its own.
    assert changes.written["items"].tolist() == [False, True, False, True]
    assert changes.written["users"].tolist() == [False, True], "b has another item"
    assert {side: ids.to_pylist() for side, ids in changes.gone.items()} == {
        "users": [],
        "items": [4],
    }
    assert held.items[0].tolist() == [1, 0], "what is not written is what the store holds"
    np.testing.assert_allclose(np.linalg.norm(held.items[1]), 3.5, rtol=1e-5)


def test_small_moves_do_not_add_up(tmp_path: Path) -> None:
    items = np.array([[1.0, 0], [0, 3], [2, 2]], np.float32)
    folder, written = write(few(items, [1, 2, 3], [[0], [1]]), tmp_path / "0"), []
    for step in range(1, 5):
        items = items + np.array([[0.12, 0], [0, 0], [0, 0]], np.float32)
        held, changes = refreshed(few(items, [1, 2, 3], [[0], [1]]), folder, moved=0.1)
        folder = write(held, tmp_path / str(step))
        written.append(bool(changes.written["items"][0]))
    assert written.count(True) == 1
    assert not written[0]


def test_parquet_files_are_whole_and_changes_are_counted(
    old: Recommender, new: Recommender, tmp_path: Path
) -> None:
    exported(old, tmp_path / "old")
    about = exported(new, tmp_path / "new", refresh=tmp_path / "old")
    users = pq.read_table(tmp_path / "new" / "users.parquet")
    assert users.column_names == ["id", "vector", "seen"]
    assert 0 < about["written"]["users"] <= users.num_rows == about["users"] == 57
    assert about["deleted"] == {"users": 3, "items": 2}
    assert pq.read_table(tmp_path / "new" / "items.parquet").num_rows == about["items"] == 38
    again = exported(new, tmp_path / "new", refresh=tmp_path / "new")
    assert again["written"] == {"users": 0, "items": 0}, "it holds this model already"


def test_a_run_stands_for_its_whole_export(
    old: Recommender, new: Recommender, tmp_path: Path
) -> None:
    exported(old, tmp_path / "old")
    expected = exported(new, tmp_path / "a", refresh=tmp_path / "old")
    old.save(tmp_path / "run" / "model")
    assert exported(new, tmp_path / "b", refresh=tmp_path / "run") == expected


@pytest.mark.parametrize("to", ["faiss", "qdrant"])
def test_a_refreshed_store_ranks_as_the_model_does(
    to: str, old: Recommender, new: Recommender, tmp_path: Path
) -> None:
    pytest.importorskip({"qdrant": "qdrant_client"}.get(to, to))
    exported(old, tmp_path / "old", to)
    about = exported(new, tmp_path / "new", to, refresh=tmp_path / "old", moved=0.001)
    assert about["parity"]["recall"] == 1
    if to == "qdrant":
        from qdrant_client import QdrantClient

        client = QdrantClient(path=str(tmp_path / "new" / "qdrant"))
        counts = [client.count(f"leporid_{side}").count for side in ("users", "items")]
        client.close()
        assert counts == [about["users"], about["items"]]
        exported(old, tmp_path / "files")
        with pytest.raises(ConfigError, match="export the model whole first"):
            exported(new, tmp_path / "none", to, refresh=tmp_path / "files")


def test_a_refreshed_database_ranks_as_the_model_does(
    old: Recommender, new: Recommender, tmp_path: Path, database: str
) -> None:
    where = {"address": database, "name": "refreshed"}
    exported(old, tmp_path / "old", "pgvector", **where)
    refresh = {"refresh": tmp_path / "old", "moved": 0.001}
    about = exported(new, tmp_path / "new", "pgvector", **where, **refresh)
    assert about["parity"]["recall"] == 1
    import psycopg

    with psycopg.connect(database) as connection:
        for table, count in (("users", about["users"]), ("items", about["items"])):
            query = f"SELECT count(*) FROM refreshed.{table}"
            assert connection.execute(query).fetchone() == (count,)
    with pytest.raises(ConfigError, match=r"no table nowhere\.items to refresh"):
        exported(new, tmp_path / "a", "pgvector", address=database, name="nowhere", **refresh)


def test_refresh_sql_merges_in_one_transaction(
    old: Recommender, new: Recommender, tmp_path: Path
) -> None:
    exported(old, tmp_path / "old", "pgvector")
    exported(new, tmp_path / "new", "pgvector", refresh=tmp_path / "old")
    assert not (tmp_path / "new" / "load.sql").exists()
    lines = (tmp_path / "new" / "refresh.sql").read_text().split("\n")
    assert (lines[0], lines[-3]) == ("BEGIN;", "COMMIT;")
    gone = lines.index("COPY gone_users FROM stdin;")
    assert lines[gone + 1 : gone + 5] == ["user 00", "user 01", "user 02", "\\."]
    assert "INSERT INTO leporid.seen SELECT * FROM new_seen ON CONFLICT DO NOTHING;" in lines


def test_refusals(old: Recommender, new: Recommender, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="export OLD_RUN --to parquet"):
        exported(new, tmp_path / "new", refresh=tmp_path)
    exported(old, tmp_path / "old")
    with pytest.raises(ConfigError, match="moved must be 0 or above"):
        exported(new, tmp_path / "new", refresh=tmp_path / "old", moved=float("nan"))
    wide = leporid.train("ials", everything(new.known), dim=9, progress=False)
    with pytest.raises(DataError, match="8 columns and the model 9"):
        exported(wide, tmp_path / "new", refresh=tmp_path / "old")
    other = few([[1.0] * 8], [1], [[0], [0]])
    with pytest.raises(DataError, match="other users than the model"):
        refreshed(replace(other, users=np.ones((2, 8), np.float32)), tmp_path / "old")
    assert not (tmp_path / "new").exists()


def test_the_command_says_how_many_rows_it_wrote(
    old: Recommender, new: Recommender, tmp_path: Path
) -> None:
    exported(old, tmp_path / "old")
    new.save(tmp_path / "model")
    arguments = ["export", str(tmp_path / "model"), "-o", str(tmp_path / "out")]
    refresh = ["--refresh", str(tmp_path / "old")]
    result = CliRunner().invoke(app, [*arguments, "--to", "parquet", *refresh, "--moved", "0"])
    assert result.exit_code == 0, result.output
    assert "items: 38 of 38 written, 2 deleted" in result.output
    assert "users: 57 of 57 written, 3 deleted" in result.output
    for wrong in (refresh, ["--to", "parquet", "--moved", "0.1"]):
        assert isinstance(CliRunner().invoke(app, [*arguments, *wrong]).exception, ConfigError)
