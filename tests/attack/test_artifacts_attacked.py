"""Artifacts that were changed are refused, and saves that were killed leave a whole one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import leporid
from leporid.embeddings import Embedding, InitialEmbeddings
from leporid.errors import DataError
from leporid.foundation import (
    atomic,
    read_arrays,
    read_json,
    write_arrays,
    write_json,
    write_manifest,
)
from leporid.interop import read_embeddings, write_embeddings
from leporid.models import Recommender
from leporid.runs import read_run, save_run
from tests.attack.kill_saves import killed_at_every_step, leftovers
from tests.made_runs import run_of

linux = pytest.mark.skipif(sys.platform != "linux", reason="kills forked processes")


@pytest.mark.parametrize("each", [100, pytest.param(2000, marks=pytest.mark.slow)])
def test_no_changed_artifact_ends_the_process_or_is_taken_for_the_real_one(each: int) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.attack.tamper_artifacts", "--each", str(each)],
        capture_output=True,
        text=True,
        timeout=1800,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    results = json.loads(done.stdout)
    assert results.pop("peak MB") < 2000
    for kind, counts in results.items():
        assert counts["raw"] == counts["silent"] == [], kind
        assert counts["refused"] > each / 2, kind


@pytest.fixture(scope="module")
def splits() -> tuple[leporid.Split, leporid.Split]:
    logs = []
    for seed in (1, 2):
        rng = np.random.default_rng(seed)
        log = {"user": rng.integers(0, 12, 150).tolist(), "item": rng.integers(0, 20, 150).tolist()}
        logs.append(leporid.temporal_split(leporid.load({**log, "time": list(range(150))})))
    return logs[0], logs[1]


def vectors(value: float, n: int = 4) -> InitialEmbeddings:
    side = Embedding(np.full((n, 2), value, np.float32))
    return InitialEmbeddings(side, side)


def switches(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "two renames":
        monkeypatch.setattr(atomic, "_exchange", lambda one, other: False)


switching = pytest.fixture(params=["exchange", "two renames"])(switches)


@linux
@pytest.mark.usefixtures("switching")
def test_a_killed_save_leaves_the_old_model_or_the_new_one(
    splits: tuple[leporid.Split, leporid.Split], tmp_path: Path
) -> None:
    old, new = (leporid.train("toppop", split, progress=False) for split in splits)
    place = tmp_path / "model"
    old.save(place)
    seen: list[bool] = []

    def look() -> None:
        loaded = Recommender.load(place)
        same = [np.array_equal(loaded.popularity, m.popularity) for m in (old, new)]  # type: ignore[attr-defined]
        assert any(same)
        seen.append(same[1])
        if same[1]:
            old.save(place)
            assert leftovers(tmp_path) == []

    steps = killed_at_every_step(lambda: new.save(place), look)
    assert steps > 8
    assert seen[0] is False
    assert seen[-1] is True


@linux
@pytest.mark.usefixtures("switching")
@pytest.mark.parametrize("format", ["parquet", "safetensors"])
def test_killed_vectors_are_never_half_old(format: str, tmp_path: Path) -> None:
    place = tmp_path / "vectors"
    write_embeddings(vectors(1.0), place, format)

    def look() -> None:
        held = read_embeddings(place)
        assert held.users.vectors[0, 0] == held.items.vectors[0, 0]
        if held.users.vectors[0, 0] == 2.0:
            write_embeddings(vectors(1.0), place, format)
            assert leftovers(tmp_path) == []

    assert killed_at_every_step(lambda: write_embeddings(vectors(2.0), place, format), look) > 5


@linux
def test_a_killed_run_has_the_record_of_its_model(
    splits: tuple[leporid.Split, leporid.Split], tmp_path: Path
) -> None:
    place = tmp_path / "run"
    runs = [
        run_of(leporid.train("toppop", split, progress=False), split, seed=number)
        for number, split in enumerate(splits)
    ]
    save_run(runs[0], place)
    (place / "checkpoint").mkdir()
    (place / "checkpoint" / "mine").write_text("kept")

    def look() -> None:
        seed = read_run(place).record.seed
        held: Any = Recommender.load(place / "model")
        assert np.array_equal(held.popularity, runs[seed].model.popularity)
        assert (place / "checkpoint" / "mine").read_text() == "kept"
        if seed:
            save_run(runs[0], place)

    assert killed_at_every_step(lambda: save_run(runs[1], place), look) > 15
    runs[1].final, runs[1].final_cost = runs[1].model.refit(splits[1]), runs[1].cost
    save_run(runs[1], place)
    assert (place / "validated" / "model.json").is_file()
    assert read_run(place).record.extra["final"]["interactions"] > 0
    save_run(runs[0], place)
    assert not (place / "validated").exists()


def test_a_model_of_another_run_beside_a_record_is_refused(
    splits: tuple[leporid.Split, leporid.Split], tmp_path: Path
) -> None:
    for number, split in enumerate(splits):
        model = leporid.train("toppop", split, progress=False)
        save_run(run_of(model, split, seed=1), tmp_path / str(number))
    (tmp_path / "0" / "model").rename(tmp_path / "away")
    (tmp_path / "1" / "model").rename(tmp_path / "0" / "model")
    with pytest.raises(DataError, match="from another run"):
        read_run(tmp_path / "0")


def edited(path: Path, **arrays: Any) -> None:
    """Arrays changed by somebody who writes a fitting manifest as well."""
    held, _ = read_arrays(path / "weights.safetensors")
    write_arrays(path / "weights.safetensors", {**held, **arrays})
    write_manifest(path, "model", "model.json", "weights.safetensors")


@pytest.mark.parametrize("mapped", [False, True])
@pytest.mark.parametrize(
    ("part", "value", "says"),
    [
        ("indices", 2_000_000_000, "column indices outside"),
        ("indices", -1, "column indices outside"),
        ("indptr", 2**40, "not a sparse matrix"),
        ("data", np.nan, "NaN or infinite"),
    ],
)
def test_indices_that_lead_outside_are_refused_whatever_the_manifest_says(
    splits: tuple[leporid.Split, Any],
    tmp_path: Path,
    part: str,
    value: Any,
    says: str,
    mapped: bool,
) -> None:
    path = leporid.train("itemknn", splits[0], progress=False).save(tmp_path / "m")
    array = read_arrays(path / "weights.safetensors")[0][f"model.weights.{part}"]
    array[3] = value
    edited(path, **{f"model.weights.{part}": array})
    with pytest.raises(DataError, match=says):
        Recommender.load(path, mapped=mapped)


@pytest.mark.parametrize("mapped", [False, True])
def test_weights_that_make_no_scores_are_refused_whatever_the_manifest_says(
    splits: tuple[leporid.Split, Any], tmp_path: Path, mapped: bool
) -> None:
    settings = {"dim": 4, "steps": 1, "batch_size": 8, "device": "cpu", "max_history": 5}
    model = leporid.train("sasrec", splits[0], init="random", progress=False, **settings)
    path = model.save(tmp_path / "m")
    held, _ = read_arrays(path / "weights.safetensors")
    block = "model.blocks.0.network_norm.weight"
    for change, says in (
        ({block: np.full_like(held[block], 3e38)}, "beyond 1e\\+15, whose products overflow"),
        ({block: np.full_like(held[block], np.inf)}, "NaN or infinite entries"),
        ({block: np.full_like(held[block], np.nan)}, "NaN or infinite entries"),
        (
            {name: 1e15 * np.sign(array) for name, array in held.items() if "model." in name},
            "its scores are NaN or infinite",
        ),
    ):
        edited(path, **{**held, **change})
        with pytest.raises(DataError, match=says):
            Recommender.load(path, mapped=mapped)
    edited(path, **held)
    Recommender.load(path, mapped=mapped)


@linux
@pytest.mark.parametrize("name", ["model.json", "manifest.json", "weights.safetensors"])
@pytest.mark.parametrize("kind", ["pipe", "/dev/zero"])
def test_a_file_that_never_ends_is_refused(
    splits: tuple[leporid.Split, Any], tmp_path: Path, name: str, kind: str
) -> None:
    path = leporid.train("toppop", splits[0], progress=False).save(tmp_path / "m")
    (path / name).unlink()
    if kind == "pipe":
        os.mkfifo(path / name)
    else:
        (path / name).symlink_to(kind)
    with pytest.raises(DataError, match=r"pipe or a device|has lost its manifest|holds no"):
        Recommender.load(path)


def test_ids_and_number_formats_are_checked_whatever_the_manifest_says(
    splits: tuple[leporid.Split, Any], tmp_path: Path
) -> None:
    path = leporid.train("ease", splits[0], progress=False).save(tmp_path / "m")
    held, _ = read_arrays(path / "weights.safetensors")
    ids = held["items.ids"]
    twice = np.concatenate([ids[:1], ids[:-1]])
    for name, array, says in (
        ("items.ids", twice, "not distinct and in order"),
        ("items.ids", ids[::-1], "not distinct and in order"),
        ("items.ids", ids[:-1], "name items that do not exist"),
        ("items.ids", ids.astype(np.float64), "not integers or text"),
        ("model.weights", held["model.weights"].astype(np.int32), "needs float32"),
        ("model.weights", held["model.weights"][:-1], "needs float32 of"),
        ("known.item", held["known.item"] + 9, "name items that do not exist"),
        ("known.user", held["known.user"][::-1], "not in order"),
    ):
        edited(path, **{**held, name: array})
        with pytest.raises(DataError, match=says):
            Recommender.load(path)
    edited(path, **held)
    Recommender.load(path)


def test_a_huge_setting_is_refused_before_memory_is_taken(
    splits: tuple[leporid.Split, Any], tmp_path: Path
) -> None:
    settings = {"dim": 4, "steps": 1, "batch_size": 8, "device": "cpu"}
    for name in ("bpr", "lightgcn"):
        model = leporid.train(name, splits[0], init="random", progress=False, **settings)
        path = model.save(tmp_path / name)
        meta = read_json(path / "model.json")
        meta["config"]["dim"] = 10**12
        write_json(path / "model.json", meta)
        with pytest.raises(DataError, match="not the file that was saved"):
            Recommender.load(path)
        edited(path)
        with pytest.raises(DataError, match="is float32 of"):
            Recommender.load(path)


def test_a_model_without_its_manifest_or_of_another_format_is_refused(
    splits: tuple[leporid.Split, Any], tmp_path: Path
) -> None:
    path = leporid.train("itemknn", splits[0], progress=False).save(tmp_path / "m")
    (path / "manifest.json").unlink()
    with pytest.raises(DataError, match=r"has lost its manifest\.json"):
        Recommender.load(path)
    for number in (2, 99):
        write_json(path / "model.json", {**read_json(path / "model.json"), "format": number})
        with pytest.raises(DataError, match=f"format {number}, this version reads format 4"):
            Recommender.load(path)


def test_leftovers_of_the_living_stay(tmp_path: Path) -> None:
    mine = tmp_path / "out"
    with atomic.atomic_folder(mine) as one, atomic.atomic_folder(mine) as two:
        (one / "a").write_text("1")
        (two / "b").write_text("2")
    assert sorted(p.name for p in mine.iterdir()) == ["a", "b"]
    dead = tmp_path / f".out.{2**22 + 1}.00c0ffee"
    dead.mkdir()
    other = tmp_path / f".outer.{2**22 + 1}.00c0ffee"
    other.mkdir()
    with atomic.atomic_folder(mine) as again:
        (again / "a").write_text("3")
    assert leftovers(tmp_path) == [other.name]


def test_a_folder_that_must_stay_is_filled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = tmp_path / "here"
    place.mkdir()
    (place / "mine").write_text("kept")
    before = os.stat(place).st_ino
    monkeypatch.chdir(place)
    write_embeddings(vectors(1.0), Path(), "parquet")
    write_embeddings(vectors(2.0), Path(), "parquet")
    assert read_embeddings(place).users.vectors[0, 0] == 2.0
    assert os.stat(place).st_ino == before
    assert (place / "mine").read_text() == "kept"
    assert leftovers(place) == leftovers(tmp_path) == []


FULL = """
import resource, signal, sys
import numpy as np
import leporid
from leporid.errors import LeporidError
from leporid.foundation import write_arrays

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
rng = np.random.default_rng(0)
log = {"user": rng.integers(0, 99, 900).tolist(), "item": rng.integers(0, 99, 900).tolist()}
train = leporid.load(log)
svd = leporid.initializers.get("svd")(dim=16)
svd.fit(train)
resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
try:
    write_arrays(sys.argv[1] + "/a.safetensors", {"x": np.zeros(9000)})
except LeporidError as error:
    print("said:", error)
vectors = leporid.initializers.cached_fit(svd, train, cache_dir=sys.argv[1])
print(vectors.users.vectors.shape)
"""


@linux
def test_a_full_disk_is_said_and_a_full_cache_only_warned_of(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", FULL, str(tmp_path)], capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.startswith("said: could not write")
    assert "(99, 16)" in done.stdout
    assert "vectors were not cached" in done.stderr
    assert leftovers(tmp_path) == []


def test_a_folder_nobody_may_write_is_said(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    for target in (blocked / "a" / "b", tmp_path / ("x" * 300)):
        with pytest.raises(DataError, match="could not write"):
            write_json(target, 1)
        with pytest.raises(DataError, match="could not write"):
            write_embeddings(vectors(1.0), target, "parquet")
