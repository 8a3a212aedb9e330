"""What a report of a search says first."""

from __future__ import annotations

import numpy as np
import pytest

import leporid
from leporid.data import synthesize
from leporid.evaluation import compare
from leporid.runs import examples_html
from leporid.selection import summary


def baseline(shift: float) -> summary.TestedModel:
    """A baseline that the chosen model beats by about `shift`."""
    noise = np.random.default_rng(0).normal(0, 0.01, 200)
    values = {"NDCG@10": np.full(200, 0.3)}
    gap = compare({"NDCG@10": values["NDCG@10"] + shift + noise}, values, "NDCG@10")
    return summary.TestedModel("baseline", {}, gap)


@pytest.mark.parametrize(
    ("shifts", "tone"),
    [((), ""), ((0.1, 0.2), "good"), ((0.1, 0.0), ""), ((0.1, -0.1), "bad")],
)
def test_a_headline_is_good_news_if_every_baseline_is_beaten(
    shifts: tuple[float, ...], tone: str
) -> None:
    chosen = summary.TestedModel("chosen", {}, None)
    assert summary.tone_of_test([chosen, *map(baseline, shifts)]) == tone


def test_only_times_make_items_the_last() -> None:
    log = synthesize(20, 15, 150, seed=1)
    split_words = (
        (leporid.temporal_split(log), "had last:"),
        (leporid.random_split(log), "has, among others:"),
    )
    for split, words in split_words:
        model = leporid.train("toppop", split, progress=False)
        assert words in examples_html(model, None)
