"""The page of an answer: the charts, the table of models, examples, the test and the commands."""

from __future__ import annotations

import html
import math
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
        ("Order of the candidates", _rows(prior, _prior_caption(details["log"]))),
        ("The same again", f"<pre>{shown}</pre>"),
    ]
    write_report(path, "leporid choose", sections, parts["why"])


def _rows(rows: Sequence[Mapping[str, Any]], caption: str) -> str:
    return rows_html(rows, caption) if rows else ""


def _prior_caption(about: Mapping[str, Any]) -> str:
    order = "an order in time" if about["has_order"] else "no order in time"
    return (
        f"Quality on logs with like statistics, as a share of the best model there (this log: "
        f"{about['interactions_per_user']:g} interactions per user, density {about['density']:g}, "
        f"{order})"
    )


def _charts(parts: Mapping[str, Any]) -> str:
    """Quality over time with the frontier, and quality against milliseconds per request."""
    timeline, metric = parts["details"]["timeline"], parts["metric"]
    if not timeline:
        return ""
    at, values = ([row[name] for row in timeline] for name in ("at", "value"))
    names = [row["model"] for row in timeline]
    over_time = _chart(at, values, names, [""] * len(names), "seconds")
    over_time["caption"] = f"{metric} of every candidate when it was done; the line is the best"
    order = np.argsort(at, kind="stable")
    best = np.maximum.accumulate(np.array(values)[order])
    points = [over_time["points"][place] for place in order]
    y = {point["value"]: point["y"] for point in points}
    over_time["line"] = _steps([point["x"] for point in points], [y[v] for v in best])
    rows = best_rows([row for row in parts["table"] if row["came to"] == "the end"])
    models = [row["model"] for row in rows]
    speed = [max(row["ms per request"], 0.01) for row in rows]
    against = _chart(
        speed, [row[metric] for row in rows], models, models, "ms per request", log=True
    )
    against["caption"] = f"{metric} of the best of each model, and its time per request"
    used = {family_of(name) for name in names}
    keys = [(name, place) for name, place in _PLACES.items() if name in used]
    charts = [over_time, against]
    return fill_template("leporid", "choose.html", part="charts", charts=charts, keys=keys)


def _chart(
    x: Sequence[float],
    y: Sequence[float],
    models: Sequence[str],
    labels: Sequence[str],
    x_name: str,
    *,
    log: bool = False,
) -> dict[str, Any]:
    """Points and ticks in the units of the picture."""
    across, x_ticks = _scaled(x, _LEFT, _RIGHT - 60, log=log)
    up, y_ticks = _scaled(y, _BOTTOM, _TOP)
    points = [
        {"x": across[i], "y": up[i], "value": y[i], "place": _PLACES[family_of(models[i])]}
        | {"label": labels[i], "title": f"{models[i]} {y[i]:.4f}"}
        for i in range(len(x))
    ]
    about = {"points": points, "x_ticks": x_ticks, "y_ticks": y_ticks}
    return {**about, "x_name": x_name, "line": ""}


def _scaled(
    values: Sequence[float], first: float, last: float, *, log: bool = False
) -> tuple[list[float], list[tuple[float, str]]]:
    """The values between two ends of the picture, and five ticks with their labels."""
    numbers = [math.log10(value) for value in values] if log else list(values)
    low, high = min(numbers), max(numbers)
    width = (high - low) or 1.0

    def place(number: float) -> float:
        return round(first + (number - low) / width * (last - first), 1)

    ticks = [low + width * part / 4 for part in range(5)]
    labels = [f"{10**tick if log else tick:.3g}" for tick in ticks]
    return [place(n) for n in numbers], [(place(t), s) for t, s in zip(ticks, labels, strict=True)]


def _steps(x: Sequence[float], y: Sequence[float]) -> str:
    """A line that rises at once and stays."""
    corners = [f"{x[0]},{y[0]}"]
    for place in range(1, len(x)):
        corners += [f"{x[place]},{y[place - 1]}", f"{x[place]},{y[place]}"]
    return " ".join([*corners, f"{_RIGHT},{y[-1]}"])


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
