"""`python -m reproduction sequence-settings`: what one change does to SASRec and HGN.

From results/sequence-settings.json, whose runs `benchmarks.sequence_settings` makes: NDCG@10 on
validation, one seed. The second table is about the gain of the linear part: rules for it, and what
they bring on the last part of splits inside train and validation.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from statistics import fmean
from typing import Any

from leporid.foundation import read_json

RECORDS = "sequence-settings.json"
MODELS = ("sasrec", "sasrec_levers", "hgn")
NONE, BEST = "none", "the best of nine on all users"
Run = Mapping[str, Any]


def _best(run: Run) -> float:
    return float(max(run["by_gain"], key=run["by_gain"].get))


GAIN_RULES: dict[str, Callable[[Run], float]] = {
    NONE: lambda run: 0.0,
    "smallest level one, 2,000 users": lambda run: run["auto"],
    "smallest level one, all users": lambda run: run["level"],
    "half of the best": lambda run: _best(run) / 2 if _best(run) > 1 else 0.0,
    BEST: _best,
}
"""The gain of a run by each rule; level is within a standard error of the best."""


def read_runs(root: str | Path, part: str) -> list[dict[str, Any]]:
    """Those on validation of the leaderboard's splits ("valid"), or of splits inside ("inner")."""
    return [run for run in read_json(Path(root) / RECORDS)["runs"] if run["part"] == part]


def changes_table(root: str | Path) -> str:
    """Each change against the same run without it, in percent: the network alone, by log."""
    runs = read_runs(root, "valid")
    logs = sorted({run["dataset"] for run in runs})
    values = {(r["dataset"], r["model"], _word(r["change"])): r["valid"]["NDCG@10"] for r in runs}
    rows = []
    for model in MODELS:
        for change in {
            _word(r["change"]): r["change"] for r in runs if r["model"] == model
        }.values():
            if change:
                base = _base(model, change)
                cells = [_gain(values, log, model, change, base) for log in logs]
                name = " ".join(filter(None, [model.partition("_")[0], _word(base)]))
                more = {key: value for key, value in change.items() if key not in base}
                rows.append([name, _word(more), *cells])
    lines = [["model", "change", *logs], ["---", "---"] + ["---:"] * len(logs), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _base(model: str, change: Mapping[str, Any]) -> dict[str, Any]:
    """What a lever is added to: the wider rows, where it comes with them."""
    wide = {"dim": 128, "hidden": 128}
    return wide if model == "sasrec_levers" and wide.items() <= change.items() else {}


def _gain(
    values: Mapping[Any, float], log: str, model: str, change: Mapping[str, Any], base: Any
) -> str:
    own = values.get((log, model, _word(change)))
    other = values.get((log, model.partition("_")[0], _word(base)))
    return f"{100 * (own / other - 1):+.1f}" if own and other else ""


def _word(change: Mapping[str, Any]) -> str:
    return ", ".join(f"{key} {value}" for key, value in sorted(change.items()))


def distance(run: Run, rule: Callable[[Run], float]) -> float:
    """NDCG@10 on the last part with the rule's gain, as a share of that with the best gain."""
    later = run["later"]
    return float(later[str(float(rule(run)))] / max(later.values()))


def chosen_without(runs: list[dict[str, Any]], file: str) -> str:
    """The rule that the other files choose; splits of one file are left out together."""
    others = [run for run in runs if _file(run) != file]
    return max(GAIN_RULES, key=lambda name: fmean(distance(r, GAIN_RULES[name]) for r in others))


def gain_rules_table(root: str | Path) -> str:
    """Every rule: the mean and the least share of the best, and how many files choose it."""
    runs = read_runs(root, "inner")
    files = sorted({_file(run) for run in runs})
    chosen = [chosen_without(runs, file) for file in files]
    lines = ["| gain | mean | least | chosen by the other logs |", "|---|---:|---:|---:|"]
    for name, rule in GAIN_RULES.items():
        shares = [distance(run, rule) for run in runs]
        ends = f"{100 * fmean(shares):.1f}% | {100 * min(shares):.1f}%"
        lines.append(f"| {name} | {ends} | {chosen.count(name)} of {len(files)} |")
    return "\n".join(lines)


def _file(run: Run) -> str:
    return str(run["dataset"]).partition(",")[0]
