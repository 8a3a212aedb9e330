"""`python -m reproduction NAME`: a table, figure or page of the paper by one command."""

from __future__ import annotations

import argparse
import os
import sys
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from leporid.data import load
from leporid.errors import ConfigError, LeporidError, UnknownNameError
from leporid.foundation import read_json
from leporid.runs import ExperimentSpec, load_split, read_experiment, run_grid
from reproduction.activity import add_quartiles
from reproduction.confirmed_baselines import METRIC, TRIALS, confirm_classical
from reproduction.general_rules import add_runs, rules_table
from reproduction.leaderboard import leaderboard_page
from reproduction.outputs import write_outputs
from reproduction.sequence_tables import changes_table, gain_rules_table
from reproduction.specs import LEADERBOARD, paper_specs, protocol_of
from reproduction.store import PackedResults
from reproduction.tuned_baselines import tune_classical
from reproduction.verdict import verdict_page

OUTPUTS = {
    "table2": "data sets",
    "table3": "initialisers",
    "table4": "algorithms",
    "table5": "tail users",
    "table6": "losses",
    "table7": "architectures",
    "figure1": "dimensions of Laplacian Eigenmaps (a simulation)",
    "figure2": "change of an embedding against degree (a simulation)",
    "figure4a": "architectures as bars",
    "alpha": "Figure 4b, sensitivity to alpha",
    "neighbours": "Figure 4c, sensitivity to K",
    "timecost": "time of our eigensolver and of scipy's",
    "authors": "DLR2 as the authors' program has it",
}
"""Tables by the paper's own numbers (its Table 1 is the notation), and figures."""
PAGES = {
    "all": "all of these: runs what is missing, then writes the report",
    "report": "all of these from the records there are; runs nothing",
    "verdict": "the paper's claims evaluated on the records, as Markdown",
    "leaderboard": "every model on every log of the leaderboard, as Markdown",
    "general-rules": "the rules of the recipe `general`, each log left out once, as Markdown",
    "sequence-settings": "what one change does to SASRec and HGN on validation, as Markdown",
}
WORK = {
    "run": "the grids of a file --source, with logs in the folder --data; records to --results",
    "tune-classical": "every classical model tuned on --source and tested once, two records each",
    "confirm-classical": "the best recorded trials on all validation users of the logs --data",
    "activity": "the quartiles of activity of a --dataset's users, for tests of tail users",
    "pack": "the records of --results into one file per data set, outcomes into one per experiment",
}


def main() -> None:  # noqa: C901, PLR0912 (one branch for each command)
    """Print a page, or run what tables and figures need and write them."""
    given = _arguments()
    known = {**OUTPUTS, **PAGES, **WORK}
    if given.name is None:
        for name, what in known.items():
            made = tuple(OUTPUTS) if name == "all" else (name,)
            cost = _cost(paper_specs(made, given.dataset), given.results)
            print(f"{name:15} {what}{cost and f' ({cost})'}")
    elif given.name == "pack":
        print(f"{given.results}: {PackedResults(given.results).pack()} records packed")
    elif given.name == "activity":
        add_quartiles(given.results, given.dataset, load_split(**_split(given)))
    elif given.name == "run":
        how = {"device": given.device, "retry_failed": given.retry_failed, "progress": True}
        cells = run_grid(_grids(given), PackedResults(given.results), **how).values()
        open_cells = sum(isinstance(cell, str) for cell in cells)
        print(f"{len(cells) - open_cells} of {len(cells)} cells done")
        sys.exit(open_cells > 0)
    elif given.name == "tune-classical":
        _tune_classical(given)
    elif given.name == "confirm-classical":
        _confirm_classical(given)
    elif given.name == "verdict":
        print(verdict_page(given.results))
    elif given.name == "leaderboard":
        print(leaderboard_page(LEADERBOARD, given.results))
    elif given.name == "general-rules":
        if given.data:
            add_runs(given.results, given.data, given.only or (), given.seeds[0])
        print(rules_table(given.results))
    elif given.name == "sequence-settings":
        print(changes_table(given.results), gain_rules_table(given.results), sep="\n\n")
    elif given.name in known:
        _write(given)
    else:
        raise UnknownNameError("table, figure or page", given.name, known)


def _cost(specs: Sequence[ExperimentSpec], results: Path) -> str:
    """How many runs these are, and how long such runs took for the records of MovieLens-1M."""
    minutes, machines = 0.0, set[str]()
    for spec in specs:
        taken = defaultdict(list)
        for run in PackedResults(results).records("ml-1m-r3", [spec.name]):
            taken[run.model, run.init, run.variant].append(run.seconds)
            machines.add(run.device)
        alike = (taken[cell.model, cell.init, cell.variant] for cell in spec.cells())
        minutes += sum(sum(seconds) / len(seconds) for seconds in alike if seconds) / 60
    count = sum(len(spec.cells()) for spec in specs)
    runs = f"{count} runs" if count else ""
    where = " or ".join(sorted(machines, key=str.lower, reverse=True))
    return f"{runs}, {minutes:.0f} minutes on {where}" if minutes else runs


