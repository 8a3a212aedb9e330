"""`leporid extend`: a saved model in, one with more rows out."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from typer.testing import CliRunner

from leporid.cli.app import app
from leporid.data import synthesize, temporal_split
from leporid.errors import ConfigError
from leporid.models import Recommender, get, train

runner = CliRunner()


def test_a_run_is_extended_by_a_table(tmp_path: Path) -> None:
    split = temporal_split(synthesize(30, 20, 300, seed=1))
    model = train("bpr", split, None, dim=4, steps=2, eval_every=0, progress=False, device="cpu")
    model.save(tmp_path / "a" / "model")
    ids = [str(key) for key in split.items.ids.to_pylist()]
    table = pa.table({"item_id": [*ids, "9001"], "genres": [["x", "y"]] * 21})
    pq.write_table(table, tmp_path / "items.parquet")
    common = ["extend", str(tmp_path / "a"), "-o", str(tmp_path / "b")]
    done = runner.invoke(app, [*common, "--items", str(tmp_path / "items.parquet"), "--json"])
    assert done.exit_code == 0, done.output
    report = json.loads(done.stdout)
    assert (report["new_items"], report["new_users"], report["items"]) == (1, 0, 21)
    extended = Recommender.load(tmp_path / "b" / "model")
    assert len(extended.items) == 21
    assert isinstance(runner.invoke(app, common).exception, ConfigError)
    get("toppop")().fit(split).save(tmp_path / "a" / "model")
    refused = runner.invoke(app, [*common, "--items", str(tmp_path / "items.parquet")])
    assert "no embedding tables" in str(refused.exception)
