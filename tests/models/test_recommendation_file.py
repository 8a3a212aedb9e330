"""Lists for everybody: one file, which is whole or not there."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

from leporid.data import load, temporal_split
from leporid.errors import ConfigError, NotFittedError
from leporid.models import Recommender
from leporid.models.closed_form.ease import EASE
from leporid.ranking import lists, write_recommendations
from tests.test_contract import make_split


@pytest.fixture(scope="module")
def model() -> Recommender:
    return EASE(l2=5.0).fit(make_split())


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lists, "chunk_rows", lambda *_: 3)


def test_the_formats_hold_the_rows_of_the_frame(model: Recommender, tmp_path: Path) -> None:
    frame = model.recommend_frame(n=5, exclude=[13])
    for suffix in ("parquet", "csv", "jsonl"):
        path = tmp_path / f"recs.{suffix}"
        assert write_recommendations(model, path, n=5, exclude=[13]) == frame.num_rows
        assert len(frame["user"].unique()) == 31
    assert pa.parquet.read_table(tmp_path / "recs.parquet").equals(frame)
    assert pa.csv.read_csv(tmp_path / "recs.csv").cast(frame.schema).equals(frame)
    lines = (tmp_path / "recs.jsonl").read_text().splitlines()
    assert pa.Table.from_pylist(list(map(json.loads, lines)), frame.schema).equals(frame)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "recs.csv", "recs.jsonl", "recs.parquet",
    ]  # fmt: skip
    with pytest.raises(ConfigError, match=r"\.parquet, \.csv, \.jsonl"):
        write_recommendations(model, tmp_path / "recs.xlsx")


@pytest.mark.parametrize(
    ("model", "described"), [(EASE, "the class EASE"), ("ease", "'ease'"), (None, "None")]
)
def test_what_is_no_model_is_refused(model: Any, described: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=f"model must be a Recommender, not {described}"):
        write_recommendations(model, tmp_path / "recs.csv")
    assert list(tmp_path.iterdir()) == []


def test_a_model_that_is_not_fitted_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NotFittedError, match="ease is not fitted yet"):
        write_recommendations(EASE(), tmp_path / "recs.csv")


class _KilledError(Exception):
    pass


class _Kill:
    """Stops after a number of users, as a kill would."""

    def __init__(self, after: int) -> None:
        self.left = after

    def start(self, description: str, total: int | None = None) -> None: ...

    def advance(self, steps: int = 1, **fields: object) -> None:
        self.left -= steps
        if self.left <= 0:
            raise _KilledError

    def say(self, line: str) -> None: ...

    def close(self) -> None: ...


def test_a_broken_run_leaves_no_file(model: Recommender, tmp_path: Path) -> None:
    path = tmp_path / "recs.parquet"
    with pytest.raises(_KilledError):
        write_recommendations(model, path, n=5, progress=_Kill(14))
    assert list(tmp_path.iterdir()) == []
    write_recommendations(model, path, n=5)
    assert [path] == list(tmp_path.iterdir())


def test_no_list_on_real_data_holds_what_a_user_has(real_data: Path, tmp_path: Path) -> None:
    model = EASE().fit(temporal_split(load(real_data / "lastfm.parquet")))
    target = tmp_path / "recs.csv"
    write_recommendations(model, target, n=20)
    owned = set(zip(model.known.user.tolist(), model.known.item.tolist(), strict=True))
    recs = pa.csv.read_csv(target)
    users, items = model.users.encode(recs["user"]), model.items.encode(recs["item"])
    assert not owned & set(zip(users.tolist(), items.tolist(), strict=True))
