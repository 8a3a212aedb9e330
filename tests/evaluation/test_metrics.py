"""Every metric: by hand, and against implementations from outside."""

from __future__ import annotations

import json
import math
import subprocess
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import ndcg_score

from benchmarks.peers import environment
from leporid.errors import UnknownNameError
from leporid.evaluation import metrics

# Three users, lists of four: hits at ranks 2 and 3; at rank 4; none.
HITS = np.array([[0, 1, 1, 0], [0, 0, 0, 1], [0, 0, 0, 0]], dtype=np.bool_)
RELEVANT = np.array([2, 1, 5], dtype=np.int32)
LOG = math.log2


@pytest.mark.parametrize(
    ("family", "n", "expected"),
    [
        ("HR", 1, [0, 0, 0]),
        ("HR", 3, [1, 0, 0]),
        ("HR", 4, [1, 1, 0]),
        ("Precision", 3, [2 / 3, 0, 0]),
        ("Precision", 4, [2 / 4, 1 / 4, 0]),
        ("Recall", 2, [1 / 2, 0, 0]),
        ("Recall", 4, [2 / 2, 1 / 1, 0]),
        ("UserF1", 4, [2 * 0.5 * 1 / 1.5, 2 * 0.25 * 1 / 1.25, 0]),
        ("NDCG", 2, [(1 / LOG(3)) / (1 + 1 / LOG(3)), 0, 0]),
        ("NDCG", 4, [(1 / LOG(3) + 1 / LOG(4)) / (1 + 1 / LOG(3)), 1 / LOG(5), 0]),
        ("MRR", 1, [0, 0, 0]),
        ("MRR", 4, [1 / 2, 1 / 4, 0]),
        ("MAP", 2, [(1 / 2) / 2, 0, 0]),
        ("MAP", 4, [(1 / 2 + 2 / 3) / 2, (1 / 4) / 1, 0]),
    ],
)
def test_per_user_by_hand(family: str, n: int, expected: list[float]) -> None:
    np.testing.assert_allclose(metrics.PER_USER[family](HITS, RELEVANT, n), expected, atol=1e-15)


def test_map_is_normalised_by_the_shorter_of_list_and_test_set() -> None:
    hits = np.array([[1, 1]], dtype=np.bool_)
    assert metrics.average_precision(hits, np.array([5]), 2).tolist() == [1.0]
    assert metrics.average_precision(hits, np.array([2]), 2).tolist() == [1.0]


def test_f1_of_means_is_not_the_mean_of_f1() -> None:
    p, r = metrics.precision(HITS, RELEVANT, 4), metrics.recall(HITS, RELEVANT, 4)
    mean_p, mean_r = (0.5 + 0.25) / 3, (1 + 1) / 3
    expected = 2 * mean_p * mean_r / (mean_p + mean_r)
    assert metrics.f1(p.mean(), r.mean()) == pytest.approx(expected)
    assert metrics.user_f1(HITS, RELEVANT, 4).mean() != pytest.approx(expected, abs=1e-3)
    assert metrics.f1(0.0, 0.0) == 0.0


def test_lists_by_hand() -> None:
    top = np.array([[0, 1], [0, 2], [3, -1], [-1, -1]], dtype=np.int32)
    popularity = np.array([10, 4, 1, 0, 99], dtype=np.int32)
    assert metrics.item_coverage(top, 5, 1) == 2 / 5
    assert metrics.item_coverage(top, 5, 2) == 4 / 5
    assert metrics.average_popularity(top, popularity, 2).tolist() == [7.0, 5.5, 0.0, 0.0]
    # Counts 2, 1, 1, 1, 0; ascending 0 1 1 1 2 with weights -4 -2 0 2 4: (-2 + 0 + 2 + 8) / 25.
    assert metrics.gini(top, 5, 2) == pytest.approx(8 / 25)
    assert metrics.gini(np.array([[0], [1]]), 2, 1) == 0.0
    assert metrics.gini(np.full((3, 1), -1), 2, 1) == 0.0


