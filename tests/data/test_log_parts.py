"""Folders as Spark and Hive write them, on this machine and behind a real S3 API."""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from leporid import load
from leporid.cli.app import app
from leporid.data import store_interactions
from leporid.errors import DataError

DAYS = {
    "2024-01-02": ([3, 1], ["c d", "a"]),
    "2024-01-01": ([1, 2, 2], ["b", "a", "b"]),
    "2024-01-03": ([3], ["a"]),
}
EXPECTED = [(1, "b"), (1, "a"), (2, "a"), (2, "b"), (3, "c d"), (3, "a")]
"""By user, then day."""


def rows(data: Any) -> list[tuple[Any, Any]]:
    users, items = data.users.externals(data.user), data.items.externals(data.item)
    return list(zip(users.tolist(), items.tolist(), strict=True))


def spark_folder(folder: Path, kind: str) -> Path:
    """Hive partitions by day, a mark of success, sums of the parts, and an empty part."""
    for number, (day, (users, items)) in enumerate(DAYS.items()):
        inside = folder / f"day={day}"
        inside.mkdir(parents=True)
        name = f"part-{number:05}-4c1f.c000"
        lines = [f"{user},{item}\n" for user, item in zip(users, items, strict=True)]
        if kind == "parquet":
            table = pa.table({"user_id": users, "item_id": items})
            pq.write_table(table, inside / f"{name}.snappy.parquet")
            pq.write_table(table.slice(0, 0), inside / f"{name}-empty.snappy.parquet")
        elif kind == "csv":
            text = "user_id,item_id\n"
            (inside / f"{name}.csv").write_text(text + "".join(lines))
            (inside / f"{name}-empty.csv").write_text(text if number else "")
        elif kind == "json":  # as Spark names them
            pairs = zip(users, items, strict=True)
            objects = [json.dumps({"user_id": user, "item_id": item}) for user, item in pairs]
            (inside / f"{name}.json").write_text("\n".join(objects))
            (inside / f"{name}-empty.json").write_text("")
        else:  # without names and ending, packed
            (inside / f"{name}-empty").write_text("")
            (inside / name).write_bytes(gzip.compress("".join(lines).encode()))
        (inside / f".{name}.crc").write_bytes(b"crc\0\0")
    (folder / "_SUCCESS").touch()
    (folder / "_temporary").mkdir()
    (folder / "_temporary" / "part-9.parquet").write_bytes(b"half of it")
    return folder


@pytest.mark.parametrize("kind", ["parquet", "csv", "gzip", "json"])
def test_a_folder_of_spark_is_one_log(tmp_path: Path, kind: str) -> None:
    folder = spark_folder(tmp_path / "log", kind)
    data = load(folder, time="day")
    assert rows(data) == EXPECTED
    assert data.source is not None
    assert data.source.columns["time"] == "day"
    assert data.source.rows == 6
    if kind != "json":  # which is not streamed
        stored = store_interactions(folder, tmp_path / "scratch", "100GB", time="day")
        assert stored.csr().toarray().tolist() == data.csr().toarray().tolist()
        assert (stored.users, stored.items) == (data.users, data.items)
    day = load(folder / "day=2024-01-02")
    assert rows(day) == [(1, "a"), (3, "c d")]
    assert day.time is None


def test_a_partition_may_be_the_user_and_have_no_value(tmp_path: Path) -> None:
    for user, items in {"7": [1, 2], "a%20b": [2], "__HIVE_DEFAULT_PARTITION__": [3]}.items():
        (tmp_path / "log" / f"user={user}").mkdir(parents=True)
        (tmp_path / "log" / f"user={user}" / "part-0.csv").write_text(
            "item,rating\n" + "".join(f"{item},1\n" for item in items)
        )
    with pytest.warns(match="left out 1 of 4 rows"):
        data = load(tmp_path / "log")
    assert rows(data) == [("7", 1), ("7", 2), ("a b", 2)]
    with pytest.warns(match="left out 1 of 4 rows"):
        stored = store_interactions(tmp_path / "log", tmp_path / "scratch", "100GB")
    assert stored.csr().toarray().tolist() == data.csr().toarray().tolist()


