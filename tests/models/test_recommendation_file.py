"""Lists for everybody: one file, in parts, that a kill does not change."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

from leporid.data import load, temporal_split
from leporid.errors import ConfigError, DataError
from leporid.models import Recommender, write_recommendations
from leporid.models.ease import EASE
from leporid.models.shared import recommendation_file
from tests.test_contract import make_split


@pytest.fixture(scope="module")
def model() -> Recommender:
    return EASE(l2=5.0).fit(make_split())


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recommendation_file, "_ROWS", 20)
    monkeypatch.setattr(recommendation_file, "chunk_rows", lambda *_: 3)


def test_the_formats_hold_the_rows_of_the_frame(model: Recommender, tmp_path: Path) -> None:
    frame = model.recommend_frame(n=5, exclude=[13])
    for suffix in ("parquet", "csv", "jsonl"):
        path = tmp_path / f"recs.{suffix}"
        written = write_recommendations(model, path, n=5, exclude=[13])
        assert (written.users, written.rows, written.resumed_users) == (31, frame.num_rows, 0)
    assert pa.parquet.read_table(tmp_path / "recs.parquet").equals(frame)
    assert pa.csv.read_csv(tmp_path / "recs.csv").cast(frame.schema).equals(frame)
    lines = (tmp_path / "recs.jsonl").read_text().splitlines()
    assert pa.Table.from_pylist(list(map(json.loads, lines)), frame.schema).equals(frame)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "recs.csv", "recs.jsonl", "recs.parquet",
    ]  # fmt: skip
    with pytest.raises(ConfigError, match=r"\.parquet, \.csv, \.jsonl"):
        write_recommendations(model, tmp_path / "recs.xlsx")


class _KilledError(Exception):
    pass


class _Kill:
    """Stops after a number of users, as a kill would; counts those it saw."""

    def __init__(self, after: int) -> None:
        self.left, self.seen = after, 0

    def start(self, description: str, total: int | None = None) -> None: ...

    def advance(self, steps: int = 1, **fields: object) -> None:
        self.seen += steps
        self.left -= steps
        if self.left <= 0:
            raise _KilledError

    def close(self) -> None: ...


def test_a_broken_run_goes_on_and_ends_with_the_same_bytes(
    model: Recommender, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, path = tmp_path / "whole.parquet", tmp_path / "recs.parquet"
    write_recommendations(model, whole, n=5)
    with pytest.raises(_KilledError):
        write_recommendations(model, path, n=5, progress=_Kill(14))
    assert not path.exists()
    # Another run must not take the parts over.
    with pytest.raises(DataError, match=r"another run \(it differs in: n\)"):
        write_recommendations(model, path, n=6)
    other = EASE(l2=6.0).fit(make_split())
    with pytest.raises(DataError, match=r"it differs in: model"):
        write_recommendations(other, path, n=5)
    # A machine with more memory would choose larger batches: the plan stands.
    monkeypatch.setattr(recommendation_file, "chunk_rows", lambda *_: 1000)
    again = write_recommendations(model, path, n=5)
    assert 0 < again.resumed_users < 31
    assert path.read_bytes() == whole.read_bytes()
    assert not path.with_name("recs.parquet.parts").exists()


_SCRIPT = """
import os, signal, sys
from leporid.models import Recommender, write_recommendations
from leporid.models.shared import recommendation_file
recommendation_file._ROWS = 2000
recommendation_file.chunk_rows = lambda *_: 50
class Kill:
    seen = 0
    def start(self, *_): pass
    def close(self): pass
    def advance(self, steps):
        Kill.seen += steps
        if Kill.seen >= 600: os.kill(os.getpid(), signal.SIGKILL)
write_recommendations(Recommender.load(sys.argv[1]), sys.argv[2], n=20, progress=Kill())
"""


def test_a_killed_process_on_real_data(
    real_data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recommendation_file, "_ROWS", 2000)
    monkeypatch.setattr(recommendation_file, "chunk_rows", lambda *_: 50)
    model = EASE().fit(temporal_split(load(real_data / "lastfm.parquet")))
    model.save(tmp_path / "model")
    target = tmp_path / "recs.csv"
    command = [sys.executable, "-c", _SCRIPT, str(tmp_path / "model"), str(target)]
    assert subprocess.run(command, check=False).returncode == -signal.SIGKILL
    written = write_recommendations(model, target, n=20)
    assert written.resumed_users >= 500
    write_recommendations(model, tmp_path / "whole.csv", n=20)
    assert target.read_bytes() == (tmp_path / "whole.csv").read_bytes()
    owned = set(zip(model.known.user.tolist(), model.known.item.tolist(), strict=True))
    recs = pa.csv.read_csv(target)
    users, items = model.users.encode(recs["user"]), model.items.encode(recs["item"])
    assert not owned & set(zip(users.tolist(), items.tolist(), strict=True))
