"""Changes saved artifacts in ways that disks, people and attackers do, and loads them.

`python -m tests.attack.tamper_artifacts --each 2000` prints how often a changed artifact was
refused, loaded unchanged in what it says, or did what it must never do: raise an error that is not
ours, or be accepted although it says something else. `--seed`, `--kind` and `--first` repeat a
single case.
"""

from __future__ import annotations

import argparse
import copy
import json
import shutil
import sys
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import leporid
from leporid import initializers
from leporid.embeddings import Leporid
from leporid.errors import DataError, LeporidError
from leporid.foundation import read_arrays, read_json, write_arrays, write_manifest
from leporid.interop import read_embeddings, write_embeddings
from leporid.models import Recommender, find_model
from leporid.runs import read_run, save_run
from leporid.runs.meter import peak_memory_mb
from tests.made_runs import run_of

FORMATS = ("safetensors", "parquet", "csv", "recbole")
MODELS: dict[str, dict[str, Any]] = {
    "itemknn": {"k": 5},
    "toppop": {},
    "ials": {"dim": 4, "iterations": 2},
    "slim": {},
    "ease": {},
    "gfcf": {"rank": 3},
    "turbocf": {},
    "blend": {"members": ({"model": "itemknn"}, {"model": "toppop", "weight": 0.5})},
    "bpr": {"dim": 4, "steps": 2, "batch_size": 8},
    "sasrec": {"dim": 4, "steps": 2, "batch_size": 8, "max_history": 5},
}
WRONG: list[Any] = [None, True, -1, 0, 3, 10**6, 2**70, 1e308, 0.25, "", "x", [], [1], {}, {"a": 1}]


class Kind(NamedTuple):
    """A sort of artifact: two of them by variant, and what a loaded one says."""

    artifacts: dict[str, tuple[Path, Path]]
    says: Callable[[Path], Any]


def world(folder: Path) -> dict[str, Kind]:
    """Small artifacts of every kind, in pairs that could be mixed up."""
    splits = []
    for seed in (1, 2):
        rng = np.random.default_rng(seed)
        log = {"user": rng.integers(0, 12, 150), "item": rng.integers(0, 20, 150)}
        log = {key: [f"{key}é{n:02}" for n in values] for key, values in log.items()}
        log["time"] = rng.integers(0, 99, 150).tolist()
        splits.append(leporid.temporal_split(leporid.load(log)))
    made: dict[str, dict[str, tuple[Path, Path]]] = {}

    def add(kind: str, variant: str, write: Callable[[Path, Any], Any]) -> None:
        places = [folder / kind / variant / str(n) for n in (0, 1)]
        for place, split in zip(places, splits, strict=True):
            write(place, split)
        made.setdefault(kind, {})[variant] = (places[0], places[1])

    def train(name: str, split: Any) -> Recommender:
        start = {"init": "random", "device": "cpu"} if name in ("bpr", "sasrec") else {}
        return leporid.train(name, split, progress=False, **start, **MODELS[name])

    def run(place: Path, split: Any) -> None:
        save_run(run_of(train("bpr", split), split, init="random", seed=1), place)

    for name in MODELS:
        add("models", name, lambda p, s, name=name: train(name, s).save(p))  # type: ignore[misc]
    for format in FORMATS:

        def embed(place: Path, split: Any, format: str = format) -> None:
            vectors = initializers.get("svd")(dim=3).fit(split.train)
            write_embeddings(vectors, place, format, name="d")

        add("embeddings", format, embed)
    add("splits", "temporal", lambda p, s: s.save(p))
    add("runs", "bpr", run)
    fit = Leporid(dim=3, k=4, device="cpu")
    add("estimators", "leporid", lambda p, s: fit.fit(s.train.csr()).save(p))
    says = {"models": model_says, "embeddings": embeddings_say, "splits": split_says}
    says |= {"runs": run_says, "estimators": estimator_says}
    return {kind: Kind(variants, says[kind]) for kind, variants in made.items()}