def test_text_streams_in_blocks_as_it_is_loaded(tmp_path: Path) -> None:
    text = "user;item;time\n" + "".join(f'{n % 997};"i;{n % 89}";{n}\n' for n in range(600_000))
    (tmp_path / "log.csv").write_text(text)
    data = load(tmp_path / "log.csv")
    stored = store_interactions(tmp_path / "log.csv", tmp_path / "scratch", "100GB")
    assert (stored.csr() != data.csr()).nnz == 0
    assert stored.dropped == data.dropped
    (tmp_path / "log.csv").write_text(text + "1;2\n")
    with pytest.raises(DataError, match=r"log\.csv, line 600002: expected 3 columns, got 2"):
        store_interactions(tmp_path / "log.csv", tmp_path / "scratch", "100GB")


@pytest.mark.parametrize("kind", ["parquet", "csv", "gzip"])
def test_an_address_is_read_and_streamed_as_the_folder_is(tmp_path: Path, kind: str) -> None:
    folder = spark_folder(tmp_path / "log", kind)
    data = load(f"file://{folder}", time="day")
    assert rows(data) == EXPECTED
    assert data.source is not None
    assert data.source.origin == f"file://{folder}"
    stored = store_interactions(f"file://{folder}", tmp_path / "scratch", "100GB", time="day")
    assert stored.csr().toarray().tolist() == data.csr().toarray().tolist()
    with pytest.raises(DataError, match=r"^no such file: file:///.*/none$"):
        load(f"file://{tmp_path}/none")


def test_a_log_that_was_cut_is_not_blamed_on_the_target(tmp_path: Path) -> None:
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(b"user,item\n" + b"1,2\n" * 5000)[:-20])
    with pytest.raises(DataError, match=r"a\.csv\.gz is not a whole compressed file"):
        store_interactions(tmp_path / "a.csv.gz", tmp_path / "scratch", "100GB")


def test_parts_that_do_not_belong_together(tmp_path: Path) -> None:
    (tmp_path / "part-0.csv").write_text("user,item\n1,2\n")
    (tmp_path / "part-1.csv").write_text("user,item,date\n1,2,2024-01-01\n")
    with pytest.raises(DataError, match=r"part-1\.csv has the columns user, item, date, and .*0"):
        load(tmp_path)
    (tmp_path / "part-1.csv").write_text("3,4\n")
    with pytest.raises(DataError, match=r"part-1\.csv has no column 'user', as .*part-0\.csv has"):
        load(tmp_path)
    (tmp_path / "part-1.csv").write_text("user,item\n")
    (tmp_path / "day=1").mkdir()
    (tmp_path / "day=1" / "part-1.csv").write_text("user,item\n1,2\n")
    with pytest.raises(DataError, match="in folders of different columns"):
        load(tmp_path)
    (tmp_path / "none" / "_SUCCESS").parent.mkdir()
    (tmp_path / "none" / "_SUCCESS").touch()
    with pytest.raises(DataError, match=r"none is a directory without \.parquet files, or text"):
        load(tmp_path / "none")
    (tmp_path / "none" / "part-0.csv").touch()
    (tmp_path / "none" / "part-1.csv").write_text("user,item\n")
    with pytest.raises(DataError, match="none has no rows"):
        load(tmp_path / "none")


@pytest.mark.parametrize(
    "options",
    [{}, {"time": "ts"}, {"user": 0, "item": 1, "time": 2}, {"weight": "stars"}],
)
def test_parts_may_order_their_columns_differently(tmp_path: Path, options: dict[str, Any]) -> None:
    (tmp_path / "part-0.csv").write_text("user,item,ts,stars\n1,20,5,3\n1,10,7,4\n")
    (tmp_path / "part-1.csv").write_text("ts,stars,item,user,note\n6,2,10,2,x\n")
    data = load(tmp_path, **options)
    assert rows(data) == [(1, 20), (1, 10), (2, 10)]
    assert data.time is not None
    assert data.time.tolist() == [5, 7, 6]
    if "weight" in options:
        assert data.weight is not None
        assert data.weight.tolist() == [3, 4, 2]
    else:
        stored = store_interactions(tmp_path, tmp_path / "scratch", "100GB", **options)
        assert (stored.csr() != data.csr()).nnz == 0
        assert stored.users == data.users


