"""`leporid embed --memory` and `--refresh`."""

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
    embed(tmp_path / "log", "-o", tmp_path / "one", "--core", 3)
    report = embed(tmp_path / "log", "-o", tmp_path / "two", "--core", 3, "--memory", "20GB")
    assert report["sides"][0]["largest residual"] <= 1e-6
    one, two = read_embeddings(tmp_path / "one"), read_embeddings(tmp_path / "two")
    assert (one.user_ids, one.item_ids) == (two.user_ids, two.item_ids)
    np.testing.assert_array_equal(one.users.vectors, two.users.vectors)
    np.testing.assert_array_equal(one.items.vectors, two.items.vectors)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["log", "one", "two"]


def test_refresh_stays_in_the_old_coordinates(tmp_path: Path, log: Interactions) -> None:
    assert log.time is not None
    early = log.select(log.time <= np.quantile(log.time, 0.9))
    # ids of their own, sorted anew in every file: rows are matched by id, not by place
    write_log(early, tmp_path / "early.parquet")
    write_log(log, tmp_path / "all.parquet")
    embed(tmp_path / "early.parquet", "-o", tmp_path / "old")
    embed(tmp_path / "all.parquet", "-o", tmp_path / "fresh")
    embed(tmp_path / "all.parquet", "-o", tmp_path / "new", "--refresh", tmp_path / "old")
    old, fresh, new = (read_embeddings(tmp_path / name) for name in ("old", "fresh", "new"))
    assert new.user_ids == fresh.user_ids
    assert new.users.provenance["rotated"] is True
    for one, other in ((new.users, fresh.users), (new.items, fresh.items)):
        overlap = np.linalg.svd(one.vectors.T @ other.vectors, compute_uv=False)
        np.testing.assert_allclose(overlap, 1.0, atol=1e-4)
    assert old.user_ids is not None
    assert new.user_ids is not None
    place = new.user_ids.encode(old.user_ids.ids)
    near = np.linalg.norm(new.users.vectors[place] - old.users.vectors)
    assert near < 0.9 * np.linalg.norm(fresh.users.vectors[place] - old.users.vectors)


def test_what_does_not_go_together(tmp_path: Path, log: Interactions) -> None:
    write_log(log, tmp_path / "log.parquet")

    def error(*arguments: Any) -> str:
        given = ["embed", str(tmp_path / "log.parquet"), "-o", str(tmp_path / "out")]
        done = runner.invoke(app, [*given, *map(str, arguments)])
        assert done.exit_code != 0
        return str(done.exception) + done.output

    embed(tmp_path / "log.parquet", "-o", tmp_path / "old")
    assert "--memory and --refresh" in error("--memory", "9GB", "--refresh", tmp_path / "old")
    assert "not svd" in error("--method", "svd", "--refresh", tmp_path / "old")
    assert "not svd" in error("--method", "svd", "--memory", "9GB")
    assert "dim=7" in error("--dim", 7, "--refresh", tmp_path / "old", "--no-cache")
