"""`leporid embed --memory`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from leporid import Interactions
from leporid.cli.app import app
from leporid.data import synthesize, write_log
from leporid.interop import read_embeddings

runner = CliRunner()
SETTINGS = ["--k", "20", "--dim", "5", "--no-cache", "--json"]


def embed(*arguments: Any) -> Any:
    done = runner.invoke(app, ["embed", *map(str, arguments), *SETTINGS])
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def log() -> Interactions:
    return synthesize(300, 120, 9000, seed=4)


def test_memory_gives_the_same_vectors(tmp_path: Path, log: Interactions) -> None:
    (tmp_path / "log").mkdir()
    write_log(log, tmp_path / "log" / "a.parquet")
    paper = ["--alpha", 0.5, "--set", "row_norm=as-is", "--set", "fold_in_users=false"]
    embed(tmp_path / "log", "-o", tmp_path / "one", "--core", 3, *paper)
    report = embed(tmp_path / "log", "-o", tmp_path / "two", "--core", 3, "--memory", "20GB")
    assert report["sides"][0]["largest residual"] <= 1e-6
    one, two = read_embeddings(tmp_path / "one"), read_embeddings(tmp_path / "two")
    assert (one.user_ids, one.item_ids) == (two.user_ids, two.item_ids)
    np.testing.assert_array_equal(one.users.vectors, two.users.vectors)
    np.testing.assert_array_equal(one.items.vectors, two.items.vectors)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["log", "one", "two"]


def test_what_does_not_go_together(tmp_path: Path, log: Interactions) -> None:
    write_log(log, tmp_path / "log.parquet")

    def error(*arguments: Any) -> str:
        given = ["embed", str(tmp_path / "log.parquet"), "-o", str(tmp_path / "out")]
        done = runner.invoke(app, [*given, *map(str, arguments)])
        assert done.exit_code != 0
        return str(done.exception) + done.output

    assert "--memory and --scheduler" in error("--memory", "9GB", "--scheduler", "tcp://none:1")
    assert "not svd" in error("--method", "svd", "--memory", "9GB")
