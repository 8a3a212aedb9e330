"""Draw the README's pictures and fill its table from the committed records.

python docs/make_pictures.py [--results DIR] [--dataset NAME] [--readme FILE] [--images DIR]

- images/initialisation.png: HR@10 of DLR2 by initialiser, with 95% intervals over users
- images/embedding-change.png: the paper's Figure 2 (a simulation, the same on every machine)
- images/le-dimensions.png: the paper's Figure 1
- images/leaderboard-ranks.png, images/leaderboard-gains.png: the pictures of docs/leaderboard.md
- the README between `<!-- results:begin -->` and `<!-- results:end -->`, and between
  `<!-- leaderboard:begin -->` and `<!-- leaderboard:end -->` where it has them
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
# `reproduction` is not installed.
sys.path.insert(0, str(ROOT))

from leporid.artifacts import atomic_path
from leporid.errors import DataError
from leporid.experiments import RunRecord
from reproduction.figures import draw_embedding_change, draw_le_dimensions
from reproduction.gains import initialisation_gains
from reproduction.leaderboard import (
    Difference,
    Log,
    Ranking,
    differences,
    rankings,
    read_leaderboard,
    short_table,
)
from reproduction.outputs import paper_table
from reproduction.simulations import (
    simulate_embedding_change,
    simulate_le_dimensions,
)
from reproduction.specs import LEADERBOARD
from reproduction.store import PackedResults
from reproduction.tables import PaperTable, TableRow

SHOWN = ("HR@10", "F1@10")
PICTURED = ("random", "svd")
"""Of the initialisers LEPORID is compared with, those with a panel of their own."""


def dlr2_rows(table: PaperTable) -> dict[str, tuple[RunRecord, ...]]:
    """DLR2 runs by initialiser; of several recipes the one with most initialisers."""
    recipes: dict[str, dict[str, tuple[RunRecord, ...]]] = {}
    for row in table.rows:
        if row.key[0].startswith("dlr2") and row.records:
            recipes.setdefault(row.key[0], {})[row.key[1]] = row.records
    return max(recipes.values(), key=len, default={})


def draw_initialisation(runs: dict[str, tuple[RunRecord, ...]], dataset: str) -> Any:
    """Bars of the mean over seeds; the whisker is the mean 95% interval over users."""
    from matplotlib.figure import Figure

    rows = []
    for init, found in runs.items():
        values = [record.metrics["HR@10"] for record in found]
        ends = [r.extra.get("confidence_95", {}).get("HR@10") for r in found]
        known = [pair[-2:] for pair in ends if pair]
        low, high = (sum(p[i] for p in known) / len(known) if known else None for i in (0, 1))
        rows.append((sum(values) / len(values), init, low, high))
    rows.sort()
    figure = Figure(figsize=(6.8, 0.9 + 0.36 * len(rows)), layout="constrained")
    axes = figure.subplots()
    colours = ["tab:orange" if init == "leporid" else "0.7" for _, init, _, _ in rows]
    axes.barh([init for _, init, _, _ in rows], [value for value, *_ in rows], color=colours)
    for place, (value, _, low, high) in enumerate(rows):
        if low is not None and high is not None:
            axes.plot([low, high], [place, place], color="black", linewidth=1.4)
        axes.text(0.005, place, f"{value:.3f}", va="center", fontsize="small")
    axes.set_xlabel(f"HR@10 of DLR2 on {dataset}, by initialiser")
    axes.spines[["top", "right"]].set_visible(False)
    return figure


def dlr2_alone(table: PaperTable) -> PaperTable:
    """The rows of DLR2 and what the notes say of it: the README has room for one model."""
    rows = tuple(row for row in table.rows if row.key[0] == "dlr2")
    notes = tuple(n for n in table.notes if not n.startswith("Against") or " dlr2 " in n)
    return replace(table, rows=rows, notes=notes)


def gains_table(results: Path, dataset: str) -> str:
    """HR@10 of every model from random and from LEPORID vectors, on a large log and a small one."""
    store = PackedResults(results)
    records = store.records(dataset, ["rehearsed", "softmax"])
    records += [r for r in store.records(dataset, ["initialisers"]) if r.model == "dlr2"]
    small = store.records("ml-100k", ["models"])
    tables = [
        _gains(
            records,
            results,
            f"{dataset}, HR@10, mean of three seeds; DLR2 by its recipes, the others with the same "
            "tuning for both initialisations",
        ),
        _gains(
            small,
            results,
            "ml-100k, HR@10, mean of three seeds; the same settings for both initialisations",
        ),
    ]
    return "\n\n".join(table for table in tables if table)


def _gains(records: list[RunRecord], results: Path, said: str) -> str:
    gains = sorted(initialisation_gains(records, results), key=lambda row: -row["gain"])
    if not gains:
        return ""
    lines = [
        f"**Gain of LEPORID over random initialisation** ({said})",
        "",
        "| model | history | random | LEPORID | gain, 95% interval | tail users, random "
        "| LEPORID |",
        "|---|---|---:|---:|---:|---:|---:|",
    ]
    for row in gains:
        name = row["model"] + ("" if row["recipe"] in ("-", "paper") else f" ({row['recipe']})")
        lines.append(
            f"| {name} | {row['has seen']} | {row['random HR@10']:.4f} | "
            f"{row['leporid HR@10']:.4f} | "
            f"{row['gain']:+.4f} [{row['low']:+.4f}, {row['high']:+.4f}] | "
            f"{row['random tail']:.4f} | {row['leporid tail']:.4f} |"
        )
    return "\n".join(lines)


def tuning(records: tuple[RunRecord, ...], results: Path) -> str:
    """How the settings of a row's runs were found: trials, settings compared, or a recipe."""
    first = records[0]
    if not first.config:
        return "it has none"
    if trials := first.extra.get("tuning", {}).get("trials"):
        return f"{trials} trials on validation"
    if first.recipe:
        return f"recipe `{first.recipe}`"
    tried = PackedResults(results).records(first.dataset, ["tuning"])
    init = "random" if first.init == "random" else "leporid"
    count = sum((run.model, run.init) == (first.model, init) for run in tried)
    return f"{count} settings on validation" if count else "defaults"