def random_hits(seed: int, m: int, k: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    hits = rng.random((m, k)) < rng.random((m, 1))
    relevant = np.maximum(hits.sum(axis=1), 1) + rng.integers(0, 2 * k, size=m)
    return hits, relevant


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 12))
def test_ndcg_equals_scikit_learn(seed: int, n: int) -> None:
    hits, relevant = random_hits(seed, m=6, k=12)
    found = metrics.ndcg(hits, relevant, n)
    for row in range(len(hits)):
        missed = int(relevant[row] - hits[row].sum())
        truth = np.concatenate([hits[row], np.ones(missed), np.zeros(3)])
        score = -np.arange(len(truth), dtype=float)
        assert found[row] == pytest.approx(ndcg_score([truth], [score], k=n))


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 8))
def test_equals_loops_over_ranks(seed: int, n: int) -> None:
    hits, relevant = random_hits(seed, m=7, k=8)
    for row in range(len(hits)):
        one, t = hits[row : row + 1], relevant[row : row + 1]
        ranks = [r for r in range(1, n + 1) if hits[row, r - 1]]
        precisions = [sum(q <= r for q in ranks) / r for r in ranks]
        expected = {
            "HR": float(bool(ranks)),
            "Precision": len(ranks) / n,
            "Recall": len(ranks) / t[0],
            "MRR": 1 / ranks[0] if ranks else 0.0,
            "MAP": sum(precisions) / min(n, t[0]),
            "NDCG": sum(1 / LOG(r + 1) for r in ranks)
            / sum(1 / LOG(r + 1) for r in range(1, min(n, t[0]) + 1)),
        }
        p, r = expected["Precision"], expected["Recall"]
        expected["UserF1"] = 2 * p * r / (p + r) if ranks else 0.0
        for family, value in expected.items():
            assert metrics.PER_USER[family](one, t, n)[0] == pytest.approx(value), family


def test_names_are_read_once_for_all() -> None:
    assert metrics.parse_metric("NDCG@10") == ("NDCG", 10)
    for name in ("F1", "F1@", "F1@0", "F1@x", "f1@10"):
        with pytest.raises(UnknownNameError, match="'F1@10'"):
            metrics.parse_metric(name)
    with pytest.raises(UnknownNameError, match="'HR@7'"):
        metrics.parse_metric("HRR@7", ["HR@7"])


RECBOLE_SCRIPT = """
import json, sys
import numpy as np
import torch
np.float = np.float64
from recbole.evaluator.collector import DataStruct
from recbole.evaluator.register import metrics_dict
folder = sys.argv[1]
hits, relevant, top, popularity = (
    np.load(f"{folder}/{name}.npy") for name in ("hits", "relevant", "top", "popularity")
)
config = {"topk": [1, 3, 8], "metric_decimal_place": 12}
data = DataStruct()
table = np.concatenate([hits.astype(np.int64), relevant[:, None]], axis=1)
data.set("rec.topk", torch.from_numpy(table))
data.set("rec.items", torch.from_numpy(top))
data.set("data.num_items", len(popularity) + 1)  # RecBole counts a padding item
data.set("data.count_items", {i: int(c) for i, c in enumerate(popularity)})
names = "hit precision recall ndcg mrr map itemcoverage averagepopularity giniindex".split()
answer = {}
for name in names:
    answer.update(metrics_dict[name](config).calculate_metric(data))
print(json.dumps({key: float(value) for key, value in answer.items()}))
"""


@pytest.mark.slow
@pytest.mark.skipif(
    not environment.installed("recbole"), reason="RecBole's environment is not built"
)
def test_equals_recbole(tmp_path: Path) -> None:
    hits, relevant = random_hits(5, m=50, k=8)
    rng = np.random.default_rng(6)
    top = np.argsort(rng.random((50, 30)), axis=1)[:, :8].astype(np.int32)
    popularity = rng.integers(1, 100, size=30)
    for name, array in [("hits", hits), ("relevant", relevant), ("popularity", popularity)]:
        np.save(tmp_path / f"{name}.npy", array)
    np.save(tmp_path / "top.npy", top.astype(np.int64))
    script = tmp_path / "theirs.py"
    script.write_text(RECBOLE_SCRIPT)
    output = subprocess.run(
        [str(environment.python_of("recbole")), str(script), str(tmp_path)],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    ).stdout
    theirs = json.loads(output.splitlines()[-1])
    for n in (1, 3, 8):
        for family, peer in [
            *[("HR", "hit"), ("Precision", "precision"), ("Recall", "recall")],
            *[("NDCG", "ndcg"), ("MRR", "mrr"), ("MAP", "map")],
        ]:
            ours = metrics.PER_USER[family](hits, relevant, n).mean()
            assert ours == pytest.approx(theirs[f"{peer}@{n}"], abs=1e-10), f"{family}@{n}"
        ours = metrics.average_popularity(top, popularity, n).mean()
        assert ours == pytest.approx(theirs[f"averagepopularity@{n}"])
        assert metrics.item_coverage(top, 31, n) == pytest.approx(theirs[f"itemcoverage@{n}"])
        assert metrics.gini(top, 31, n) == pytest.approx(theirs[f"giniindex@{n}"])
