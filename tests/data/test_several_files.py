"""Lists of files, patterns and JSON lines: one log, whatever its files."""

from __future__ import annotations

import bz2
import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

import leporid
from leporid import load
from leporid.cli.app import app
from leporid.data import store_interactions, write_log
from leporid.errors import DataError, LeporidWarning

LOG = leporid.synthesize(40, 30, 600, seed=2)


def frame() -> pd.DataFrame:
    return LOG.to_pandas()


def write(path: Path, rows: pd.DataFrame) -> Path:
    """Write rows as the ending of the name says."""
    if path.suffix == ".parquet":
        pq.write_table(pa.table(rows), path)
    elif path.suffix in (".jsonl", ".ndjson"):
        path.write_text(rows.to_json(orient="records", lines=True))
    else:
        rows.to_csv(path, index=False)
    return path


@pytest.mark.parametrize("ending", ["csv", "parquet", "jsonl"])
def test_a_list_a_pattern_and_a_folder_are_one_log(tmp_path: Path, ending: str) -> None:
    rows = frame()
    cuts = np.array_split(np.arange(len(rows)), 3)
    # Written in another order than they are read in.
    files = [write(tmp_path / f"log-{n}.{ending}", rows.iloc[cuts[n]]) for n in (2, 0, 1)]
    in_order = sorted(files)
    whole = load(LOG.to_table())
    for source in (in_order, [str(f) for f in in_order], f"{tmp_path}/log-*.{ending}", tmp_path):
        data = load(source, progress=False)
        assert data.digest == whole.digest
        assert data.source is not None
        assert data.source.rows == len(rows)
    # The order of a list is the order of its rows; a pattern has that of the names.
    back = load(files, order="file")
    assert (
        back.digest == load(pd.concat([rows.iloc[cuts[n]] for n in (2, 0, 1)]), order="file").digest
    )
    by_name = load(f"{tmp_path}/log-[0-9].{ending}", order="file")
    assert by_name.digest == load(in_order, order="file").digest != back.digest


def test_a_list_may_hold_folders_patterns_and_packed_files(tmp_path: Path) -> None:
    rows = frame()
    (tmp_path / "a").mkdir()
    write(tmp_path / "a" / "x.csv", rows[:100])
    write(tmp_path / "b-1.csv", rows[100:200])
    text = rows[200:].to_csv(index=False).encode()
    (tmp_path / "c.csv.gz").write_bytes(gzip.compress(text))
    data = load([tmp_path / "a", f"{tmp_path}/b-?.csv", tmp_path / "c.csv.gz"], progress=False)
    assert data.digest == load(LOG.to_table()).digest
    assert data.source is not None
    assert data.source.origin == f"{tmp_path / 'a'} and 2 more files"


def test_files_that_do_not_go_together_are_refused(tmp_path: Path) -> None:
    rows = frame()
    a, b, c = (write(tmp_path / f"a.{ending}", rows) for ending in ("csv", "parquet", "jsonl"))
    for one, other, words in (
        (a, b, "is text and .*a.parquet is parquet"),
        (b, c, "is parquet and .*a.jsonl is JSON lines"),
        (c, a, "is JSON lines and .*a.csv is text"),
    ):
        with pytest.raises(DataError, match=f"{words}: the files of a log have one format"):
            load([one, other])
    with pytest.raises(DataError, match=r"no file matches .*b-"):
        load(f"{tmp_path}/b-*.csv")
    with pytest.raises(DataError, match=r"no such file: .*nowhere"):
        load([a, tmp_path / "nowhere.csv"])
    with pytest.raises(DataError, match="has a DataFrame among its paths"):
        load([a, rows])
    with pytest.raises(DataError, match="the list of files is empty"):
        load([])
    for wrong in ([1, 2], [rows, rows]):
        with pytest.raises(DataError, match="give a path, a list of paths"):
            load(wrong)
    b.unlink()
    (tmp_path / "a.parquet").mkdir()
    mixed = tmp_path / "mixed"
    mixed.mkdir()
    write(mixed / "1.csv", rows)
    write(mixed / "2.jsonl", rows)
    with pytest.raises(DataError, match="one format"):
        load(mixed)


