"""Settings of the sequence models SASRec and HGN: one change of `general` at a time, by validation.

`python -m benchmarks.sequence_settings --data FOLDER [--logs LOG ...] [--models MODEL ...]` trains each
of `CHANGES` from LEPORID embeddings on a CPU, and writes the validation NDCG@10 of the network
alone and with a linear part to benchmarks/records/sequence_settings.json after each run. Runs that
are there are not repeated. The test part is not read. With `--table` it prints what each change
gains on each log, and which one the other logs would choose for it.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections import defaultdict
from pathlib import Path
from statistics import fmean
from typing import Any

from benchmarks.harness import write_record
from leporid import models
from leporid.artifacts import read_json
from leporid.data import Split
from leporid.errors import LeporidWarning
from leporid.evaluation import evaluate
from leporid.experiments import load_split, read_experiment
from leporid.models.shared.linear_part import fit_linear_part
from reproduction.specs import LEADERBOARD

NAME = "sequence_settings"
RECORD = Path(__file__).parent / "records" / f"{NAME}.json"
LOGS = ("lastfm", "movietweetings-100k", "ml-100k", "steam-200k")
"""Those that a run takes a minute or two on; `--logs` has the others."""
CHANGES: dict[str, list[dict[str, Any]]] = {
    "sasrec": [
        {}, {"layers": 2}, {"layers": 1}, {"dropout": 0.5}, {"dropout": 0.35}, {"lr": 1e-3},
        {"optimizer": "adamw", "weight_decay": 0.1}, {"optimizer": "adamw", "weight_decay": 0.3},
        {"heads": 2}, {"block": "post"}, {"block": "ligr"}, {"length": 50}, {"length": 20},
        {"batch_size": 256}, {"dim": 128, "hidden": 128}, {"hidden": 256}, {"init_scale": 0.3},
    ],
    "hgn": [
        {}, {"history": 10}, {"history": 3}, {"targets": 1}, {"lr": 3e-3}, {"lr": 1e-2},
        {"regularization": 1e-4}, {"regularization": 1e-2}, {"item_bias": True},
        {"pooling": "gates"}, {"batch_size": 1024}, {"dim": 128}, {"init_scale": 0.3},
        {"lr": 3e-3, "batch_size": 1024},
    ],
}  # fmt: skip


def one(split: Split, model: str, change: dict[str, Any], seed: int) -> dict[str, Any]:
    """Train once; the network alone, then the same with the linear part it would choose."""
    began = time.perf_counter()
    asked = {"recipe": "general", "seed": seed, "device": "cpu", "progress": False}
    fitted: Any = models.train(model, split, "leporid", **asked, **change)
    row = {"valid": _valid(fitted, split), "seconds": round(time.perf_counter() - began, 1)}
    row["best_step"] = fitted.training_summary()["best_step"]
    fitted.linear = fit_linear_part(
        fitted.score, fitted.config.replace(linear_gain="auto", linear_penalties=None), split
    )
    row["gain"] = fitted.linear.gain if fitted.linear else 0.0
    return row | {"valid with linear part": _valid(fitted, split)}


def _valid(fitted: Any, split: Split) -> float:
    table = evaluate(fitted, split, at=(10,), part="valid", metrics=["NDCG"])
    return round(table.mean()["NDCG@10"], 6)


def run(arguments: argparse.Namespace) -> None:
    """Every change that the record has not, log by log."""
    warnings.simplefilter("ignore", LeporidWarning)
    for spec in read_experiment(LEADERBOARD, arguments.data):
        if spec.dataset not in arguments.logs:
            continue
        split = load_split(spec.source or spec.dataset, spec.core, spec.protocol, spec.min_rating)
        for model in arguments.models:
            for change in CHANGES[model]:
                where = {"log": spec.dataset, "model": model, "change": change}
                where["seed"] = arguments.seed
                rows = _rows()
                if not any(where.items() <= row.items() for row in rows):
                    rows.append(where | one(split, model, change, arguments.seed))
                    print(rows[-1], flush=True)
                    write_record(NAME, rows, {}, ["NDCG@10 on validation; test is not read."])


def _rows() -> list[dict[str, Any]]:
    return list(read_json(RECORD)["rows"]) if RECORD.is_file() else []


def table(measure: str = "valid") -> str:
    """Gains of the changes in percent, a column per log; then each log as the others choose."""
    values: dict[str, dict[tuple[str, str], list[float]]] = defaultdict(lambda: defaultdict(list))
    for row in _rows():
        values[row["model"]][_word(row["change"]), row["log"]].append(row[measure])
    lines = []
    for model, found in values.items():
        logs = list(dict.fromkeys(log for _, log in found))
        words = list(dict.fromkeys(word for word, _ in found))
        base = {log: fmean(found["-", log]) for log in logs}
        gain = {key: 100 * (fmean(own) / base[key[1]] - 1) for key, own in found.items()}
        lines += ["", "| " + " | ".join([model, *logs]) + " |", "|---|" + "---:|" * len(logs)]
        for word in words:
            cells = [f"{gain[word, log]:+.1f}" if (word, log) in gain else "" for log in logs]
            lines.append(f"| {word} | " + " | ".join(cells) + " |")
        whole = [word for word in words if all((word, log) in gain for log in logs)]
        for log in logs:
            others = [other for other in logs if other != log]
            if others:
                best = max(whole, key=lambda w, o=others: fmean(gain[w, other] for other in o))
                lines.append(f"the others choose `{best}` for {log}: {gain[best, log]:+.1f}%")
    return "\n".join(lines)


def _word(change: dict[str, Any]) -> str:
    return ", ".join(f"{key} {value}" for key, value in change.items()) or "-"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--logs", nargs="+", default=list(LOGS))
    parser.add_argument("--models", nargs="+", default=list(CHANGES))
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--table", action="store_true")
    chosen = parser.parse_args()
    if chosen.table:
        print(table(), table("valid with linear part"), sep="\n")
    else:
        run(chosen)
