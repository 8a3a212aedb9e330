"""Published figures of transition counts, with the constants of the paper's program.

`python -m benchmarks.transition_published --data FOLDER` fits `transitions`, the Markov chain and
sequential rules of Petrov et al. (RecSys 2026) with the constants published with the paper, for
each data set, on everything but the last item of each user, and tests them once. Nothing is chosen
here.
"""

from __future__ import annotations

import argparse
import dataclasses
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import leporid
from benchmarks.harness import write_record
from leporid.data import Sequences, Split
from leporid.foundation import SettingValue
from leporid.models.closed_form.transitions import transition_counts
from leporid.ranking import masked_top_k

LOGS = {"beauty": 1, "toys": 1, "ml-1m": 5}
"""The core filter of each data set."""
TAIL: dict[str, SettingValue] = {"recent": 7, "recency_decay": 0.6, "older_share": 0.2}
CONSTANTS: dict[str, dict[str, SettingValue]] = {
    "beauty": {
        "distance": 10,
        "exponent": 0.5,
        "tau": 11_250.0,
        "recent": None,
        "recency_decay": 0.6,
        "popularity": -0.04,
        "window": 50,
    },
    "toys": {
        "distance": 20,
        "distance_weights": "geometric",
        "distance_decay": 0.7,
        "tau": 15_000.0,
        "popularity": 0.0,
        "window": 50,
        **TAIL,
    },
    "ml-1m": {
        "distance": 20,
        "exponent": 1.0,
        "tau": 150.0,
        "popularity": -0.4,
        "window": 200,
        **TAIL,
    },
}
"""The published constants of the smoothed counts."""
CHAIN: dict[str, SettingValue] = {
    "distance": 1,
    "recent": 1,
    "older_share": 0.0,
    "popularity": 0.0,
}
"""Settings that make `transitions` the first-order Markov chain."""


@dataclasses.dataclass(frozen=True)
class Rules:
    """Published constants of sequential rules: counts alone, without a logarithm."""

    distance: int
    distance_power: float | None
    """Power by which the weight of a distance falls; None for 1 / log10(distance + 1.7)."""
    history: int
    """Newest events that are read."""
    history_power: float
    kept: int | None
    """Rules kept for each item; None for all."""
    weigh_rare_items: bool
    """Whether the rules of an item are multiplied by its inverse frequency, scaled to 0 to 1."""


RULES = {
    "beauty": Rules(10, None, 10, 2.0, 100, weigh_rare_items=False),
    "toys": Rules(30, None, 10, 1.0, None, weigh_rare_items=False),
    "ml-1m": Rules(10, 1.0, 10, 2.0, 200, weigh_rare_items=True),
}
PUBLISHED = {
    ("transitions", "beauty"): (0.0998, 0.0635),
    ("transitions", "toys"): (0.1130, 0.0738),
    ("transitions", "ml-1m"): (0.3057, 0.1815),
    ("sequential rules", "beauty"): (0.0956, 0.0605),
    ("sequential rules", "toys"): (0.1142, 0.0730),
    ("sequential rules", "ml-1m"): (0.2575, 0.1505),
    ("Markov chain", "beauty"): (None, 0.0492),
    ("Markov chain", "toys"): (None, 0.0548),
    ("Markov chain", "ml-1m"): (None, 0.1240),
}
"""Published HR@10 (where it is known) and NDCG@10."""


def whole_split(data: Path, log: str) -> Split:
    """Training part: all but the last item of each user, which is the test part."""
    interactions = leporid.load(data / f"{log}.parquet").core(LOGS[log])
    split = leporid.leave_last_out(interactions)
    nothing = split.valid.select(np.arange(0))
    return dataclasses.replace(split, train=split.train_valid, valid=nothing)


