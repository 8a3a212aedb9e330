"""The demonstration as one HTML page: the table, a plot and one user."""

from __future__ import annotations

import html
from pathlib import Path

from leporid.demo.stages import DemoResult
from leporid.html import draw_bars, figure_html, rows_html, write_report


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
        ("Is it luck?", rows_html(result.tests, "Paired by user, F1@10, 95% interval")),
        (f"Recommendations for user {result.user}", _user(result)),
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
