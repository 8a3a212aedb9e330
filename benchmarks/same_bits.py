"""Does a change of the code change a result? Fingerprints of trainings, a grid and a search.

    python -m benchmarks.same_bits --write before.json
    python -m benchmarks.same_bits --compare before.json

Run the first line before a change and the second one after it, on the same machine: the comparison
prints what differs and exits with 1. Only public names are used, so that it runs on both sides of
a change of structure. Everything is small: the whole script takes about two minutes.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any

import numpy as np

import leporid

SEED = 5
STEPS = 60
PAIRS: tuple[tuple[str, str | None, str | None], ...] = (
    ("toppop", None, None),
    ("userknn", None, None),
    ("itemknn", None, None),
    ("ease", None, None),
    ("slim", None, None),
    ("rp3beta", None, None),
    ("ials", None, None),
    ("dlr2", "leporid", "general"),
    ("dlr2", "random", "paper"),
    ("sasrec", "leporid", "general"),
    ("sasrec", "svd", "general"),
    ("hgn", "le", "general"),
    ("bpr", "leporid", "general"),
    ("lightgcn", "netmf", "general"),
    ("ncf", "node2vec", "general"),
)
"""Model, initialisation and recipe of each training."""
CHOSEN_FROM = ("toppop", "itemknn", "ease")
"""The models of the search. Its clock stands still, so its list of trials is always the same."""
GRID = """
name = "bits"
dataset = "bits"
source = "{source}"
core = 1
models = ["toppop", "itemknn", "bpr", "sasrec"]
inits = ["random", "leporid"]
seeds = [1, 2]
[settings.bpr]
steps = 40
[settings.sasrec]
steps = 40
"""


def digest(*arrays: Any) -> str:
    """A short hash of the bytes of arrays."""
    hasher = hashlib.sha256()
    for array in arrays:
        if array.dtype == object:
            hasher.update(repr(array.tolist()).encode())
        else:
            hasher.update(np.ascontiguousarray(array).tobytes())
    return hasher.hexdigest()[:16]


def trainings(split: Any) -> dict[str, Any]:
    """Lists, scores, vectors and metrics of every pair, fitted for test and for deployment."""
    found: dict[str, Any] = {}
    for model, init, recipe in PAIRS:
        settings = {} if init is None else {"steps": STEPS, "eval_every": 20}
        fitted = leporid.train(
            model,
            split,
            *([] if init is None else [init]),
            seed=SEED,
            recipe=recipe,
            progress=False,
            final=True,
            device="cpu",
            **settings,
        )
        users = fitted.users.ids.to_pylist()
        row: dict[str, Any] = {}
        for name, each in (("validated", fitted.validated), ("final", fitted)):
            items, scores = each.recommend(users, n=10)
            row[name] = {"lists": digest(items), "scores": digest(scores)}
        row["metrics"] = leporid.evaluate(fitted.validated, split, at=(5, 10)).mean()
        found[f"{model} from {init} by {recipe}"] = row
    return found


def vectors(split: Any) -> dict[str, Any]:
    """The initial embeddings of every method that reads interactions alone."""
    found = {}
    for method in ("random", "svd", "bpr", "netmf", "node2vec", "graph_bert", "le", "leporid"):
        both = leporid.initializers.get(method)(dim=16, seed=SEED).fit(split.train)
        found[method] = digest(both.users.vectors, both.items.vectors)
    return found


def grid(source: Path, folder: Path) -> dict[str, Any]:
    """The metrics of a small grid, by the name of its record."""
    spec = folder / "grid.toml"
    spec.write_text(GRID.format(source=source), encoding="utf-8")
    command = [sys.executable, "-m", "leporid", "run", str(spec), "--root", str(folder / "out")]
    subprocess.run([*command, "--device", "cpu"], check=True, capture_output=True)
    records = sorted((folder / "out").rglob("*.json"))
    return {
        path.stem: {key: values[key] for key in ("metrics", "valid_metrics", "spec_hash")}
        for path in records
        for values in [json.loads(path.read_text(encoding="utf-8"))]
    }


def search(split: Any) -> dict[str, Any]:
    """The trials and the answer of a search whose clock stands still."""
    chosen = leporid.choose(
        split, 600, models=CHOSEN_FROM, seed=SEED, device="cpu", progress=False, clock=lambda: 0.0
    )
    items, _ = chosen.model.recommend(chosen.model.users.ids.to_pylist(), n=10)
    trials = [[row["model"], row["settings"], row[chosen.metric]] for row in chosen.table]
    return {"winner": chosen.winner, "lists": digest(items), "trials": sorted(map(repr, trials))}


def fingerprints() -> dict[str, Any]:
    """All of them, as JSON values."""
    warnings.simplefilter("ignore")
    split = leporid.temporal_split(leporid.synthesize(220, 130, 7000, seed=SEED))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        source = folder / "bits.csv"
        data = leporid.synthesize(120, 80, 3500, seed=SEED)
        rows = zip(data.user.tolist(), data.item.tolist(), range(len(data)), strict=True)
        lines = "".join(f"{user},{item},{time}\n" for user, item, time in rows)
        source.write_text("user,item,time\n" + lines, encoding="utf-8")
        found = {
            "vectors": vectors(split),
            "trainings": trainings(split),
            "grid": grid(source, folder),
            "search": search(split),
        }
    return dict(json.loads(json.dumps(found)))


def differences(before: Any, after: Any, where: str = "") -> list[str]:
    """The places in which two nested values differ."""
    if isinstance(before, dict) and isinstance(after, dict):
        keys = sorted(before.keys() | after.keys())
        return [
            line
            for key in keys
            for line in differences(before.get(key), after.get(key), f"{where}/{key}")
        ]
    return [] if before == after else [f"{where}: {before} -> {after}"]


def main() -> int:
    """Write the fingerprints, or compare them with those of a file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", type=Path)
    parser.add_argument("--compare", type=Path)
    asked = parser.parse_args()
    found = fingerprints()
    if asked.write is not None:
        asked.write.write_text(json.dumps(found, indent=1, sort_keys=True), encoding="utf-8")
    if asked.compare is None:
        return 0
    changed = differences(json.loads(asked.compare.read_text(encoding="utf-8")), found)
    print("\n".join(changed) or "every fingerprint is the same")
    return int(bool(changed))


if __name__ == "__main__":
    sys.exit(main())