def test_a_name_with_a_star_is_a_file_if_it_exists(tmp_path: Path) -> None:
    write(tmp_path / "log-*.csv", frame()[:50])
    write(tmp_path / "log-2.csv", frame())
    assert len(load(tmp_path / "log-*.csv", progress=False)) == 50


# JSON lines.


@pytest.mark.parametrize("pack", [None, gzip.compress, bz2.compress])
@pytest.mark.parametrize("name", ["log.jsonl", "log.ndjson", "log.json", "log"])
def test_json_lines_are_known_by_name_or_content(tmp_path: Path, name: str, pack: Any) -> None:
    text = frame().to_json(orient="records", lines=True)
    path = tmp_path / name
    path.write_text(text)
    if pack is not None:
        path = tmp_path / f"{name}.{'gz' if pack is gzip.compress else 'bz2'}"
        path.write_bytes(pack(text.encode()))
    data = load(path, progress=False)
    assert data.digest == load(LOG.to_table()).digest
    assert data.source is not None
    assert data.source.format == "json"


VALUES = st.one_of(
    st.none(),
    st.integers(-(2**63), 2**63 - 1),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=5),
    st.lists(st.integers(), max_size=2),
    st.dictionaries(st.text(max_size=2), st.integers(), max_size=2),
    st.floats(allow_nan=False),
)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.integers(-(2**63), 2**63 - 1),
            st.sampled_from(["x", "007", "7", 'é,\u2028"']),
            VALUES,
        ),
        min_size=1,
        max_size=12,
    ),
    st.booleans(),
)
def test_json_lines_say_what_python_wrote(
    tmp_path_factory: pytest.TempPathFactory, rows: list[Any], ascii_only: bool
) -> None:
    """Ids stay as they are, and columns without a role may hold anything."""
    path = tmp_path_factory.mktemp("json") / "log.jsonl"
    lines = [
        json.dumps({"user": user, "item": item, "note": note}, ensure_ascii=ascii_only)
        for user, item, note in rows
    ]
    path.write_text("\ufeff" + "\r\n\r\n".join(lines), encoding="utf-8")
    data = load(path, progress=False)
    users, items = data.users.externals(data.user), data.items.externals(data.item)
    if all(item == "7" for _, item, _ in rows):
        assert set(items) == {7}
        items = ["7"] * len(items)
    assert set(zip(users, items, strict=True)) == {(user, item) for user, item, _ in rows}


def test_a_role_may_have_its_column_in_later_lines_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("leporid.data.json_lines._LINES_AT_ONCE", 2)
    path = tmp_path / "log.jsonl"
    lines = [{"user": n, "item": n % 2} for n in range(6)]
    lines[5]["timestamp"] = 5
    path.write_text("\n".join(map(json.dumps, lines)))
    with pytest.warns(LeporidWarning, match="missing time"):
        data = load(path, progress=False)
    assert data.time is not None
    assert data.time.tolist() == [5]
    assert data.dropped == {"missing time": 5}


