"""Lists from other systems equal the model's own: faiss, Qdrant, PostgreSQL."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import leporid
from leporid import models
from leporid.cli.app import app
from leporid.data import IdMap, Interactions, temporal_split
from leporid.errors import ConfigError, UnknownNameError
from leporid.interop import ModelVectors, export_model
from leporid.interop.model_export import compare
from leporid.interop.targets import PostgresTables
from leporid.models import Recommender
from leporid.ranking import VectorsUnsupportedError

SHORT = {"dim": 8, "steps": 25, "eval_every": 0, "init": None, "recipe": None}
MODELS: dict[str, dict[str, Any]] = {
    "bpr": {"steps": 60, "lr": 0.1},
    "ials": {},
    "lightgcn": {},
    "ngcf": {"layers": (8,)},
    "sasrec": {"max_history": 12, "batch_size": 32},
    "general": {
        "recipe": "general",
        "batch_size": 64,
        "steps": 25,
        "linear_weight": 0.0,
        "transitions_weight": 0.0,
    },
    "margin": {"inference": "generative", "batch_size": 32, "channels": 8},
    "first stage": {"batch_size": 32, "channels": 8},
}


@pytest.fixture(scope="module")
def log() -> Interactions:
    """90 users, 60 items; ids are texts with all that a COPY has to escape."""
    data = leporid.synthesize(90, 60, 1400, seed=2)
    users = IdMap.from_values([f"user\t{u:03}\\n" for u in range(90)], "user")
    items = IdMap.from_values([f"item '{i:03}'\n" for i in range(60)], "item")
    return Interactions(data.user, data.item, data.time, users, items)


_fitted: dict[str, Recommender] = {}


def fitted(name: str, log: Interactions) -> Recommender:
    """Each model is trained once."""
    if name not in _fitted:
        kind = name if name in models.available() else "dlr2"
        settings = {**(SHORT if kind != "ials" else {"dim": 8}), **MODELS[name]}
        _fitted[name] = leporid.train(kind, temporal_split(log), progress=False, **settings)
    return _fitted[name]


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("to", ["parquet", "faiss", "qdrant"])
def test_an_exact_search_outside_gives_the_models_lists(
    name: str, to: str, log: Interactions, tmp_path: Path
) -> None:
    pytest.importorskip({"qdrant": "qdrant_client"}.get(to, "pyarrow" if to == "parquet" else to))
    parity = export_model(fitted(name, log), tmp_path / "out", to, check=60)
    assert parity is not None
    assert (parity.users, parity.n, parity.equal, parity.recall) == (60, 10, 60, 1.0)
    about = json.loads((tmp_path / "out" / "export.json").read_text())
    assert about["parity"]["equal"] == 60
    assert about["product_ranks"] == ("first stage" if name == "first stage" else "everything")


@pytest.mark.slow
@pytest.mark.realdata
@pytest.mark.parametrize("name", ["ials", "sasrec", "dlr2"])
def test_a_thousand_users_of_movielens(name: str, real_data: Path, tmp_path: Path) -> None:
    for package in ("faiss", "qdrant_client"):
        pytest.importorskip(package)
    split = temporal_split(leporid.load(real_data / "ml-1m-r3.parquet").core(5))
    short = {"init": None, "steps": 40, "eval_every": 0, "batch_size": 128}
    settings = {"ials": {}, "sasrec": short, "dlr2": {**short, "channels": 8, "max_history": 5}}[
        name
    ]
    model = leporid.train(name, split, progress=False, **settings)
    for to in ("parquet", "faiss", "qdrant"):
        parity = export_model(model, tmp_path / to, to)
        print(name, to, parity)
        assert parity is not None
        assert (parity.users, parity.equal) == (1000, 1000)


def test_wrong_lists_are_counted(log: Interactions) -> None:
    model = fitted("bpr", log)
    users = np.arange(40, dtype=np.int32)
    right = model.top_k(users, 10).items
    wrong = right.copy()
    wrong[:8, 9] = model.top_k(users[:8], 11).items[:, 10]
    wrong[8:12] = wrong[8:12, ::-1]
    vectors = ModelVectors.of(model)
    assert compare(model, vectors, users, right).equal == 40
    parity = compare(model, vectors, users, wrong)
    assert parity.equal == 28
    assert parity.recall == pytest.approx(1 - 8 * 0.1 / 40)


def test_parquet_files_say_what_each_user_has(log: Interactions, tmp_path: Path) -> None:
    model = fitted("bpr", log)
    export_model(model, tmp_path / "out", "parquet", check=0)
    row = pq.read_table(tmp_path / "out" / "users.parquet").to_pylist()[7]
    assert row["id"] == model.users.external(7)
    assert row["seen"] == model.items.externals(model.known.sequences().of(7)).tolist()


@pytest.mark.parametrize(
    ("number", "package", "folder", "name"),
    [
        (0, "faiss", "index", "general"),
        (1, "qdrant_client", "collections", "general"),
    ],
)
def test_the_page_shows_how_to_search_without_this_library(
    number: int, package: str, folder: str, name: str, log: Interactions, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    pytest.importorskip(package)
    model = fitted(name, log)
    target = {"index": "faiss", "collections": "qdrant"}[folder]
    export_model(model, tmp_path / folder, target, check=0)
    page = (Path(__file__).parents[2] / "docs" / "export.md").read_text(encoding="utf-8")
    block = re.findall(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)[number]
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"user_id": model.users.external(7)}
    exec(block, names)
    wanted, _ = model.recommend(model.users.external(7))
    assert names["best"] == wanted.tolist()


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a PostgreSQL that has pgvector, in a folder of this test."""
    pytest.importorskip("psycopg", reason="psycopg is not installed (the extra 'postgres')")
    pgserver = pytest.importorskip(
        "pgserver", reason="no PostgreSQL with pgvector: pip install pgserver"
    )
    server = pgserver.get_server(tmp_path_factory.mktemp("postgres"))
    try:
        yield server.get_uri()
    finally:
        server.cleanup()