def readme_table(
    tables: dict[str, PaperTable], gains: str = "", results: Path = ROOT / "results"
) -> str:
    """Ours and the paper's, two metrics, rows that were run here, best first."""
    parts = [gains, ""] if gains else []
    for title, table in tables.items():
        if any(row.records for row in table.rows):
            parts += [f"**{title}** ({table.dataset})", "", _markdown(table, results), ""]
            parts += [note for note in table.notes if not note.startswith("Not run yet")] + [""]
    return "\n".join(parts).strip() or "No records yet: `python -m reproduction table3` makes them."


def _markdown(table: PaperTable, results: Path) -> str:
    header = [*table.key_columns, "history", *(c for m in SHOWN for c in (f"{m}, ours", "paper"))]
    header += ["seeds", "settings"]
    lines = ["| " + " | ".join(header) + " |"]
    lines.append(
        "|" + "---|" * (len(table.key_columns) + 1) + "---:|" * (2 * len(SHOWN) + 1) + "---|"
    )
    run = [row for row in table.rows if row.values["HR@10"].ours is not None]
    lines += [
        f"{_line(row)} {len(row.records)} | {tuning(row.records, results)} |"
        for row in sorted(run, key=lambda r: -(r.values["HR@10"].ours or 0))
    ]
    return "\n".join(lines)


def _line(row: TableRow) -> str:
    cells = [*row.key, row.history]
    for metric in SHOWN:
        value = row.values[metric]
        cells.append("-" if value.ours is None else f"{value.ours:.4f}")
        cells.append("-" if value.paper is None else f"{value.paper:.4f}")
    return "| " + " | ".join(cells) + " |"


def draw_ranks(found: list[Ranking]) -> Any:
    """Mean ranks, best on top; a bar on the right joins rows within the critical difference."""
    from matplotlib.figure import Figure

    heights = [1.6 + 0.24 * len(ranking.names) for ranking in found]
    figure = Figure(figsize=(7.2, sum(heights)), layout="constrained")
    panels = figure.subplots(len(found), 1, squeeze=False, height_ratios=heights)[:, 0]
    for axes, ranking in zip(panels, found, strict=True):
        places = range(len(ranking.names))
        axes.hlines(places, 1, ranking.ranks, color="0.85", linewidth=1)
        axes.plot(ranking.ranks, places, "o", color="tab:blue")
        axes.set_yticks(places, ranking.names, fontsize="small")
        axes.set_ylim(len(ranking.names) - 0.5, -1.6)
        axes.plot([1, 1 + ranking.difference], [-1, -1], color="black", linewidth=2, marker="|")
        axes.text(1 + ranking.difference / 2, -1.1, "critical difference", ha="center", va="bottom")
        width = max(len(ranking.names), 1 + ranking.difference)
        for number, (first, last) in enumerate(ranking.groups(), start=1):
            side = width * (1 + 0.02 * number)
            axes.plot([side, side], [first - 0.2, last + 0.2], color="tab:orange", linewidth=3)
        axes.set_title(f"{ranking.title}, {len(ranking.logs)} logs")
        axes.set_xlabel("mean rank by NDCG@10 (1 is the best); a bar: no significant difference")
        axes.spines[["top", "right"]].set_visible(False)
    return figure


