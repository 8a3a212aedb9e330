"""The result of the demonstration in sentences, and as an HTML page."""

from __future__ import annotations

import html
from pathlib import Path

from examples.demo.stages import METRIC, DemoResult
from leporid.foundation import Series, bars_html, chart_html, rows_html, write_report
from leporid.runs import HITS_CAPTION, MOST_POPULAR, hits_in_words


def headline(result: DemoResult) -> str:
    """The first line: what ten recommendations are worth, beside the most popular items."""
    hits = {row["model"]: row["users with a hit"] for row in result.rows}
    return hits_in_words(hits["DLR2"], {MOST_POPULAR: hits["TopPop"]})


def sentences(result: DemoResult) -> dict[str, str]:
    """Heading and text of each part."""
    random, leporid = (result.curves[name] for name in ("random", "LEPORID"))
    best = max(random, key=lambda step: random[step])
    reached = next((s for s, value in leporid.items() if value >= random[best]), None)
    pace = "does not reach that" if reached is None else f"has that after {reached:,}"
    hits = [round(100 * row["users with a hit"]) for row in result.paper_rows]
    compared = [f"{c.describe()}." for c in (*result.comparisons, result.everyone)]
    return {
        "1. Embeddings in seconds": f"{result.stats['users']:,} users and "
        f"{result.stats['items']:,} items with {result.core} interactions or more, of "
        f"{result.source}. Their LEPORID embeddings took {result.vector_seconds:.1f} s; the first "
        f"call after an installation compiles, and takes longer.",
        "2. In your own model": f"A two-tower model in plain PyTorch (examples/two_tower.py), "
        f"three seeds. From random embeddings of the same scale it is best after {best:,} of "
        f"{max(random):,} steps (validation {METRIC} {random[best]:.3f}); from LEPORID's it {pace}."
        f" On test {compared[-1]} For tail users the difference is "
        f"{result.tail.difference:+.4f} [{result.tail.low:+.4f}, {result.tail.high:+.4f}]. "
        f"Brackets hold 95% intervals.",
        "3. The default model": f"DLR2 with its default recipe, {result.steps:,} steps, from "
        f"LEPORID embeddings, on test. {' '.join(compared[:-1])}",
        f"4. Ten recommendations for user {result.user}": "The user is drawn at random. The "
        f"newest items, oldest first: {'; '.join(result.history)}.",
        "5. The paper's own experiment": "DLR2 with the paper's recipe and its smallest network, "
        f"{result.steps:,} steps, on test: {hits[0]}% of users have a hit from random embeddings, "
        f"{hits[1]}% from LEPORID's. With the default recipe of part 3 the start makes less "
        f"difference (docs/results.md).",
    }


def write_page(result: DemoResult, path: Path) -> Path:
    """Write the page; returns its path."""
    hits = {row["model"]: row["users with a hit"] for row in reversed(result.rows)}
    curves = [
        Series(name, list(result.curves[name].items()), colour)
        for name, colour in (("random", 0), ("LEPORID", 1))
    ]
    caption = f"Validation {METRIC} of the two-tower model, mean of three seeds"
    shown = (
        "",
        chart_html(curves, "optimiser steps", caption),
        bars_html(hits, HITS_CAPTION, percent=True)
        + rows_html(result.rows, "On test; baselines with their default settings"),
        rows_html(result.picks, "The ten best of the items the user does not have"),
        rows_html(result.paper_rows, "DLR2, the paper's recipe, on test"),
    )
    parts = zip(sentences(result).items(), shown, strict=True)
    sections = [(head, f"<p>{html.escape(text)}</p>{more}") for (head, text), more in parts]
    return write_report(path, "leporid: a demonstration", sections, headline(result))