@pytest.fixture(scope="module")
def bucket(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """What lies in s3://logs/, on a server of this process."""
    server_module = pytest.importorskip(
        "moto.server", reason="an S3 API on loopback: pip install leporid[moto]"
    )
    from pyarrow import fs

    folder = tmp_path_factory.mktemp("bucket")
    for kind in ("parquet", "csv"):
        spark_folder(folder / kind, kind)
    (folder / "one.csv").write_text("user,item\n1,2\n2,1\n")
    (folder / "one.csv.gz").write_bytes(gzip.compress(b"user,item\n1,2\n2,1\n"))
    pq.write_table(pa.table({"user": [1, 2], "item": [2, 1]}), folder / "one.parquet")
    server = server_module.ThreadedMotoServer("127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    settings = {
        "AWS_ENDPOINT_URL": f"http://{host}:{port}",
        "AWS_ACCESS_KEY_ID": "key",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_DEFAULT_REGION": "eu-west-1",
        "AWS_EC2_METADATA_DISABLED": "true",
    }
    with pytest.MonkeyPatch.context() as patch:
        for name, value in settings.items():
            patch.setenv(name, value)
        store = fs.S3FileSystem(
            endpoint_override=f"{host}:{port}", scheme="http", allow_bucket_creation=True
        )
        store.create_dir("logs")
        fs.copy_files(str(folder), "logs", destination_filesystem=store)
        yield folder
    server.stop()


@pytest.mark.parametrize("name", ["parquet", "csv", "one.csv", "one.csv.gz", "one.parquet"])
def test_s3_is_read_and_streamed_as_the_files_are(bucket: Path, tmp_path: Path, name: str) -> None:
    here, there = load(bucket / name), load(f"s3://logs/{name}")
    assert there.digest == here.digest  # what caches go by
    assert there.source is not None
    assert there.source.origin == f"s3://logs/{name}"
    stored = store_interactions(f"s3://logs/{name}", tmp_path / "scratch", "100GB")
    assert (stored.csr() != here.csr()).nnz == 0
    assert stored.users == here.users


def test_s3_on_the_command_line(bucket: Path, tmp_path: Path) -> None:
    common = ["embed", "s3://logs/parquet", "--dim", "2", "--k", "2", "--method", "le"]
    for more in ([], ["--memory", "100GB"]):
        result = CliRunner().invoke(app, [*common, "-o", str(tmp_path / f"v{len(more)}"), *more])
        assert result.exit_code == 0, result.output
    assert (tmp_path / "v0").is_dir()
    assert (tmp_path / "v2").is_dir()


@pytest.mark.usefixtures("bucket")
def test_what_s3_does_not_have_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(DataError, match=r"^no such file: s3://logs/none\.csv$"):
        load("s3://logs/none.csv")
    with pytest.raises(DataError, match=r"^(no such file|could not read).* s3://nobody/x"):
        load("s3://nobody/x")
    with pytest.raises(DataError, match=r"^no such file: s3://logs/none$"):
        load("s3://me:password@logs/none")
    address = os.environ["AWS_ENDPOINT_URL"].removeprefix("http://")
    monkeypatch.delenv("AWS_ENDPOINT_URL")
    assert len(load(f"s3://logs/one.csv?scheme=http&endpoint_override={address}")) == 2
    for read in (load, lambda address: store_interactions(address, "x", "100GB")):
        with pytest.raises(DataError, match=r"nowhere://logs/one\.csv") as caught:
            read("nowhere://logs/one.csv")
        assert "\n" not in str(caught.value)