def _grids(given: argparse.Namespace) -> list[ExperimentSpec]:
    if given.source is None:
        raise ConfigError("name the file of the grids: --source reproduction/grids/FILE.toml")
    return read_experiment(given.source, given.data)


def _source(given: argparse.Namespace) -> str:
    """The file --source, that of the data set in the folder --data, or the name alone."""
    if given.source is None and given.data is not None:
        return str(given.data / f"{given.dataset}.parquet")
    return str(given.source or given.dataset)


def _split(given: argparse.Namespace) -> dict[str, Any]:
    """What `load_split` takes."""
    return {
        "source": _source(given),
        "core": given.core,
        "protocol": given.protocol,
        "min_rating": given.min_rating,
    }


def _tune_classical(given: argparse.Namespace) -> None:
    split = load_split(**_split(given))
    how = {"names": given.only, "trials": given.trials, "metric": given.metric}
    how |= {"storage": given.storage, "replace": given.replace, "seed": given.seeds[0]}
    for runs in tune_classical(split, given.dataset, given.results, progress=True, **how):
        values = (f"{run.metrics[given.metric]:.4f}" for run in runs)
        said = ", ".join(map(" ".join, zip(values, ("untuned", "tuned"), strict=False)))
        print(f"{runs[0].model:10} {given.metric} on test: {said}")


def _confirm_classical(given: argparse.Namespace) -> None:
    for spec in read_experiment(LEADERBOARD, given.data):
        if spec.dataset in (given.only or [spec.dataset]):
            log = {"core": spec.core, "protocol": spec.protocol, "min_rating": spec.min_rating}
            split = load_split(spec.source or spec.dataset, **log)
            trials = read_json(TRIALS)["trials"]
            for record, new in confirm_classical(split, spec.dataset, given.results, trials):
                value = record.extra["tuning"]["best_value"]
                said = f"{METRIC} {value:.4f} on validation, {'another' if new else 'the same'}"
                print(f"{spec.dataset:20} {record.model:10} {said} setting", flush=True)


def _write(given: argparse.Namespace) -> None:
    names = tuple(OUTPUTS) if given.name in PAGES else (given.name,)
    log = {"core": given.core, "min_rating": given.min_rating}
    source = _source(given)
    statistics = users = None
    if given.name != "report" and not given.render_only:
        options = {"source": source, "seeds": tuple(given.seeds), "quick": given.quick, **log}
        if specs := paper_specs(names, given.dataset, **options):
            print(f"{_cost(specs, given.results)}; those that are there already are not repeated")
            how = {"device": given.device, "retry_failed": given.retry_failed}
            run_grid(specs, PackedResults(given.results), **how)
        if "table2" in names:
            data = load(source, min_rating=given.min_rating).core(given.core)
            statistics = data.stats().as_dict()
        if "timecost" in names:
            split = load_split(source, protocol=protocol_of(given.dataset), **log)
            users = split.train.csr()
    out = given.out or Path("reports") / given.dataset / given.name
    report = write_outputs(
        names,
        given.dataset,
        given.results,
        out,
        quick=given.quick,
        statistics=statistics,
        users=users,
        skip_missing=given.name in PAGES,
    )
    for path in (out / f"{name}.md" for name in names):
        if path.is_file():
            print(path.read_text(encoding="utf-8"))
    print(f"report: {report}")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m reproduction", description=__doc__)
    add = parser.add_argument
    add("name", nargs="?", help="what to make; without it, everything there is to make is listed")
    add("--dataset", default="ml-1m", help="name the records are filed under [%(default)s]")
    add("--source", help="file to read, where the name alone is not enough")
    add("--seeds", type=int, nargs="+", default=[123], help="seeds of the runs [123]")
    add("--core", type=int, default=20, help="minimum interactions of a user or item [20]")
    add("--min-rating", type=float, help="keep rows with at least this rating [all]")
    add("--quick", action="store_true", help="short training, no tuning: minutes on a laptop")
    add("--render-only", action="store_true", help="run nothing, render the records there are")
    add("--results", type=Path, default=Path("results"), help="folder of records [%(default)s]")
    add("--out", type=Path, help="folder to write into [reports/DATASET/NAME]")
    add("--device", default="auto", help="auto, cpu, cuda or cuda:N [auto]")
    add("--data", type=Path, help="folder of the data, with DATASET.parquet")
    add(
        "--protocol",
        default="temporal",
        help="tune-classical, activity: how to split [%(default)s]",
    )
    add("--trials", type=int, default=20, help="tune-classical: of each model; 0: no tuning [20]")
    add("--metric", default="NDCG@10", help="tune-classical: to maximise [%(default)s]")
    add("--only", nargs="+", help="tune-classical: these models [all]; others: these logs")
    add("--storage", type=Path, help="tune-classical: journal of the studies; resumable")
    add("--replace", action="store_true", help="tune-classical: drop earlier records of the same")
    add("--retry-failed", action="store_true", help="run cells again that failed before")
    return parser.parse_args()


if __name__ == "__main__":
    try:
        main()
    except LeporidError as error:
        if os.environ.get("LEPORID_DEBUG"):
            raise
        sys.exit(f"error: {error}")