def figures(
    split: Split, settings: dict[str, SettingValue], tie_seed: int | None = None
) -> tuple[float, float]:
    """HR@10 and NDCG@10 of `transitions`; with a seed, equal scores are in random order."""
    model = leporid.train("transitions", split, progress=False, **settings)
    order = np.zeros(split.n_items, np.float32)
    if tie_seed is not None:
        order = np.random.default_rng(tie_seed).random(split.n_items, np.float32)

    def score(users: NDArray[np.int32], known: Sequences) -> NDArray[np.float64]:
        return model.score(users, known) + 1e-5 * order

    found = leporid.evaluate(score, split, at=(10,), metrics=("HR", "NDCG")).mean()
    return found["HR@10"], found["NDCG@10"]


def figures_of_rules(split: Split, rules: Rules) -> tuple[float, float]:
    """HR@10 and NDCG@10 of sequential rules, from the counts of `transitions`."""
    histories = split.train.sequences()
    distances = np.arange(1, rules.distance + 1, dtype=np.float64)
    if rules.distance_power is None:
        weights = 1 / np.log10(distances + 1.7)
    else:
        weights = distances**-rules.distance_power
    counts = transition_counts(histories, split.n_items, weights)
    matrix = counts.toarray()
    if rules.weigh_rare_items:
        rarity = np.log(split.n_users / np.maximum(split.train.popularity, 1))
        matrix *= ((rarity - rarity.min()) / np.ptp(rarity))[:, None]
    if rules.kept is not None:
        keep_largest(matrix, rules.kept)
    users = np.unique(split.test.user)
    target = split.test.sequences()
    hits = gains = 0.0
    for first in range(0, len(users), 500):
        rows = users[first : first + 500]
        top = masked_top_k(
            rule_scores(histories.take(rows), matrix, rules), 10, seen=histories.take(rows)
        )
        held_out = np.array([target.of(user)[0] for user in rows])
        found = top.items == held_out[:, None]
        hits += found.sum()
        gains += (found / np.log2(np.arange(2, 12))).sum()
    return float(hits / len(users)), float(gains / len(users))


def keep_largest(matrix: NDArray[np.float64], kept: int) -> None:
    """Set all but the `kept` largest entries of each row to zero, in place."""
    order = np.argsort(-matrix, axis=1, kind="stable")
    np.put_along_axis(matrix, order[:, kept:], 0.0, axis=1)


def rule_scores(
    histories: Sequences, matrix: NDArray[np.float64], rules: Rules
) -> NDArray[np.float32]:
    """float32[users, n_items]: the rules of the newest events, weighted by their age."""
    scores = np.zeros((len(histories), len(matrix)), np.float32)
    for row in range(len(histories)):
        newest = histories.of(row)[-rules.history :][::-1]
        weights = np.arange(1, len(newest) + 1, dtype=np.float64) ** -rules.history_power
        scores[row] = weights @ matrix[newest]
    return scores


def result(model: str, log: str, found: tuple[float, float]) -> dict[str, float | str | None]:
    """One row of the record."""
    published_hits, published_gain = PUBLISHED[model, log]
    return {
        "model": model,
        "data set": log,
        "HR@10": round(found[0], 4),
        "published HR@10": published_hits,
        "NDCG@10": round(found[1], 4),
        "published NDCG@10": published_gain,
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    folder = parser.parse_args().data
    rows = []
    for log in LOGS:
        split = whole_split(folder, log)
        rows.append(result("transitions", log, figures(split, CONSTANTS[log])))
        shuffled = figures(split, CONSTANTS[log], tie_seed=0)
        row = result("transitions", log, shuffled)
        rows.append(row | {"model": "transitions, equal scores in random order"})
        rows.append(result("sequential rules", log, figures_of_rules(split, RULES[log])))
        rows.append(result("Markov chain", log, figures(split, CHAIN)))
        default = figures(split, {})
        rows.append(result("transitions", log, default) | {"model": "transitions, our defaults"})
    write_record(
        "transition_published",
        rows,
        {"constants": CONSTANTS},
        [
            "Fitted on all but the last item of each user, which is the test; all items ranked.",
            "The constants were published with the paper, and chosen there on validation items.",
            "Equal scores go to the smaller item index here unless a row says otherwise, and to "
            "the smaller hash of the item's id there.",
        ],
    )
