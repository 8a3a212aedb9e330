"""Fill the tables of the README and of the pages from records, and write the generated pages.

No number there was typed by hand. A table is between `<!-- NAME:begin -->` and `<!-- NAME:end -->`.
benchmarks.md, leaderboard.md, paper.md and verdict.md are written as a whole. All of them are in
git, so that a clone can be read unbuilt; `tests/test_docs.py` checks that they are current.

python docs/make_pages.py
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
# `benchmarks`, `docs` and `reproduction` are not installed.
sys.path.insert(0, str(ROOT))

from benchmarks.harness import RECORDS, markdown_table
from docs import ratio_tables, start_tables, tables
from docs.first_screen import first_screen
from leporid.errors import DataError
from leporid.foundation import atomic_path, read_json
from reproduction.global_time import read_global_time
from reproduction.leaderboard import differences, leaderboard_page, read_leaderboard
from reproduction.leave_last_out import read_levers
from reproduction.outputs import tables_page
from reproduction.specs import LEADERBOARD
from reproduction.store import PackedResults
from reproduction.study_tables import tables as study_tables
from reproduction.verdict import verdict_page

RESULTS = ROOT / "results"
HEAD = """# Benchmarks

Speed against other implementations, measured in one run on one machine, so that the ratio carries
over where seconds do not. One table per question, from `benchmarks/records`; `make bench` measures
again.
"""
QUESTIONS = {
    "neighbours": "How fast is the exact neighbour search?",
    "eigenvectors": "How fast are the eigenvectors?",
    "initializers": "What do initialisers cost?",
    "two_tower": "What do initial embeddings do in a plain two-tower model?",
    "own_starts": "Which start should a model of your own get?",
    "own_starts_isolated": "How long should the rows be from which implicit's BPR starts?",
    "own_starts_left_out": "And which start do the other data sets choose?",
    "dlr2": "How fast is DLR2 on two cores?",
    "dlr2_gpu": "How fast is DLR2 on a GPU?",
    "sasrec": "How fast does SASRec learn beside other libraries, on two cores?",
    "sasrec_gpu": "And on a GPU?",
    "models": "How fast are epochs beside RecBole?",
    "ease": "How fast is EASE?",
    "ials": "How fast does iALS converge beside implicit?",
    "evaluation": "How fast is the evaluation beside RecBole's?",
    "batch": "How fast are recommendations for all users?",
    "serve": "How many requests per second?",
    "serve_large": "How long do requests wait on 100,000 items?",
    "choose": "What does `choose` find in five minutes?",
    "choose_lenskit_auto": "And LensKit-Auto, in the same time?",
    "repeats": "Groceries: what do users buy again, and what for the first time?",
    "shop": "What does `choose` find for the shop of the tutorial?",
    "events": "Purchases as the goal: what are the hours played worth?",
    "rules": "What do rules cost?",
    "item_features": "What do columns of an item table bring a network?",
    "stable_vectors": "How much do lists and vectors change between two trainings?",
    "trace_train": "How many files does `leporid train` go through?",
    "waits": "Which waits are left?",
    "trainings": "How long is a whole training as it comes?",
    "closed_form_part": "What do SLIM and transitions add to a network?",
    "linear_part": "What does the linear part do where the order is hidden?",
    "linear_models": "Which linear model should a network have beside it?",
    "two_versions": "What has the redesign of 0.8.0 done to the speed?",
    "redesign_speed": "What has the redesign of 0.9.0 done to the speed?",
    "transition_settings": "Which settings of transitions suit which data set?",
    "transition_published": "Does transitions repeat the published figures?",
    "transition_graph": "Does a graph of transitions give LEPORID better item vectors?",
    "transition_graph_values": "And each such graph on its own?",
    "walk_normalize": "When should the targets of a random walk sum to 1?",
    "scale": "How does LEPORID grow with the number of users?",
    "gpu": "How fast is LEPORID on a GPU?",
    "distributed": "What does a cluster cost?",
    "read_duckdb": "Could DuckDB read logs in place of our reader?",
    "first_call": "How long does the first call take?",
}
"""By record. Others have their name as a heading; those of more than 40 rows are named only."""


def page(records: list[dict[str, Any]]) -> str:
    """The page of benchmarks as Markdown: questions in their order, then other records."""
    order = list(QUESTIONS)
    names = {name: number for number, name in enumerate(order)}
    ordered = sorted(records, key=lambda record: names.get(record["benchmark"], len(order)))
    return tables.folded("\n".join([HEAD, *(_section(record) for record in ordered)]))


def _section(record: dict[str, Any]) -> str:
    machine, name = record["machine"], record["benchmark"]
    # An anchor of HTML works on a forge too, where `{ #name }` would be text.
    lines = [f'<a id="{name}"></a>', "", f"## {QUESTIONS.get(name, name)}", ""]
    settings = ", ".join(f"{key} {value}" for key, value in record["settings"].items())
    about = f"{machine['processor']}, {machine['cores']} cores, {record['date']}."
    lines += [f"{about} {settings}." if settings else about, ""]
    if len(record["rows"]) > 40:
        where = f"{len(record['rows'])} rows: `benchmarks/records/{name}.json`."
        return "\n".join([*lines, where, ""])
    return "\n".join([*lines, markdown_table(record), ""])


def fill(text: str, name: str, table: str, gap: str = "\n") -> str:
    """Replace what stands between the markers of a table; the site needs empty lines around it."""
    begin, end = f"<!-- {name}:begin -->", f"<!-- {name}:end -->"
    before, found, rest = text.partition(begin)
    _, closed, after = rest.partition(end)
    if not found or not closed:
        raise DataError(f"the page needs the markers {begin} and {end}")
    return f"{before}{begin}\n{gap}{table}\n{gap}{end}{after}"


def record(name: str) -> dict[str, Any]:
    """A record of a benchmark."""
    found: dict[str, Any] = read_json(RECORDS / f"{name}.json")
    return found


def filled() -> dict[str, dict[str, Callable[[], str]]]:
    """The tables of each page by their markers."""
    store = PackedResults(RESULTS)
    logs = read_leaderboard(LEADERBOARD, RESULTS)
    compared = list(differences(logs, RESULTS))
    cold = record("cold_items")

    def gains(dataset: str, *groups: str) -> str:
        return tables.gain_table(store.records(dataset, groups), RESULTS)

    def studies() -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = read_json(
            RESULTS / "ml-1m-r3" / "inner-validation-studies.json"
        )["studies"]
        return found

    study = study_tables(RESULTS)
    return {
        "README.md": {
            "first-screen": lambda: first_screen(
                compared, start_tables.start_cells(record("own_starts"))
            ),
            "results": lambda: tables.short_table(logs),
        },
        "docs/results.md": {
            "results": lambda: tables.short_table(logs),
            "global-time": lambda: tables.global_time_section(read_global_time(RESULTS)),
            "leave-last-out": lambda: tables.leave_last_out_table(read_levers(RESULTS)),
            "test-reads": lambda: tables.test_reads_table(RESULTS),
            "by-init": lambda: tables.outcome_table(compared, "init"),
            "by-model": lambda: tables.outcome_table(compared, "model"),
            "two-tower": lambda: tables.two_tower_table(record("two_tower")),
            "studies": lambda: tables.study_table(studies()),
            "tuned": lambda: gains("ml-1m-r3", "rehearsed"),
            "ml-100k": lambda: gains("ml-100k", "models"),
        },
        "docs/initialisation.md": {name: partial(study.__getitem__, name) for name in study},
        "docs/own-model.md": {
            "two-tower": lambda: tables.two_tower_table(record("two_tower")),
            "why-not-svd": lambda: start_tables.why_not_svd(record("own_starts")),
        },
        "docs/own-model-study.md": {
            "starts": lambda: start_tables.quality_table(record("own_starts")["rows"]),
            "outcomes": lambda: start_tables.outcomes_table(record("own_starts")["rows"]),
            "left-out": lambda: start_tables.left_out_table(record("own_starts_left_out")),
        },
        "docs/initialisers.md": {
            "probe": lambda: tables.probe_table(record("probe_vectors")),
            "costs": lambda: markdown_table(record("initializers")),
        },
        "docs/models.md": {
            "linear-part": lambda: tables.linear_part_table(logs),
            "closed-form-part": lambda: ratio_tables.closed_form_part_table(
                record("closed_form_part")
            ),
            "hidden-order": lambda: ratio_tables.hidden_order_table(record("linear_part")),
            "new-users": lambda: tables.new_users_table(
                read_json(RESULTS / "new-users.json")["runs"], ("dlr2", "sasrec", "ease")
            ),
            "default-ratios": lambda: ratio_tables.ratios(record("classical_defaults")),
        },
        "docs/new-items.md": {
            "cold-items": lambda: tables.chosen_table(cold, "cold", tables.COLD),
            "grow-items": lambda: tables.chosen_table(cold, "grow", tables.GROWN),
        },
        "docs/scale.md": {
            "landmarks": lambda: tables.landmark_table(record("landmarks"), RESULTS),
            "scale": lambda: tables.growth_table(record("scale")),
            "ten-million": lambda: markdown_table(record("ten_million")),
        },
    }


def filled_page(name: str, made: dict[str, Callable[[], str]]) -> str:
    """A page with all its tables made again."""
    text = (ROOT / name).read_text(encoding="utf-8")
    for marker, write in made.items():
        text = fill(text, marker, write(), gap="" if name == "README.md" else "\n")
    return text


def generated() -> dict[str, str]:
    """The pages that are written as a whole."""
    return {
        "docs/benchmarks.md": page([read_json(path) for path in sorted(RECORDS.glob("*.json"))]),
        "docs/leaderboard.md": tables.folded(leaderboard_page(LEADERBOARD, RESULTS)),
        "docs/paper.md": tables.folded(tables_page(RESULTS)),
        "docs/verdict.md": verdict_page(RESULTS),
    }


def main() -> None:
    """Read, write."""
    pages = generated()
    pages |= {name: filled_page(name, made) for name, made in filled().items()}
    for name, text in pages.items():
        with atomic_path(ROOT / name) as path:
            path.write_text(text, encoding="utf-8")
        print(f"wrote {name}")


if __name__ == "__main__":
    main()