def test_numbers_and_text_in_one_column_are_refused_wherever_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In one block of lines, in two, and in two files: 7 and "007" are never one user."""
    path = tmp_path / "log.jsonl"
    path.write_text('{"user": 7, "item": 1}\n{"user": "007", "item": 1}\n')
    for lines in (10, 1):
        monkeypatch.setattr("leporid.data.json_lines._LINES_AT_ONCE", lines)
        with pytest.raises(DataError, match=r"column 'user'.* holds both"):
            load(path)
    one, other = tmp_path / "1.jsonl", tmp_path / "2.jsonl"
    one.write_text('{"user": 7, "item": 1}\n')
    other.write_text('{"user": "007", "item": 1}\n')
    with pytest.raises(DataError, match="column 'user' holds both int64 and string"):
        load([one, other])
    other.write_text('{"user": 8.0, "item": 1}\n\n')
    assert load([one, other], progress=False).users.ids.to_pylist() == [7, 8]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"user": 1, "item": 2}\n{"user": 1, "it', "line 2: this is no JSON object"),
        ('{"user": 1, "item": 2}\n\n[1, 2]\n', "line 3: expected a JSON object"),
        ('{"user": 1, "item": 2},{"user": 1, "item": 3}\n', "line 1: this is no JSON object"),
        ('{"user": 1,\n"item": 2}\n', "line 1: this is no JSON object"),
        ('{"user": 1, "item": 2}\n7\n', "line 2: expected a JSON object"),
        ('{"user": {"id": 1}, "item": 2}\n', "the user column has type struct"),
        ('{"user": 1, "thing": 2}\n', "no column that looks like the item"),
        ('{"user": 123456789012345678901234567890, "item": 2}\n', "beyond 64 bits"),
        ("\n\n", "has no rows"),
        ("", "has no rows"),
        ('{"user": 1, "item": "' + "[" * 50_000, "line 1: this is no JSON object"),
        ('{"user": 1, "item": ' + "[" * 50_000, "line 1: this is no JSON object"),
        ('{"user": 1, "item": "' + "x" * (5 << 20) + '"}', "line 1: a row is longer than 4 MiB"),
    ],
)
def test_lines_that_are_no_objects_get_a_sentence(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "log.jsonl"
    path.write_text(text)
    with pytest.raises(DataError, match=words):
        load(path)


def test_bytes_that_are_no_text_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_bytes('{"user": "é", "item": 1}\n'.encode("latin-1"))
    with pytest.raises(DataError, match="not utf-8 text"):
        load(path)
    assert load(path, encoding="latin-1", progress=False).users.ids.to_pylist() == ["é"]
    with pytest.raises(DataError, match="no-such"):
        load(path, encoding="no-such")


def test_streams_take_patterns_and_refuse_json(tmp_path: Path) -> None:
    rows = frame()
    for n, part in enumerate(np.array_split(np.arange(len(rows)), 2)):
        write(tmp_path / f"log-{n}.parquet", rows.iloc[part])
    stored = store_interactions(f"{tmp_path}/log-*.parquet", tmp_path / "out", "4GB")
    expected = load(LOG.to_table()).csr()
    assert (stored.csr() != expected).nnz == 0
    write(tmp_path / "log.jsonl", rows)
    with pytest.raises(DataError, match="JSON lines are not streamed"):
        store_interactions(tmp_path / "log.jsonl", tmp_path / "out2", "4GB")


# Tables of other packages.


def test_relations_lazy_frames_and_readers_are_logs(tmp_path: Path) -> None:
    duckdb = pytest.importorskip("duckdb")
    table = LOG.to_table()
    path = write_log(table, tmp_path / "log.parquet") or tmp_path / "log.parquet"
    for source in (
        duckdb.from_arrow(table),
        duckdb.sql(f"SELECT * FROM '{path}'"),
        pl.scan_parquet(path),
        pl.from_arrow(table),
        table.to_reader(),
        frame(),
    ):
        assert load(source, progress=False).digest == load(table).digest


def test_a_pattern_on_the_command_line(tmp_path: Path) -> None:
    rows = frame()
    for n, part in enumerate(np.array_split(np.arange(len(rows)), 2)):
        write(tmp_path / f"log-{n}.csv", rows.iloc[part])
    told = CliRunner().invoke(app, ["data", "stats", f"{tmp_path}/log-*.csv", "--json"])
    assert told.exit_code == 0, told.exception
    assert json.loads(told.stdout)["interactions"] == len(LOG)