def model_says(path: Path) -> Any:
    model = Recommender.load(path)
    users = np.arange(len(model.users), dtype=np.int32)
    with np.errstate(all="ignore"):
        scores = model.score(users)
    # Refused when it is loaded, or of use.
    assert (scores < np.inf).all(), "the scores are NaN or infinite"
    ids = (model.users.ids.to_pylist(), model.items.ids.to_pylist(), model.known.digest)
    return ids, scores.tobytes(), model.top_k(users, 3).items.tobytes()


def embeddings_say(path: Path) -> Any:
    held = read_embeddings(path)
    return [
        (v.vectors.tobytes(), str(v.eigenvalues), dict(v.provenance), ids and ids.ids.to_pylist())
        for _, v, ids in held.sides()
    ]


def split_says(path: Path) -> Any:
    split = leporid.Split.load(path)
    return split.digest, split.protocol, split.train.csr().sum()


def run_says(path: Path) -> Any:
    run, model = read_run(path), find_model(path)
    if model is None:
        raise DataError("no model")
    outcomes = run.outcomes and run.outcomes.per_user("UserF1@10").tobytes()
    return run.record.to_dict(), run.record.seen, outcomes, model_says(model)


def estimator_says(path: Path) -> Any:
    model = Leporid.load(path)
    rows = np.eye(3, model.n_features_in_, dtype=np.float32)
    vectors = model.transform(rows)
    return model.get_params(), model.embedding_.tobytes(), vectors.tobytes()


def bytes_changed(path: Path, other: Path, rng: np.random.Generator) -> str:
    """A file flipped in one bit, cut, grown, gone, endless, or taken from another artifact."""
    files = sorted(p for p in path.rglob("*") if p.is_file())
    file = files[rng.integers(len(files))]
    # The only file of an artifact taken from another one is that other one.
    ways = ("flip", "cut", "grow", "gone", "endless", "other")[: 6 if len(files) > 1 else 5]
    raw, how = bytearray(file.read_bytes()), ways[rng.integers(len(ways))]
    if how == "flip":
        raw[rng.integers(len(raw))] ^= 1 << int(rng.integers(8))
    elif how == "cut":
        raw = raw[: rng.integers(len(raw))]
    elif how == "grow":
        raw += rng.bytes(int(rng.integers(1, 9)))
    elif how == "other":
        raw = bytearray((other / file.relative_to(path)).read_bytes())
    file.unlink()
    if how == "endless":
        file.symlink_to("/dev/zero")
    elif how != "gone":
        file.write_bytes(raw)
    return f"{how} {file.name}"


def json_changed(path: Path, other: Path, rng: np.random.Generator) -> str:
    """A value anywhere in a JSON file replaced by one of another kind, or taken out."""
    files = sorted(path.rglob("*.json"))
    if not files:
        return bytes_changed(path, other, rng)
    file = files[rng.integers(len(files))]
    value = holder = json.loads(file.read_text())
    while True:
        keys = list(holder) if isinstance(holder, dict) else list(range(len(holder)))
        key = keys[rng.integers(len(keys))]
        if not isinstance(holder[key], dict | list) or not holder[key] or rng.random() < 0.3:
            break
        holder = holder[key]
    what = f"{file.name}: {key}"
    if rng.random() < 0.1:
        del holder[key]
    else:
        holder[key] = copy.deepcopy(WRONG[rng.integers(len(WRONG))])
        what += f" = {holder[key]!r}"
    file.write_text(json.dumps(value))
    return what


def arrays_changed(path: Path, other: Path, rng: np.random.Generator) -> str:
    """One array of a safetensors file with an entry, its type, its order or its shape changed."""
    files = sorted(path.rglob("*.safetensors"))
    if not files:
        return bytes_changed(path, other, rng)
    file = files[rng.integers(len(files))]
    arrays, metadata = read_arrays(file)
    metadata.pop("checksum", None)
    name = sorted(arrays)[rng.integers(len(arrays))]
    array, how = arrays[name].copy(), ("entry", "type", "twice", "short", "gone")[rng.integers(5)]
    if how == "entry" and array.size:
        odd = (np.nan, np.inf, 3e38, -3e38) if array.dtype.kind == "f" else (2e9, -1, 2**40, 255)
        value = odd[rng.integers(len(odd))]
        array.flat[rng.integers(array.size)] = np.array(value).astype(array.dtype)
    elif how == "type":
        array = array.astype(np.float64 if array.dtype == np.int32 else np.int32)
    elif how == "twice" and len(array) > 1:
        array[1] = array[0]
    elif how == "short":
        array = array[:-1]
    arrays[name] = array
    if how == "gone":
        del arrays[name]
    write_arrays(file, arrays, metadata, checksum=True)
    return f"{how} {name}"


