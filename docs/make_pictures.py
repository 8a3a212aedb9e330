"""Draw the pictures of the README and of the pages from the committed records.

python docs/make_pictures.py [--results DIR] [--images DIR] [--no-simulations]

- images/two-tower.png: a two-tower model over its steps, from random and LEPORID embeddings
- images/study-curves.png: four models of the study of initialisations over their steps
- images/embedding-change.png, images/le-dimensions.png: the paper's Figures 2 and 1 (simulations)
- images/leaderboard-ranks.png, images/leaderboard-gains.png: the pictures of docs/leaderboard.md
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
# `benchmarks` and `reproduction` are not installed.
sys.path.insert(0, str(ROOT))

from benchmarks.harness import RECORDS
from leporid.foundation import read_json
from reproduction.figures import draw_embedding_change, draw_le_dimensions
from reproduction.leaderboard import (
    Difference,
    Log,
    Ranking,
    differences,
    rankings,
    read_leaderboard,
)
from reproduction.simulations import simulate_embedding_change, simulate_le_dimensions
from reproduction.specs import LEADERBOARD
from reproduction.study_tables import TRAINED, Study

PICTURED = ("random", "svd")
"""Of the initialisers LEPORID is compared with, those with a panel of their own."""
STUDIED = ("lastfm", "movietweetings-100k")
"""Logs on which the study trained all its models."""
STUDY_COLOURS = {
    "random": "0.55",
    "svd": "tab:green",
    "leporid": "tab:orange",
    "adapted": "tab:red",
}
TITLES = {
    "ml-100k": "MovieLens-100K",
    "ml-1m-r3": "MovieLens-1M, ratings of 3 and above",
    "lastfm": "LastFM",
    "movietweetings-100k": "MovieTweetings",
}


def draw_curves(curves: dict[str, dict[str, dict[str, float]]]) -> Any:
    """Validation NDCG@10 over the steps, one panel per log."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(2.6 * len(curves), 2.7), layout="constrained")
    panels = figure.subplots(1, len(curves), squeeze=False)[0]
    for axes, (log, inits) in zip(panels, curves.items(), strict=True):
        for name, colour in (("random", "0.55"), ("LEPORID", "tab:orange")):
            steps = [int(step) for step in inits[name]]
            axes.plot(steps, list(inits[name].values()), color=colour, linewidth=2, label=name)
        axes.set_title(TITLES.get(log, log), fontsize="medium")
        axes.set_ylim(bottom=0)
        axes.spines[["top", "right"]].set_visible(False)
    panels[0].set_ylabel("validation NDCG@10")
    panels[0].legend(frameon=False, loc="lower right")
    figure.supxlabel("optimiser steps of a two-tower model", fontsize="medium")
    return figure


def draw_study(study: Study) -> Any:
    """Mean validation NDCG@10 of five seeds up to where the first of them ends, as drawn points."""
    from matplotlib.figure import Figure

    places = study.places(TRAINED, STUDIED)
    figure = Figure(figsize=(2.4 * len(TRAINED), 2.3 * len(STUDIED)), layout="constrained")
    panels = figure.subplots(len(STUDIED), len(TRAINED), sharex="col", squeeze=False)
    for log, kind in places:
        axes = panels[STUDIED.index(log), TRAINED.index(kind)]
        for init, colour in STUDY_COLOURS.items():
            curves = [run.extra["curve"] for run in study.groups[log, kind, init].runs.values()]
            points = [p for p in zip(*curves, strict=False) if len({step for step, *_ in p}) == 1]
            means = [np.mean([metric for _, metric, _ in point]) for point in points]
            axes.plot([p[0][0] for p in points], means, color=colour, linewidth=1.8, label=init)
        axes.set_title(f"{kind}, {TITLES[log]}", fontsize="small")
        axes.set_ylim(bottom=0)
        axes.spines[["top", "right"]].set_visible(False)
    panels[0, 0].legend(frameon=False, fontsize="small", loc="lower right")
    figure.supxlabel("optimiser steps", fontsize="medium")
    figure.supylabel("validation NDCG@10", fontsize="medium")
    return figure


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
        axes.set_ylabel(f"NDCG@10 of LEPORID against {base}")
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


def main() -> None:
    """Draw everything there are records for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--results", type=Path, default=ROOT / "results")
    parser.add_argument("--images", type=Path, default=ROOT / "docs" / "images")
    parser.add_argument("--no-simulations", action="store_true", help="records only")
    chosen = parser.parse_args()
    chosen.images.mkdir(parents=True, exist_ok=True)
    figures = {"two-tower": draw_curves(read_json(RECORDS / "two_tower" / "curves.json"))}
    figures["study-curves"] = draw_study(Study(chosen.results))
    if not chosen.no_simulations:
        figures["embedding-change"] = draw_embedding_change(simulate_embedding_change())
        figures["le-dimensions"] = draw_le_dimensions(simulate_le_dimensions())
    logs = read_leaderboard(LEADERBOARD, chosen.results)
    figures |= leaderboard_pictures(logs, chosen.results)
    for name, figure in figures.items():
        figure.savefig(chosen.images / f"{name}.png", dpi=150, metadata={"Software": None})
        print(f"wrote {chosen.images / name}.png")


if __name__ == "__main__":
    main()
