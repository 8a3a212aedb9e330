"""Short trainings on two cores: what a time limit leaves of a network, and what newer data adds.

python -m benchmarks.short_training limit --data FOLDER --out FILE MODEL LOG INIT SECONDS [K=V]
python -m benchmarks.short_training newer --data FOLDER --out FILE MODEL LOG STEPS BATCH

`limit` trains for so many seconds from one initialisation and keeps the NDCG@10 on validation over
the steps. `newer` trains on an inner split of an inner split, then in several ways on with what was
held back, and evaluates each on the part after it: `choose` plans its end by that. Neither reads a
test part. Rows are appended to FILE.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from pathlib import Path
from typing import Any

import leporid
from benchmarks.choose_logs import LOGS
from leporid import initializers, models
from leporid.data import Split, inner_validation_split
from leporid.foundation import versions
from leporid.models import FitContext, StopWhen, trained_on
from leporid.selection.task import with_validation


def limit(given: argparse.Namespace) -> list[dict[str, Any]]:
    """One training that ends after some seconds."""
    model, log, init, seconds, *changes = given.what
    split, cls = _split(given.data, log), models.get(model)
    settings = cls.recipe_settings("general", split.train) | {"eval_users": 1000}
    settings |= {"linear_weight": 0.0, "transitions_weight": 0.0} if model == "dlr2" else {}
    for name, _, value in (change.partition("=") for change in changes):
        settings[name] = int(value) if value.isdigit() else value
    vectors = initializers.get(init)(dim=64).fit(split.train)
    begun: list[float] = []

    def stop(step: int) -> bool:
        begun.append(time.perf_counter())
        return begun[-1] - begun[0] > float(seconds)

    network: Any = cls(**settings)
    how: dict[str, Any] = {"device": given.device, "callbacks": [StopWhen(stop)]}
    network.fit(split, seed=1, init=vectors, progress=False, **how)
    rows = network.history.rows
    return [{
        "job": " ".join(given.what), "steps": rows[-1]["step"],
        "best_step": network.history.best_step, "valid": _ndcg(network, split, "valid"),
        "curve": [[row["step"], round(row["metric"], 5)] for row in rows if "metric" in row],
    }]  # fmt: skip


def newer(given: argparse.Namespace) -> list[dict[str, Any]]:
    """One short training, and what it is worth after training on with newer data."""
    model, log, steps, batch = given.what
    outer = inner_validation_split(_split(given.data, log))
    trial, cls = inner_validation_split(outer), models.get(model)
    known = with_validation(outer)
    settings = cls.recipe_settings("general", trial.train) | {"eval_users": 1000, "patience": 0}
    settings |= {"steps": int(steps), "batch_size": int(batch), "eval_every": 125}
    how: dict[str, Any] = {"device": given.device, "progress": False}
    vectors = initializers.get("leporid")(dim=64).fit(trial.train)
    first: Any = cls(**settings).fit(trial, seed=0, init=vectors, **how)
    tried = {"as it is": first}
    tried |= {
        f"on for {s:.2f} of its steps": trained_on(first, known, s, FitContext(device=given.device))
        for s in (1 / 3, 2 / 3, 1.0)
    }
    tried["again from the start"] = first.refit(known.train, **how)
    settings = cls.recipe_settings("general", outer.train)
    vectors = initializers.get("leporid")(dim=64).fit(outer.train)
    older: Any = cls(**settings).fit(outer, seed=0, init=vectors, **how)
    tried["full training, without the newer data"] = older
    return [
        {"job": " ".join(given.what), "trained": name, "NDCG@10": _ndcg(network, known, "test")}
        for name, network in tried.items()
    ]


def _split(data: Path, log: str) -> Split:
    interactions = leporid.load(data / f"{log}.parquet")
    return leporid.temporal_split(interactions.core(LOGS[log]) if LOGS[log] else interactions)


def _ndcg(network: Any, split: Split, part: str) -> float:
    return round(leporid.evaluate(network, split, at=(10,), part=part).mean()["NDCG@10"], 5)


def main() -> None:
    """Run one job and append its rows."""
    warnings.simplefilter("ignore")
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kind", choices=("limit", "newer"))
    parser.add_argument("what", nargs="+")
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--device", default="cpu")
    given = parser.parse_args()
    for row in {"limit": limit, "newer": newer}[given.kind](given):
        line = json.dumps(
            {"kind": given.kind, **row, "device": given.device, "versions": versions()}
        )
        print(line, flush=True)
        with given.out.open("a", encoding="utf-8") as file:
            file.write(line + "\n")


if __name__ == "__main__":
    main()
