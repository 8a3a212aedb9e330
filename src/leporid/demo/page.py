"""The demonstration as one HTML page: the table, two plots, a map of the films, one user."""

from __future__ import annotations

import html
from pathlib import Path
from typing import Any

from leporid.data import rarest_genres
from leporid.demo.stages import DemoResult
from leporid.html import draw_bars, figure_html, new_figure, rows_html, write_report

_MAP = "LEPORID item vectors, columns 2 and 3: computed without the genres"
_GENRES = 6
"""Genres that get a colour of their own on the map."""


def write_page(result: DemoResult, path: Path) -> Path:
    """Write the page; returns its path."""
    names = [row["model"] for row in result.rows]
    bars = draw_bars(
        names,
        [row["HR@10"] for row in result.rows],
        [result.intervals[name] for name in names],
        "HR@10 on test, 95% interval over users",
    )
    sections = [
        ("Quality", rows_html(result.rows, "On test; tail users are the 25% least active")),
        ("", figure_html(bars, "Share of users with at least one hit among ten")),
        ("While training", figure_html(_draw_curves(result), "Same network, same batches")),
        ("Is it luck?", rows_html(result.tests, "Paired by user, F1@10, 95% interval")),
        (f"Recommendations for user {result.user}", _user(result)),
        ("The films before any training", figure_html(_draw_map(result), _MAP)),
        ("What was done", _story(result)),
    ]
    title = "leporid: initial embeddings for recommenders"
    return write_report(path, title, sections, _summary(result))


def _summary(result: DemoResult) -> str:
    random, leporid = result.rows[-2:]
    [test] = [row for row in result.tests if row["LEPORID against"] == random["model"]]
    return (
        f"With LEPORID's initial embeddings DLR2 has a film that the user chose later among its "
        f"ten for {leporid['HR@10']:.1%} of users, with random ones for {random['HR@10']:.1%}; of "
        f"the least active users for {leporid['tail users HR@10']:.1%} and "
        f"{random['tail users HR@10']:.1%}.\n"
        f"F1@10 differs by {test['difference of F1@10']:+.4f} (95% interval {test['low']:+.4f} to "
        f"{test['high']:+.4f}). Data: {result.source}."
    )


def _story(result: DemoResult) -> str:
    stats, settings = result.stats, result.settings
    text = (
        f"Data: {result.source}; users and items with at least {settings.core} interactions: "
        f"{stats['users']:,} users, {stats['items']:,} items, {stats['interactions']:,} "
        f"interactions. Each user's first 70% in time order train, the next 10% select, the rest "
        f"test. Every item the user has not had is ranked. Both DLR2 runs are the same network "
        f"with the same {result.steps:,} steps of {settings.batch_size} examples; only the "
        f"initial embeddings differ. A full training run is many times longer."
    )
    return f"<p>{html.escape(text)}</p>"


def _user(result: DemoResult) -> str:
    before = ", ".join(html.escape(title) for title in result.history)
    picks = rows_html(result.picks, "DLR2 from LEPORID, the ten best unseen items")
    return f"<p>Last chosen, oldest first: {before}.</p>{picks}"


def _draw_curves(result: DemoResult) -> Any:
    figure, axes = new_figure(6.4, 3.2)
    for name, points in result.curves.items():
        axes.plot([step for step, _ in points], [value for _, value in points], "o-", label=name)
    axes.set(xlabel="optimiser step", ylabel="F1@10 on validation")
    axes.grid(visible=True, alpha=0.3)
    axes.legend(frameon=False)
    return figure


def _draw_map(result: DemoResult) -> Any:
    figure, axes = new_figure(7.2, 5.2)
    points = result.vectors.items.vectors[:, 1:3]
    ids = [str(item) for item in result.split.train.items.ids.to_pylist()]
    listed = [result.items[item].genres if item in result.items else () for item in ids]
    names, genre = rarest_genres(listed, _GENRES)
    axes.scatter(*points.T, s=5, color="0.5", alpha=0.35, linewidths=0)
    for index, name in enumerate(names[:_GENRES]):
        axes.scatter(*points[genre == index].T, s=14, alpha=0.7, linewidths=0, label=name)
    if names:
        axes.legend(fontsize="small", frameon=False)
    axes.set(xlabel="column 2", ylabel="column 3")
    return figure
