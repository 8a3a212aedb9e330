"""The page of an answer: the charts, the table of models, examples, the test and the commands."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from leporid.data import titles_of
from leporid.errors import LeporidError
from leporid.html import fill_template, rows_html, write_report
from leporid.models import Recommender
from leporid.selection.candidates import Problem
from leporid.selection.priors import FAMILIES, family_of
from leporid.selection.summary import best_rows

_LEFT, _RIGHT, _TOP, _BOTTOM = 60.0, 620.0, 20.0, 250.0
"""The area of a chart, in its own units."""
_PLACES = {name: place for place, name in enumerate([*FAMILIES, "other"])}


def write_page(path: Path, parts: Mapping[str, Any], problem: Problem, model: Recommender) -> None:
    """Write the page."""
    metric, details = parts["metric"], parts["details"]
    tested = [{name: row[name] for name in ("model", metric)} for row in parts["tested"]]
    prior = [
        {"model": name, "expected": f"{100 * share:.0f}%"}
        for name, share in details["prior"].items()
    ]
    inits = [{"initialisation": k, "NDCG@10": v} for k, v in details["initialisations"].items()]
    shown = "\n".join(html.escape(line) for line in parts["commands"])
    sections = [
        ("The search", _charts(parts)),
        ("The models", _table(parts)),
        ("Recommendations", _examples(problem, model)),
        ("On test", _rows(tested, "Read once, after the choice")),
        ("", _rows(details["users"], f"{metric} of the chosen model by group of users")),
        ("Left out", _rows(details["left out"], "Models without a result")),
        ("Initialisations", _rows(inits, "Vectors alone, without any training (probe)")),
        (
            "Order of the candidates",
            _rows(prior, "Quality on logs like this one, as a share of the best there"),
        ),
        ("The same again", f"<pre>{shown}</pre>"),
    ]
    write_report(path, "leporid choose", sections, parts["why"])


def _rows(rows: Sequence[Mapping[str, Any]], caption: str) -> str:
    return rows_html(rows, caption) if rows else ""


def _charts(parts: Mapping[str, Any]) -> str:
    """Quality over time with the best so far, and quality against milliseconds per request."""
    timeline, metric = parts["details"]["timeline"], parts["metric"]
    if not timeline:
        return ""
    done = sorted(timeline, key=lambda row: row["at"])
    over_time = [(row["at"], row["value"], row["model"]) for row in done]
    best = best_rows(parts["table"])
    by_speed = [(max(row["ms per request"], 0.01), row[metric], row["model"]) for row in best]
    first = _chart(over_time, "seconds")
    first["caption"] = f"{metric} of every candidate when it was done; the line is the best"
    first["line"] = _steps([(point["x"], point["y"]) for point in first["points"]])
    second = _chart(by_speed, "ms per request", log=True)
    second["caption"] = f"{metric} of the best of each model, and its time per request"
    used = {family_of(model) for _, _, model in over_time}
    keys = [(name, place) for name, place in _PLACES.items() if name in used]
    charts = [first, second]
    return fill_template("leporid", "choose.html", part="charts", charts=charts, keys=keys)


def _chart(
    rows: Sequence[tuple[float, float, str]], x_name: str, *, log: bool = False
) -> dict[str, Any]:
    """Points and ticks in the units of the picture; each row is x, y and a model."""
    x, y, names = zip(*rows, strict=True)
    across, x_ticks = _scaled(x, _LEFT, _RIGHT - 60, log=log)
    up, y_ticks = _scaled(y, _BOTTOM, _TOP)
    points = [
        {"x": across[i], "y": up[i], "value": y[i], "model": name}
        | {"place": _PLACES[family_of(name)]}
        for i, name in enumerate(names)
    ]
    about = {"points": points, "x_ticks": x_ticks, "y_ticks": y_ticks}
    return {**about, "x_name": x_name, "line": ""}


def _scaled(
    values: Sequence[float], first: float, last: float, *, log: bool = False
) -> tuple[list[float], list[tuple[float, str]]]:
    """The values between two ends of the picture, and five ticks with their labels."""
    numbers = np.log10(values) if log else np.array(values)
    low = numbers.min()
    high = low + (np.ptp(numbers) or 1.0)
    ticks = np.linspace(low, high, 5)
    labels = [f"{tick:.3g}" for tick in (10**ticks if log else ticks)]
    places, lines = (
        np.interp(part, [low, high], [first, last]).round(1).tolist() for part in (numbers, ticks)
    )
    return places, list(zip(lines, labels, strict=True))


def _steps(points: Sequence[tuple[float, float]]) -> str:
    """The best so far, a line that rises at once and stays; upwards y falls."""
    corners, best = [], points[0][1]
    for x, y in points:
        corners += [f"{x},{best}", f"{x},{min(best, y)}"]
        best = min(best, y)
    return " ".join([*corners, f"{_RIGHT},{best}"])


def _table(parts: Mapping[str, Any]) -> str:
    """The best candidate of each model with bars; all others folded."""
    metric, table = parts["metric"], parts["table"]
    if not table:
        return ""
    top = max(row[metric] for row in table) or 1.0
    rows = [{**row, "share": row[metric] / top} for row in table]
    about = {"best": best_rows(rows), "rows": rows, "metric": metric}
    return fill_template("leporid", "choose.html", part="table", **about)


def _examples(problem: Problem, model: Recommender) -> str:
    """The newest items of three users, and what they would be shown; with titles where known."""
    known = model.known.sequences()
    lengths = np.diff(known.indptr)
    users = np.flatnonzero(lengths)
    if not len(users):
        return ""
    by_length = users[np.argsort(lengths[users], kind="stable")]
    chosen = by_length[[len(by_length) // 4, len(by_length) // 2, 3 * len(by_length) // 4]]
    titles = [str(key) for key in model.items.ids.to_pylist()]
    if problem.items is not None:
        with suppress(LeporidError):  # a table without titles
            titles = [info.title for info in titles_of(model.items, problem.items)]
    lists = model.top_k(chosen.astype(np.int32), 5).items
    people = [
        {
            "user": model.users.external(int(user)),
            "history": [titles[item] for item in known.of(int(user))[-5:]],
            "lists": [titles[item] for item in top if item >= 0],
        }
        for user, top in zip(chosen, lists, strict=True)
    ]
    return fill_template("leporid", "choose.html", part="examples", people=people)
