"""Within a memory limit: the vectors of the fit in memory, in a process that may not take more."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from leporid import initializers, load
from leporid.data import stored
from leporid.embeddings import InitialEmbeddings, embed_stored
from leporid.embeddings.streaming import solver_bytes
from leporid.errors import ConfigError, DataError
from leporid.foundation import format_bytes, parse_memory

PLENTY = "100GB"


def write_log(folder: Path, users: int, items: int, rows: int, files: int = 4) -> Path:
    """Plain parquet, 24 bytes per row; users prefer items near their own position."""
    folder.mkdir(parents=True)
    for number in range(files):
        rng = np.random.default_rng(number)
        user = rng.integers(0, users, rows // files)
        near = rng.normal(user * items / users, items / 8).astype(np.int64) % items
        columns = {
            "user": user * 7 + 1,
            "item": near + 1000,
            "time": rng.integers(0, 10**9, len(user)),
        }
        pq.write_table(
            pa.table(columns),
            folder / f"part-{number}.parquet",
            compression="none",
            use_dictionary=False,
            row_group_size=100_000,
        )
    return folder


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("leporid", {"alpha": 0.3}),
        ("le", {}),
        ("leporid", {"landmarks": 60, "item_landmarks": 0.5}),
        ("le", {"landmarks": 0.3}),
    ],
)
def test_same_vectors_as_in_memory(
    tmp_path: Path, name: str, settings: Any, monkeypatch: Any
) -> None:
    monkeypatch.setattr(stored, "MOST_ROWS", 500)
    monkeypatch.setattr(stored, "FEWEST_ROWS", 1)
    source = write_log(tmp_path / "log", 150, 40, 3000)
    initializer = initializers.get(name)(dim=6, k=12, **settings)
    expected = initializer.fit(load(source).core(5))
    (tmp_path / "scratch").mkdir()
    made = embed_stored(initializer, source, PLENTY, scratch=tmp_path / "scratch", core=5)
    assert not list((tmp_path / "scratch").iterdir())
    assert (made.user_ids, made.item_ids) == (expected.user_ids, expected.item_ids)
    for one, other in ((made.users, expected.users), (made.items, expected.items)):
        np.testing.assert_array_equal(one.vectors, other.vectors)
        np.testing.assert_array_equal(one.eigenvalues, other.eigenvalues)
        assert one.provenance["residual"] == other.provenance["residual"]


CHILD = """
import json, resource, sys
from pathlib import Path
import numpy as np
from leporid import initializers
from leporid.embeddings import embed_stored
from leporid.foundation.machine import LIBRARIES

source, small, output, extra, settings = sys.argv[1:6]

def status(field):
    for line in open("/proc/self/status"):
        if line.startswith(field + ":"):
            return int(line.split()[1]) * 1024

initializer = initializers.get("leporid")(dim=8, k=50, **json.loads(settings))
embed_stored(initializer, small, "100GB", scratch=output, threads=2)  # kernels, libraries, threads
extra = int(extra)
resource.setrlimit(resource.RLIMIT_DATA, (status("VmData") + extra,) * 2)
try:
    np.ones(2 * extra, np.uint8)
    fits = True
except MemoryError:
    fits = False
before = status("RssAnon")
memory = before + LIBRARIES + extra
made = embed_stored(initializer, source, memory, scratch=output, threads=2)
made.save(Path(output) / "made.safetensors")
print(json.dumps({"fits": fits, "peak": status("VmHWM"), "before": before}))
"""


def run_limited(
    tmp_path: Path, users: int, items: int, rows: int, extra: int, **settings: Any
) -> None:
    source = write_log(tmp_path / "log", users, items, rows)
    small = write_log(tmp_path / "small", 1500, 100, 20_000)
    assert sum(file.stat().st_size for file in source.iterdir()) > extra
    (tmp_path / "out").mkdir()
    arguments = [source, small, tmp_path / "out", str(extra), json.dumps(settings)]
    done = subprocess.run(
        [sys.executable, "-c", CHILD, *arguments],
        env={**os.environ, "ARROW_DEFAULT_MEMORY_POOL": "system", "NUMBA_NUM_THREADS": "2"},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["fits"] is False
    made = InitialEmbeddings.load(tmp_path / "out" / "made.safetensors")
    expected = initializers.get("leporid")(dim=8, k=50, **settings).fit(load(source))
    for one, other in ((made.users, expected.users), (made.items, expected.items)):
        np.testing.assert_allclose(one.vectors, other.vectors, atol=1e-6)
    assert sorted(file.name for file in (tmp_path / "out").iterdir()) == ["made.safetensors"]


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="RLIMIT_DATA counts mappings on Linux only")
def test_a_log_larger_than_the_limit_of_the_process(tmp_path: Path) -> None:
    run_limited(tmp_path, users=2000, items=300, rows=4_000_000, extra=80_000_000)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="RLIMIT_DATA counts mappings on Linux only")
def test_landmarks_of_a_log_larger_than_the_limit_of_the_process(tmp_path: Path) -> None:
    sizes = {"users": 20_000, "items": 300, "rows": 4_000_000}
    run_limited(tmp_path, **sizes, extra=80_000_000, landmarks=1000)


@pytest.mark.parametrize("landmarks", [None, 50])
def test_what_does_not_fit_says_what_would(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, landmarks: int | None
) -> None:
    source = write_log(tmp_path / "log", 150, 40, 3000)
    initializer = initializers.get("leporid")(dim=64, k=12, landmarks=landmarks)
    left = solver_bytes(landmarks or 150, 64) - 1
    monkeypatch.setattr("leporid.embeddings.streaming.memory_left", lambda _: left)
    with pytest.raises(ConfigError, match="150 users do not fit into 100 GB: give --memory 105GB"):
        embed_stored(initializer, source, PLENTY, scratch=tmp_path)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["log"]


def test_settings_that_do_not_go_together(tmp_path: Path) -> None:
    source = write_log(tmp_path / "log", 150, 40, 3000)
    with pytest.raises(ConfigError, match="le and leporid, not random"):
        embed_stored(initializers.get("random")(), source, PLENTY)
    with pytest.raises(DataError, match=r"could not write into .*none: No such file"):
        embed_stored(initializers.get("le")(), source, PLENTY, scratch=tmp_path / "none")


def test_amounts_of_memory() -> None:
    amounts = {"2GB": 2 * 10**9, "1.5 MiB": 3 << 19, "100": 100, "7k": 7000, 42: 42}
    assert {text: parse_memory(text) for text in amounts} == amounts
    assert (format_bytes(1.234e9), format_bytes(5e6), format_bytes(12)) == (
        "1.23 GB",
        "5 MB",
        "12 bytes",
    )
    for wrong in ("", "-1GB", "2XB", "0"):
        with pytest.raises(ConfigError):
            parse_memory(wrong)


@pytest.mark.parametrize("stage", ["transpose", "stored_knn_graph", "side_embedding"])
def test_an_interrupt_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stage: str
) -> None:
    source = write_log(tmp_path / "log", 150, 40, 3000)
    (tmp_path / "scratch").mkdir()

    def interrupted(*_: Any, **__: Any) -> None:
        assert list((tmp_path / "scratch").glob(".leporid-*/*"))
        raise KeyboardInterrupt

    monkeypatch.setattr(f"leporid.embeddings.streaming.{stage}", interrupted)
    with pytest.raises(KeyboardInterrupt):
        embed_stored(
            initializers.get("le")(dim=4, k=12), source, PLENTY, scratch=tmp_path / "scratch"
        )
    assert not list((tmp_path / "scratch").iterdir())
