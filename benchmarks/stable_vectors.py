"""How much lists and vectors change when a model is fitted again on 5% more data.

    python -m benchmarks.stable_vectors FOLDER valid|test

FOLDER holds lastfm.parquet and movietweetings-100k.parquet. The old model is fitted on the first
90% of a log, the new ones on the first 95%; the last 5% are the test. For validation all of it is
5% earlier: there the share of the steps and the threshold were chosen. Refits from scratch and from
the old model are compared with the old model, and two seeds on the same data with each other.
`changed`: 1 - overlap@10 of the lists of users both know. `written`: rows of users and items that
`export --refresh` writes at a threshold `moved`; `recall`: share of the model's own lists that are
found among the rows that it leaves in the store.
"""

from __future__ import annotations

import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import leporid
from benchmarks.harness import write_record
from leporid.data import Interactions, Split
from leporid.interop import export_model
from leporid.models import FitContext, Recommender, everything
from leporid.models.fitting import REFIT_SHARE

LOGS = {"lastfm": 5, "movietweetings-100k": 10}
"""And the k of their core."""
PAIRS = [("lastfm", "bpr"), ("movietweetings-100k", "bpr"), ("lastfm", "sasrec")]
MODELS: dict[str, dict[str, Any]] = {
    "bpr": {"steps": 1500},
    "sasrec": {"steps": 300, "batch_size": 64, "max_history": 20},
}
COMMON = {"dim": 32, "init": "svd", "recipe": None, "eval_every": 0}
QUIET: dict[str, Any] = {"device": "cpu", "progress": False}
ENDS = {"valid": (0.85, 0.90, 0.95), "test": (0.90, 0.95, 1.0)}
"""Where the data of the old model, of the new ones and of the evaluation end."""
SHARES = {"valid": (0.25, 0.5, 0.75, 1.0), "test": (REFIT_SHARE,)}
MOVED = {"valid": (0.02, 0.05, 0.1, 0.15, 0.2, 0.3), "test": (0.05, 0.1, 0.2)}


def parts(data: Interactions, by_user: bool, part: str) -> tuple[Interactions, Split]:
    """The old data with ids of its own; the new data and what is evaluated."""
    assert data.time is not None
    if by_user:
        indptr = data.sequences().indptr
        rank = (np.arange(len(data)) - indptr[data.user]) / np.diff(indptr)[data.user]
    else:
        rank = np.argsort(np.argsort(data.time, kind="stable")) / len(data)

    def own(rows: Any) -> Interactions:
        part = data.select(rows)
        ids = data.users.externals(part.user).tolist(), data.items.externals(part.item).tolist()
        columns = dict(zip(("user_id", "item_id", "timestamp"), (*ids, part.time), strict=True))
        return leporid.load(pa.table(columns))

    first, second, last = ENDS[part]
    old, new = own(rank < first), own(rank < second)
    rest = data.select((rank >= second) & (rank < last))
    user, item = (
        ids.encode(theirs.ids)[column]
        for ids, theirs, column in (
            (new.users, data.users, rest.user),
            (new.items, data.items, rest.item),
        )
    )
    known = (user >= 0) & (item >= 0)
    test = Interactions.from_arrays(
        user[known], item[known], rest.time[known], new.users, new.items
    )
    return old, Split(new, new.select(np.zeros(len(new), bool)), test, f"first {second:.0%}")


def changed(a: Recommender, b: Recommender) -> float:
    """1 - overlap@10, mean over the users of both."""
    users = sorted(set(a.users.ids.to_pylist()) & set(b.users.ids.to_pylist()))
    pairs = zip(a.recommend(users)[0], b.recommend(users)[0], strict=True)
    return 1 - float(np.mean([len(set(x) & set(y)) / 10 for x, y in pairs]))


def refreshed(model: Recommender, old: Path, folder: Path, moved: float) -> dict[str, float]:
    """Shares of rows written, and the recall of what the store then holds."""
    parity = export_model(model, folder / "new", "parquet", refresh=old, moved=moved)
    written = leporid.foundation.read_json(folder / "new" / "export.json")["written"]
    sizes = {"users": len(model.users), "items": len(model.items)}
    shares = {f"{side} written": written[side] / sizes[side] for side in sizes}
    return {"moved": moved, **shares, "recall": parity.recall if parity else float("nan")}


def study(log: str, name: str, data: Interactions, part: str, folder: Path) -> list[dict[str, Any]]:
    old, split = parts(data, log == "lastfm", part)
    settings = {**COMMON, **MODELS[name], **QUIET}
    first = leporid.train(name, everything(old), seed=1, **settings)
    export_model(first, folder / "old", "parquet", check=0)
    rows: list[dict[str, Any]] = []

    def row(what: str, model: Recommender, other: Recommender, *stored: dict[str, float]) -> None:
        ndcg = leporid.evaluate(model, split, at=(10,)).mean()["NDCG@10"]
        about = {"log": log, "model": name, "what": what, "changed": changed(model, other)}
        rows.extend({**about, "NDCG@10": ndcg, **more} for more in stored or ({},))
        print(*rows[-max(len(stored), 1) :], sep="\n", flush=True)

    seeds = [leporid.train(name, everything(split.train), seed=s, **settings) for s in (1, 2)]
    row("two seeds", seeds[1], seeds[0])
    row("from scratch", seeds[0], first)
    for share in SHARES[part]:
        step = first.fitting.first_step(share)
        model = first.refit(split.train, init=first, context=FitContext(first_step=step))
        stored = [refreshed(model, folder / "old", folder, moved) for moved in MOVED[part]]
        row(f"from the old model, {share:.0%} of the steps", model, first, *stored)
    return rows


def main(source: Path, part: str) -> None:
    rows = []
    warnings.simplefilter("ignore")
    settings = {"logs": LOGS, "models": MODELS, **COMMON}
    notes = [(__doc__ or "").split("\n\n")[2].strip().replace("\n", " ")]
    settings |= {"part": part, "ends": ENDS[part]}
    for log, name in PAIRS:
        data = leporid.load(source / f"{log}.parquet").core(LOGS[log])
        with tempfile.TemporaryDirectory() as folder:
            rows += study(log, name, data, part, Path(folder))
    name = "stable_vectors" + "_validation" * (part == "valid")
    write_record(name, rows, settings, notes)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
