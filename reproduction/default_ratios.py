"""Defaults of the classical models beside the best settings tried, and without the log itself.

All from benchmarks/records/classical_defaults.json, NDCG@10 on validation. The best is that of all
settings and windows tried on a split, and of the default itself. Leave-one-log-out: the other logs
choose a setting of each model, and its ratio on the log that was left out stands beside the
default's.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

ENOUGH = 40
"""Settings times windows that count as a tuned value."""
ASKED = 0.9


@dataclass(frozen=True)
class Ratio:
    """The default of a model on one split."""

    model: str
    log: str
    default: float
    best: float
    tried: int
    """Settings times windows beside the default."""

    @property
    def ratio(self) -> float:
        """Of the default to the best; 1 at most."""
        return self.default / self.best


@dataclass(frozen=True)
class Unseen:
    """What the other logs choose for a model on a split of a log that they do not know."""

    model: str
    log: str
    settings: Mapping[str, Any]
    candidates: int
    ratio: float
    default: float
    """The ratio of the default as it comes on the same split."""


def default_ratios(record: Mapping[str, Any]) -> list[Ratio]:
    """One row per model and split of the record."""
    tried = _trials(record)
    rows = []
    for row in record["rows"]:
        values = [v for own in tried[row["model"], row["log"]].values() for v in own.values()]
        best = max([row["valid"], *values])
        rows.append(Ratio(row["model"], row["log"], row["valid"], best, len(values)))
    return rows


def without_the_log(record: Mapping[str, Any]) -> list[Unseen]:
    """For each model and split, the setting with the best mean ratio on the other logs.

    Settings have the window that the default found on a split inside its training part. Those tried
    on all splits can be chosen; splits of one file are one log.
    """
    tried = _trials(record)
    window = {(row["model"], row["log"]): str(row["window"]) for row in record["rows"]}
    defaults = default_ratios(record)
    ratios = {
        (r.model, r.log): {
            settings: values[window[r.model, r.log]] / r.best
            for settings, values in tried[r.model, r.log].items()
        }
        for r in defaults
    }
    found = []
    for row in defaults:
        own = {log: values for (model, log), values in ratios.items() if model == row.model}
        others = [values for log, values in own.items() if _file(log) != _file(row.log)]
        able = sorted(set.intersection(*(set(values) for values in own.values())))
        if len(able) > 1:
            # Rounded, so that ties are ties on every machine.
            means = {s: round(float(np.mean([values[s] for values in others])), 9) for s in able}
            best = max(able, key=lambda settings: means[settings])
            about = row.model, row.log, json.loads(best), len(able)
            found.append(Unseen(*about, own[row.log][best], row.ratio))
    return found


def _trials(record: Mapping[str, Any]) -> dict[tuple[str, str], dict[str, dict[str, float]]]:
    """By model and split, the values of each setting by window; a repeated trial counts once."""
    found: dict[tuple[str, str], dict[str, dict[str, float]]] = {
        (row["model"], row["log"]): {} for row in record["rows"]
    }
    for trial in record["trials"]:
        settings = json.dumps(trial["settings"], sort_keys=True)
        found[trial["model"], trial["log"]][settings] = trial["valid"]
    return found


def _file(log: str) -> str:
    """'lastfm, no order' is another split of 'lastfm'."""
    return log.partition(",")[0]