def with_new_checksum(path: Path) -> None:
    """Manifests that describe what is there now, as somebody would write who knows the format."""
    for file in sorted(path.rglob("manifest.json"), key=lambda p: -len(p.parts)):
        if not file.is_file():
            continue  # it was replaced by one that never ends
        try:
            manifest = read_json(file)
            for kind, files in manifest["kinds"].items():
                write_manifest(
                    file.parent, kind, *(n for n in files if (file.parent / n).is_file())
                )
        except (AttributeError, KeyError, TypeError, ValueError, LeporidError):
            continue  # the manifest itself was changed


def before(path: Path) -> None:
    """The artifact in the format before this one: no manifests, no checksums."""
    for file in path.rglob("manifest.json"):
        file.unlink()
    for name, key in (("model.json", 2), ("split.json", "leporid-split-1"), ("spectral.json", 1)):
        for file in path.rglob(name):
            file.write_text(json.dumps({**read_json(file), "format": key}))
    for file in path.rglob("provenance.json"):
        notes = read_json(file)
        notes.pop("format", None)
        file.write_text(json.dumps(notes))
    for file in path.glob("embeddings.safetensors"):
        arrays, metadata = read_arrays(file)
        about = {"format": "leporid.embeddings", "provenance": metadata["provenance"]}
        write_arrays(file, arrays, about)


def attack(kind: str, of: Kind, said: dict[str, Any], seed: int, folder: Path) -> tuple[str, str]:
    """One case: the verdict, and what was done."""
    rng = np.random.default_rng([seed, sum(kind.encode())])
    variant = sorted(of.artifacts)[rng.integers(len(of.artifacts))]
    original, other = of.artifacts[variant]
    path = folder / "changed"
    shutil.rmtree(path, ignore_errors=True)
    shutil.copytree(original, path)
    old, knows = rng.random() < 0.15, rng.random() < 0.3
    if old:
        before(path)
    change = (bytes_changed, json_changed, arrays_changed)[rng.integers(3)]
    if change is arrays_changed and not old:
        knows = True
    what = f"{kind}/{variant}{' (old format)' if old else ''}{' new checksum' if knows else ''}: "
    try:
        what += change(path, other, rng)
        if knows and not old:
            with_new_checksum(path)
        says = of.says(path)
    except LeporidError as error:
        return ("raw" if "\n" in str(error) else "refused"), f"{what}: {error}"
    except Exception as error:  # this is what is being looked for
        return "raw", f"{what}: {type(error).__name__}: {error}"
    if says == said[variant]:
        return "same", what
    # Who can write a manifest can write another model; it must only be a sound one.
    return ("other" if old or knows else "silent"), what


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--each", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--kind")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    results: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for kind, of in world(folder / "world").items():
            if options.kind not in (None, kind):
                continue
            said = {variant: of.says(pair[0]) for variant, pair in of.artifacts.items()}
            counts = results[kind] = {"refused": 0, "same": 0, "other": 0, "raw": [], "silent": []}
            for case in range(options.first, options.first + options.each):
                verdict, what = attack(kind, of, said, options.seed * 10**6 + case, folder)
                if isinstance(counts[verdict], list):
                    counts[verdict].append(f"case {case}: {what}")
                else:
                    counts[verdict] += 1
    results["peak MB"] = round(peak_memory_mb())  # a child's ru_maxrss starts at its parent's
    print(json.dumps(results, indent=1, ensure_ascii=False))
    return 0


if __name__ == "__main__":
    sys.exit(main())
