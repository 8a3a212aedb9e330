"""Tables of what comes as it is beside the best classical setting tried, from their records."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from statistics import mean, median
from typing import Any

from docs.tables import listed, table
from reproduction.default_ratios import (
    ASKED,
    ENOUGH,
    Ratio,
    Unseen,
    default_ratios,
    without_the_log,
)

WIDTH = 124


def ratio_table(rows: Sequence[Ratio]) -> str:
    """Defaults in % of the best setting tried; bold below 90, in brackets where few were tried."""
    logs, models = (list(dict.fromkeys(getattr(r, of) for r in rows)) for of in ("log", "model"))
    cells = {(row.model, row.log): _cell(row) for row in rows}
    return table(["model", *logs], [[m, *(cells[m, log] for log in logs)] for m in models])


def hidden_order_table(record: Mapping[str, Any]) -> str:
    """DLR2 where the order of a log is hidden, beside the best classical model: means of seeds."""
    rows = []
    for log in dict.fromkeys(row["log"] for row in record["rows"]):
        own = [row for row in record["rows"] if row["log"] == log]
        best, gains = own[0]["classical"], sorted({int(row["gain"]) for row in own})
        alone, whole = (mean(row[key] for row in own) for key in ("network alone", "with"))
        cells = [f"{alone:.4f}", f"{whole:.4f}", f"{best:.4f} {own[0]['classical model']}"]
        cells.append(f"{100 * whole / best:.0f}%")
        cells.append(" to ".join(map(str, dict.fromkeys((gains[0], gains[-1])))))
        rows.append([log.removesuffix(", no order"), *cells])
    names = ["DLR2 alone", "as it comes", "best classical model", "of the best", "weight of SLIM"]
    return table(["log", *names], rows)


def closed_form_part_table(record: Mapping[str, Any]) -> str:
    """NDCG@10 on test of networks by what is beside them; means of seeds."""
    variants = ("alone", "+ SLIM", "+ transitions", "+ both")
    classical = [row for row in record["rows"] if "seed" not in row]
    networks = [row for row in record["rows"] if "seed" in row]
    rows = []
    for log, model in dict.fromkeys((row["log"], row["model"]) for row in networks):
        own = [row for row in networks if (row["log"], row["model"]) == (log, model)]
        cells = [f"{mean(row[f'NDCG@10, {name}'] for row in own):.4f}" for name in variants]
        weights = [_range(own, f"weight of {name}, + both") for name in ("slim", "transitions")]
        beside = [row for row in classical if row["log"] == log]
        best = max(beside, key=lambda row: row["NDCG@10"], default=None)
        last = f"{best['NDCG@10']:.4f} {best['model']}" if best else "-"
        rows.append([log, model, str(len(own)), *cells, *weights, last])
    names = ["seeds", *variants, "weight of SLIM", "of transitions", "best closed-form model"]
    return table(["log", "network", *names], rows, words=2)


def _range(rows: Sequence[Mapping[str, Any]], key: str) -> str:
    """The smallest and the largest value of some rows."""
    values = sorted(row[key] for row in rows)
    return " to ".join(dict.fromkeys(f"{value:g}" for value in (values[0], values[-1])))


def _cell(row: Ratio) -> str:
    if not row.tried:
        return "-"
    # One digit more below 90%, where 89.6 must not read as 90.
    shown = _percent(row.ratio) if row.ratio >= ASKED else f"**{100 * row.ratio:.1f}**"
    return shown if row.tried >= ENOUGH else f"({shown})"


def ratio_text(rows: Sequence[Ratio]) -> str:
    """How many defaults have 90%, with how much behind it, and which have not."""
    known = [row for row in rows if row.tried]
    enough = [row for row in known if row.tried >= ENOUGH]
    none = listed([f"{row.model} on {row.log}" for row in rows if not row.tried])
    low: dict[str, list[str]] = {}
    for row in sorted(known, key=lambda row: row.ratio):
        if row.ratio < ASKED:
            low.setdefault(row.log, []).append(row.model)
    names = "; ".join(f"{listed(models)} on {log}" for log, models in low.items())
    text = (
        f"**{_reached(known, 'ratio')} of {len(known)} pairs reach {_percent(ASKED)}%**, the "
        f"median is {_percent(median(row.ratio for row in known))}%. "
    )
    text += f"Below {_percent(ASKED)}%: {names}. " if names else ""
    if len(enough) == len(rows):
        text += f"Each pair has {ENOUGH} settings x windows or more."
    else:
        text += (
            f"Only {len(enough)} pairs have {ENOUGH} settings x windows or more; of these "
            f"{_reached(enough, 'ratio')} reach it. A ratio in brackets may fall with more trials"
            + (f"; none was tried for {none}." if none else ".")
        )
    return textwrap.fill(text, WIDTH)


def unseen_text(record: Mapping[str, Any]) -> str:
    """What the other logs choose beside the default."""
    rows = without_the_log(record)
    worst = min(rows, key=lambda row: row.ratio)
    low = min(rows, key=lambda row: row.default)
    sizes = sorted({row.candidates for row in rows})
    higher = sum(row.default > row.ratio for row in rows)
    lower = sum(row.default < row.ratio for row in rows)
    text = (
        f"**Without the log itself.** The other logs choose among {sizes[0]} to {sizes[-1]} "
        f"settings tried everywhere, at the default's window; splits of one file are left "
        f"out together. Their choice reaches {_percent(ASKED)}% in {_reached(rows, 'ratio')} of "
        f"{len(rows)} pairs, in the median {_percent(median(row.ratio for row in rows))}%, at "
        f"least {_percent(worst.ratio)}% ({worst.model} on {worst.log}); the default in "
        f"{_reached(rows, 'default')}, {_percent(median(row.default for row in rows))}%, "
        f"{_percent(low.default)}% ({low.model} on {low.log}). The default is higher in {higher} "
        f"and lower in {lower}."
    )
    return textwrap.fill(text, WIDTH)


def ratios(record: Mapping[str, Any]) -> str:
    """The table and what it says."""
    rows = default_ratios(record)
    return "\n\n".join([ratio_table(rows), ratio_text(rows), unseen_text(record)])


def _reached(rows: Sequence[Ratio] | Sequence[Unseen], of: str) -> int:
    return sum(getattr(row, of) >= ASKED for row in rows)


def _percent(share: float) -> str:
    return f"{100 * share:.0f}"