@pytest.mark.parametrize("name", ["bpr", "general"])
def test_postgres_ranks_as_the_model_does(
    name: str, log: Interactions, tmp_path: Path, database: str
) -> None:
    model = fitted(name, log)
    parity = export_model(model, tmp_path / "out", "pgvector", address=database, check=60)
    assert parity is not None
    assert (parity.users, parity.equal) == (60, 60)


@pytest.mark.slow
@pytest.mark.realdata
def test_a_thousand_users_of_movielens_in_postgres(
    real_data: Path, tmp_path: Path, database: str
) -> None:
    split = temporal_split(leporid.load(real_data / "ml-1m-r3.parquet").core(5))
    model = leporid.train("ials", split, progress=False)
    parity = export_model(model, tmp_path / "out", "pgvector", address=database)
    assert parity is not None
    assert (parity.users, parity.equal) == (1000, 1000)


def test_psql_loads_the_file(log: Interactions, tmp_path: Path, database: str) -> None:
    if shutil.which("psql") is None:
        pytest.skip("psql is not installed")
    model = fitted("ials", log)
    assert export_model(model, tmp_path / "out", "pgvector", name="films") is None
    file = tmp_path / "out" / "load.sql"
    for _ in range(2):  # the second replaces the first
        command = ["psql", database, "-q", "-v", "ON_ERROR_STOP=1", "-f", str(file)]
        subprocess.run(command, check=True, capture_output=True)
    vectors, users = ModelVectors.of(model), np.arange(60, dtype=np.int32)
    found = PostgresTables(file.parent, address=database, name="films").search(vectors, users, 10)
    assert compare(model, vectors, users, found).equal == 60


def test_load_sql_replaces_all_tables_in_one_transaction(log: Interactions, tmp_path: Path) -> None:
    model = fitted("ials", log)
    export_model(model, tmp_path / "out", "pgvector")
    lines = (tmp_path / "out" / "load.sql").read_text().split("\n")
    assert (lines[0], lines[-3]) == ("BEGIN;", "COMMIT;")
    assert lines.count("\\.") == 3
    assert r"item '000'\n" in lines[lines.index("COPY leporid.items FROM stdin;") + 1]
    assert sum(line.startswith("user\\t") for line in lines) == 90 + len(model.known)


def test_refusals(log: Interactions, tmp_path: Path) -> None:
    model = fitted("ials", log)
    with pytest.raises(UnknownNameError, match="did you mean 'faiss'"):
        export_model(model, tmp_path, "fais")
    with pytest.raises(ConfigError, match="has no address"):
        export_model(model, tmp_path / "a", "parquet", address="http://localhost")
    with pytest.raises(ConfigError, match="small letters"):
        export_model(model, tmp_path / "a", "pgvector", name="Robert'); DROP")
    popular = leporid.train("toppop", temporal_split(log), progress=False)
    with pytest.raises(VectorsUnsupportedError, match="leporid serve"):
        export_model(popular, tmp_path / "a", "parquet")
    assert not (tmp_path / "a").exists()


def test_the_command_says_how_the_lists_compare(log: Interactions, tmp_path: Path) -> None:
    fitted("first stage", log).save(tmp_path / "model")
    arguments = ["export", str(tmp_path / "model"), "--to", "parquet", "-o", str(tmp_path / "out")]
    result = CliRunner().invoke(app, [*arguments, "--check", "50"])
    assert result.exit_code == 0, result.output
    assert "top-10 lists of 50 of 50 users equal the model's own (recall 1.0000)" in result.output
    assert "which the model itself then ranks" in result.output
    result = CliRunner().invoke(app, [*arguments, "--check", "0", "--json"])
    assert json.loads(result.output)["parity"] is None
    result = CliRunner().invoke(app, [*arguments, "--format", "csv"])
    assert isinstance(result.exception, ConfigError)
