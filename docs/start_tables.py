"""The tables about the starts of a model of one's own, from the record `own_starts`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from docs.tables import table

Row = Mapping[str, Any]

STARTS = {
    "random": "random",
    "svd, not z-scored": "SVD",
    "svd": "SVD, z-scored",
    "le": "LE",
    "leporid": "LEPORID, as in the paper",
    "adapted": "LEPORID, adapted",
}
"""Headings of the starts that the table shows."""
OTHERS = {"own": "random (the model's own)", "random": "random (same scale)", **STARTS}
OTHERS |= {"random": "random (same scale)", "adapted, own users": "adapted, users not folded in"}
WORDS = ("better", "equivalent", "inconclusive", "worse")


def why_not_svd(record: Mapping[str, Any]) -> str:
    """Quality of every start by model and data set, and the seconds to make it.

    Rows of implicit that are longer than its default are for the page of the study.
    """
    rows = [row for row in record["rows"] if "length 1" not in row["model"]]
    return f"{quality_table(rows)}\n\n{seconds_table(record['rows'])}"


def quality_table(rows: Sequence[Row]) -> str:
    """NDCG@10 on test by model and data set; the start that a model draws itself is random."""
    lines = []
    for model, log in dict.fromkeys((row["model"], row["log"]) for row in rows):
        cell = {row["start"]: row for row in rows if (row["model"], row["log"]) == (model, log)}
        random = "own" if "own" in cell else "random"
        shown = [cell[random], *(cell[start] for start in list(STARTS)[1:])]
        best = max(row["NDCG@10"] for row in shown)
        values = [_bold(row["NDCG@10"], best) for row in shown]
        svd = _better_svd(cell)
        words = [cell[random]["adapted is"], svd["adapted is"]]
        reached = [_steps(cell[start]) for start in (random, svd["start"], "adapted")]
        lines.append([model, log, *values, *words, " / ".join(reached)])
    columns = ["model", "data set", *STARTS.values(), "against random", "against SVD"]
    return table([*columns, "steps to 99%: random / SVD / adapted"], lines, words=2)


def _better_svd(cell: Mapping[str, Row]) -> Row:
    """The kind of SVD that is better on validation."""
    return max((cell["svd"], cell["svd, not z-scored"]), key=lambda row: float(row["valid"]))


class StartCell(NamedTuple):
    """Adapted LEPORID in one model on one data set, beside its rivals."""

    model: str
    against_random: str
    against_svd: str
    gain_over_svd: float
    """Relative difference in NDCG@10 on test."""
    seconds: float
    """Seconds to make the adapted vectors."""


def start_cells(record: Mapping[str, Any]) -> list[StartCell]:
    """The cells of the table of starts."""
    rows = [row for row in record["rows"] if "length 1" not in row["model"]]
    cells = []
    for model, log in dict.fromkeys((row["model"], row["log"]) for row in rows):
        cell = {row["start"]: row for row in rows if (row["model"], row["log"]) == (model, log)}
        svd = _better_svd(cell)
        random = cell["own" if "own" in cell else "random"]
        adapted = cell["adapted"]
        cells.append(
            StartCell(
                model=model,
                against_random=random["adapted is"],
                against_svd=svd["adapted is"],
                gain_over_svd=adapted["NDCG@10"] / svd["NDCG@10"] - 1,
                seconds=adapted["start seconds"],
            )
        )
    return cells


def outcomes_table(rows: Sequence[Row]) -> str:
    """How often adapted is better, equivalent, inconclusive and worse, by model and other start."""
    lines = []
    for model in dict.fromkeys(row["model"] for row in rows):
        for start, heading in OTHERS.items():
            found = [r for r in rows if (r["model"], r["start"]) == (model, start)]
            counts = Counter(row.get("adapted is") for row in found)
            if found and start != "adapted":
                lines.append([model, heading, *(str(counts[word]) for word in WORDS)])
    return table(["model", "adapted against", *WORDS], lines, words=2)


def seconds_table(rows: Sequence[Row]) -> str:
    """Seconds to compute the vectors, by data set."""
    made = {(row["log"], row["start"]): row["start seconds"] for row in rows}
    starts = [start for start in STARTS if start not in ("random", "svd, not z-scored")]
    logs = dict.fromkeys(row["log"] for row in rows)
    lines = [[log, *(f"{made[log, start]:.1f}" for start in starts)] for log in logs]
    headings = [STARTS[start].removesuffix(", z-scored") for start in starts]
    return table(["seconds", *headings], lines)


def left_out_table(record: Mapping[str, Any]) -> str:
    """The start that the other data sets choose, compared on the data set that was left out."""
    against = [start for start in OTHERS if start != "adapted, own users"]
    lines = [
        [row["model"], row["log"], row["chosen"], row["best on validation here"]]
        + [row.get(f"against {start}", "-") for start in against]
        for row in record["rows"]
    ]
    columns = ["model", "data set left out", "chosen by the others", "best here on validation"]
    return table([*columns, *(OTHERS[start] for start in against)], lines, words=4)


def _bold(value: float, best: float) -> str:
    return f"**{value:.4f}**" if value == best else f"{value:.4f}"


def _steps(row: Row) -> str:
    steps = row["iterations to 99%"]
    return "never" if steps is None else str(steps)
