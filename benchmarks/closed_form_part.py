"""Networks alone, with SLIM, with transitions and with both beside them: NDCG@10 and HR@10 on test.

`python -m benchmarks.closed_form_part --data FOLDER [--logs "a;b"] [--models dlr2 sasrec hgn]
[--seeds 1 2 3] [--device cpu]` trains each network once without a closed-form part, then fits each
variant of the part, whose weights are chosen on validation, and tests it. `--models` may name
closed-form models too: they are tested with default settings. Every row goes into
benchmarks/records/closed_form_part.json when it is done, in place of an older one of the same log,
model and seed, so that logs can be measured one by one. `--networks FOLDER` takes networks that
were saved there as LOG-MODEL-SEED instead of training them.
"""

from __future__ import annotations

import argparse
import warnings
from pathlib import Path
from typing import Any

import leporid
from benchmarks.harness import RECORDS, timed, write_record
from leporid.data import Split, split_by
from leporid.foundation import read_json
from leporid.models import Recommender
from leporid.models.neural.base import NeuralRecommender
from leporid.models.neural.closed_form_part import fit_closed_form_part

NAME = "closed_form_part"
LOGS = {
    "lastfm": ("lastfm", 1, "temporal"),
    "ml-100k": ("ml-100k", 1, "temporal"),
    "movietweetings-100k": ("movietweetings-100k", 10, "temporal"),
    "beauty": ("beauty", 1, "temporal"),
    "toys": ("toys", 1, "temporal"),
    "steam-200k": ("steam-200k", 5, "random"),
    "tafeng": ("tafeng", 1, "temporal"),
    "anime-5k": ("anime-5k", 20, "random"),
    "ml-1m-r3": ("ml-1m-r3", 20, "temporal"),
    "ml-1m": ("ml-1m", 20, "temporal"),
    "beauty-loo": ("beauty", 1, "leave-last-out"),
    "toys-loo": ("toys", 1, "leave-last-out"),
    "ml-1m-loo": ("ml-1m", 5, "leave-last-out"),
}
"""File, k-core and split of each log."""
NETWORKS = ("dlr2", "sasrec", "hgn")
CLOSED_FORM = (
    "toppop", "recent", "itemknn", "userknn", "slim", "ease", "p3alpha", "rp3beta", "gfcf",
    "turbocf", "ials", "transitions",
)  # fmt: skip
VARIANTS: dict[str, dict[str, float | str]] = {
    "alone": {"linear_weight": 0.0, "transitions_weight": 0.0},
    "+ SLIM": {"linear_weight": "auto", "transitions_weight": 0.0},
    "+ transitions": {"linear_weight": 0.0, "transitions_weight": "auto"},
    "+ both": {"linear_weight": "auto", "transitions_weight": "auto"},
}
WITHOUT = VARIANTS["alone"] | {"linear_penalties": None}
Row = dict[str, Any]


def metrics_on_test(model: Recommender, split: Split, suffix: str = "") -> Row:
    """NDCG@10 and HR@10 of a model on test, under names that end in `suffix`."""
    means = leporid.evaluate(model, split, at=(10,), metrics=("NDCG", "HR")).mean()
    return {f"{metric}{suffix}": round(means[metric], 5) for metric in ("NDCG@10", "HR@10")}


def network_row(network: NeuralRecommender, split: Split) -> Row:
    """The metrics of a network trained without a closed-form part, by what is beside it."""
    found: Row = {}
    for variant, weights in VARIANTS.items():
        network.closed_form = None
        config = network.config.replace(**(WITHOUT | weights))
        seconds, part = timed(
            lambda asked=config: fit_closed_form_part(network.score, asked, split)
        )
        network.closed_form = part
        found |= metrics_on_test(network, split, f", {variant}")
        if variant != "alone":
            found[f"seconds, {variant}"] = round(seconds, 2)
            for name in ("slim", "transitions"):
                found[f"weight of {name}, {variant}"] = part.weight(name) if part else 0.0
    return found


def measured(log: str, model: str, seed: int, options: argparse.Namespace, split: Split) -> Row:
    """The row of one model on one log."""
    row: Row = {"log": log, "model": model}
    if model not in NETWORKS:
        seconds, fitted = timed(lambda: leporid.train(model, split, progress=False))
        return row | metrics_on_test(fitted, split) | {"seconds": round(seconds, 2)}
    row["seed"] = seed
    how = {"init": "leporid", "recipe": "general", "seed": seed, "device": options.device}
    if options.networks:
        network: Any = Recommender.load(options.networks / f"{log}-{model}-{seed}")
        network.to(options.device)
    else:
        seconds, network = timed(
            lambda: leporid.train(model, split, progress=False, **how, **VARIANTS["alone"])
        )
        row["seconds of the training"] = round(seconds, 1)
    return row | network_row(network, split) | {"device": str(network.device)}


def merge(row: Row) -> None:
    """Put a row into the record, in place of an older one."""
    path = RECORDS / f"{NAME}.json"
    rows = read_json(path)["rows"] if path.is_file() else []
    key = tuple(map(row.get, ("log", "model", "seed")))
    others = [each for each in rows if tuple(map(each.get, ("log", "model", "seed"))) != key]
    models = [*NETWORKS, *CLOSED_FORM]
    merged = sorted(
        [*others, row],
        key=lambda each: (
            list(LOGS).index(each["log"]), models.index(each["model"]), each.get("seed", 0)
        ),
    )  # fmt: skip
    settings = {"init": "leporid", "recipe": "general", "closed-form models": "default settings"}
    notes = [
        "Weights are chosen on validation; every variant of the part is fitted on its own, and its "
        "seconds are those of its fits and of the choice.",
        "Rows without seconds of the training are of networks that were trained before.",
    ]
    write_record(NAME, merged, settings, notes)


def compile_kernels() -> None:
    """Fit every closed-form model on a few rows, so that no time contains a compilation."""
    split = leporid.temporal_split(leporid.synthesize(60, 40, 900, seed=0))
    for model in CLOSED_FORM:
        leporid.evaluate(leporid.train(model, split, progress=False), split, at=(10,))


def main() -> None:
    """Measure log by log and model by model."""
    warnings.simplefilter("ignore")
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--logs", default=";".join(LOGS))
    parser.add_argument("--models", nargs="+", default=[*CLOSED_FORM, *NETWORKS])
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--device", default="auto")
    parser.add_argument("--networks", type=Path, help="Folder of networks that are trained.")
    options = parser.parse_args()
    compile_kernels()
    for log in options.logs.split(";"):
        file, core, protocol = LOGS[log]
        source = next(options.data.glob(f"{file}.*"), file)
        split = split_by(leporid.load(source).core(core), protocol)
        for model in options.models:
            for seed in options.seeds if model in NETWORKS else [0]:
                row = measured(log, model, seed, options, split)
                print(row, flush=True)
                merge(row)


if __name__ == "__main__":
    main()