def draw_gains(found: list[Difference]) -> Any:
    """Gain of LEPORID in percent by log, sparsest first, one panel per other initialiser."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import FixedLocator

    bases = [base for base in PICTURED if any(d.second.init == base for d in found)]
    logs = {d.log.name: d.log for d in found}
    order = sorted(logs.values(), key=lambda log: log.train.get("density", 1.0))
    models = list(dict.fromkeys(d.first.model for d in found))
    figure = Figure(figsize=(9, 3.6 * len(bases)), layout="constrained")
    for axes, base in zip(figure.subplots(len(bases), 1, squeeze=False)[:, 0], bases, strict=True):
        for number, model in enumerate(models):
            own = [d for d in found if (d.first.model, d.second.init) == (model, base)]
            if not own:
                continue
            shift = 0.8 * ((number + 0.5) / len(models) - 0.5)
            places = [order.index(d.log) + shift for d in own]
            gains = np.array([[d.gain.low, d.gain.difference, d.gain.high] for d in own]).T
            low, middle, high = 100 * gains / [d.gain.mean_b for d in own]
            ends = [middle - low, high - middle]
            axes.errorbar(places, middle, ends, fmt="o", markersize=4, capsize=2, label=model)
        axes.axhline(0, color="black", linewidth=0.8)
        axes.set_xticks(range(len(order)), [_with_density(log) for log in order], fontsize="small")
        axes.set_xlim(-0.5, len(order) - 0.5)
        axes.set_yscale("symlog", linthresh=10)
        axes.yaxis.set_major_locator(FixedLocator([-50, -20, -10, -5, 0, 5, 10, 20, 50, 100, 500]))
        axes.yaxis.set_major_formatter("{x:+.0f}%")
        axes.set_ylabel(f"HR@10 of LEPORID against {base}")
        axes.legend(fontsize="small", ncols=8, loc="lower center", bbox_to_anchor=(0.5, 1))
        axes.spines[["top", "right"]].set_visible(False)
    axes.set_xlabel("log and density of its training part, sparsest first")
    return figure


def _with_density(log: Log) -> str:
    density = f"{100 * log.train['density']:.2g}%" if log.train else "density not recorded"
    return f"{log.name}\n{density}"


def leaderboard_pictures(logs: list[Log], results: Path) -> dict[str, Any]:
    """What docs/leaderboard.md shows, as far as there are records."""
    figures = {}
    if found := rankings(logs):
        # Too many rows to see: the page has them as a table.
        figures["leaderboard-ranks"] = draw_ranks(found[1:] or found)
    if gains := [d for d in differences(logs, results) if d.same_model]:
        figures["leaderboard-gains"] = draw_gains(gains)
    return figures


def fill(text: str, table: str, name: str = "results") -> str:
    """`text` with everything between the markers replaced."""
    opening, closing = f"<!-- {name}:begin -->", f"<!-- {name}:end -->"
    before, begin, rest = text.partition(opening)
    _, end, after = rest.partition(closing)
    if not begin or not end:
        raise DataError(f"the README needs the markers {opening} and {closing}")
    return f"{before}{begin}\n{table}\n{end}{after}"


def main() -> None:
    """Draw everything there are records for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--results", type=Path, default=ROOT / "results")
    parser.add_argument("--dataset", default="ml-1m-r3")
    parser.add_argument("--readme", type=Path, default=ROOT / "README.md")
    parser.add_argument("--images", type=Path, default=ROOT / "docs" / "images")
    parser.add_argument("--no-simulations", action="store_true", help="records only")
    chosen = parser.parse_args()
    chosen.images.mkdir(parents=True, exist_ok=True)
    tables = {
        title: paper_table(name, chosen.dataset, chosen.results)
        for title, name in (("DLR2 by initialiser", "table3"), ("Algorithms", "table4"))
    }
    tables["DLR2 by initialiser"] = dlr2_alone(tables["DLR2 by initialiser"])
    figures = {}
    if runs := dlr2_rows(tables["DLR2 by initialiser"]):
        figures["initialisation"] = draw_initialisation(runs, chosen.dataset)
    if not chosen.no_simulations:
        figures["embedding-change"] = draw_embedding_change(simulate_embedding_change())
        figures["le-dimensions"] = draw_le_dimensions(simulate_le_dimensions())
    logs = read_leaderboard(LEADERBOARD, chosen.results)
    figures |= leaderboard_pictures(logs, chosen.results)
    for name, figure in figures.items():
        figure.savefig(chosen.images / f"{name}.png", dpi=150, metadata={"Software": None})
        print(f"wrote {chosen.images / name}.png")
    text = chosen.readme.read_text(encoding="utf-8")
    gains = gains_table(chosen.results, chosen.dataset)
    filled = fill(text, readme_table(tables, gains, chosen.results))
    if "<!-- leaderboard:begin -->" in text:
        filled = fill(filled, short_table(logs), "leaderboard")
    with atomic_path(chosen.readme) as path:
        path.write_text(filled, encoding="utf-8")
    print(f"filled the table of {chosen.readme} from {chosen.results / chosen.dataset}")


if __name__ == "__main__":
    main()
