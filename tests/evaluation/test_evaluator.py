"""`evaluate` against a loop over users, and everything it accepts or refuses."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from leporid.data import IdMap, Split
from leporid.errors import ConfigError, DataError, UnknownNameError
from leporid.evaluation import evaluate, scorers
from leporid.evaluation import evaluator as evaluate_module
from leporid.models.fitting import Fitting
from leporid.ranking import TopK, masked_top_k, masked_top_k_torch
from tests.evaluation.helpers import make_split, random_split


def by_loop(scores: Any, split: Split, part: str, n: int) -> dict[str, float]:
    """HR, F1 and NDCG user by user, from sets."""
    hr, precision, recall, ndcg = [], [], [], []
    for u in range(split.n_users):
        test = set(split.part(part).sequences().of(u).tolist())
        known = set(split.train.sequences().of(u).tolist())
        if part == "test":
            known |= set(split.valid.sequences().of(u).tolist())
        if not test:
            continue
        candidates = [i for i in range(split.n_items) if i not in known]
        ranked = sorted(candidates, key=lambda i: (-scores[u, i], i))[:n]
        hits = [i in test for i in ranked]
        hr.append(any(hits))
        precision.append(sum(hits) / n)
        recall.append(sum(hits) / len(test))
        gain = sum(h / np.log2(r + 2) for r, h in enumerate(hits))
        ndcg.append(gain / sum(1 / np.log2(r + 2) for r in range(min(n, len(test)))))
    p, r = np.mean(precision), np.mean(recall)
    f1 = 2 * p * r / (p + r) if p + r else 0.0
    return {"HR": np.mean(hr), "F1": f1, "NDCG": np.mean(ndcg), "users": len(hr)}


def tied_scores(seed: int, split: Split) -> Any:
    rng = np.random.default_rng(seed)
    return rng.integers(0, 6, size=(split.n_users, split.n_items)).astype(np.float32)


@settings(max_examples=25, deadline=None)
@given(
    st.integers(0, 10_000), st.sampled_from(["valid", "test"]), st.sampled_from([1, 7, 40, None])
)
def test_equals_a_loop_whatever_the_batch(seed: int, part: Any, batch_size: int | None) -> None:
    split = random_split(seed)
    scores = tied_scores(seed, split)
    table = evaluate(scores, split, at=(2, 6), part=part, batch_size=batch_size)
    for n in (2, 6):
        expected = by_loop(scores, split, part, n)
        for family in ("HR", "F1", "NDCG"):
            assert table.mean()[f"{family}@{n}"] == pytest.approx(expected[family])
        assert len(table) == expected["users"]
        assert table.skipped == split.n_users - expected["users"]


def test_worked_example() -> None:
    # u0 knows 0 and 1 (validation), finds 2 at rank 1; u1 has nothing to find; u2 misses 3.
    split = make_split([[0], [1], [2]], [[1], [], []], [[2], [], [3]], n_items=4)
    scores = np.array([[9, 8, 3, 2], [1, 1, 1, 1], [3, 2, 9, 1]], dtype=np.float32)
    table = evaluate(scores, split, at=(2, 1))
    assert table.top.tolist() == [[2, 3], [0, 1]]
    assert table.at == (1, 2)
    assert table.skipped == 1
    assert table.users.externals(table.user).tolist() == ["u0", "u2"]
    means = table.mean()
    assert means["HR@1"] == 0.5
    assert means["Precision@2"] == 0.25
    assert means["F1@2"] == pytest.approx(2 * 0.25 * 0.5 / 0.75)


class Remembering:
    """A model that keeps what it was asked."""

    def __init__(self, scores: Any) -> None:
        self.scores, self.asked, self.histories = scores, [], []

    def score(self, users: Any, history: Any = None) -> Any:
        self.asked.append(users.tolist())
        self.histories.append(history)
        return self.scores[users]


class OnDevice(Remembering):
    def score_tensor(self, users: Any, history: Any = None) -> torch.Tensor:
        return torch.from_numpy(self.score(users, history)).requires_grad_()


def test_all_kinds_of_models_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    split = random_split(3)
    scores = tied_scores(3, split)
    expected = evaluate(scores, split)
    lists = masked_top_k(scores, 10, seen=split.train_valid.sequences())
    kinds = [Remembering(scores), OnDevice(scores), lists, lambda users, history: scores[users]]
    for kind in kinds:
        np.testing.assert_array_equal(evaluate(kind, split).top, expected.top)
    # As if the tensor were on a CUDA device: ranked without leaving it.
    monkeypatch.setattr(scorers, "on_cuda_or_numpy", lambda tensor: tensor)
    used = []

    def ranked(*args: Any, **kwargs: Any) -> TopK:
        used.append(True)
        return masked_top_k_torch(*args, **kwargs)

    monkeypatch.setattr(evaluate_module, "masked_top_k_torch", ranked)
    np.testing.assert_array_equal(evaluate(OnDevice(scores), split).top, expected.top)
    assert used


def test_models_are_asked_in_chunks_with_what_is_known() -> None:
    split = random_split(4)
    model = Remembering(tied_scores(4, split))
    evaluate(model, split, part="valid", batch_size=7)
    assert max(len(users) for users in model.asked) == 7
    assert sorted(u for users in model.asked for u in users) == sorted(set(split.valid.user))
    for history in model.histories:
        np.testing.assert_array_equal(history.items, split.train.item)
    model = Remembering(tied_scores(4, split))
    evaluate(model, split)
    np.testing.assert_array_equal(model.histories[0].items, split.train_valid.item)


def test_progress_reports_every_user() -> None:
    split = random_split(5)

    class Steps:
        total, done, closed = 0, 0, False

        def start(self, description: str, total: int | None = None) -> None:
            self.total = total or 0

        def advance(self, steps: int = 1, **fields: Any) -> None:
            self.done += steps

        def say(self, line: str) -> None:
            pass

        def close(self) -> None:
            self.closed = True

    steps = Steps()
    table = evaluate(tied_scores(5, split), split, batch_size=3, progress=steps)
    assert steps.total == steps.done == len(table)
    assert steps.closed


def test_chosen_metrics_only() -> None:
    split = random_split(6)
    table = evaluate(tied_scores(6, split), split, at=(5,), metrics=["F1", "HR"])
    assert list(table.mean()) == ["HR@5", "F1@5"]
    assert set(table.intervals()) == {"HR@5", "F1@5"}
    with pytest.raises(UnknownNameError, match="'NDCG'"):
        evaluate(tied_scores(6, split), split, metrics=["ndgc"])


def test_refuses() -> None:
    split = random_split(7)
    scores = tied_scores(7, split)
    for at in [(0,), (-1, 5), (2.5,), (True,), ()]:
        with pytest.raises(ConfigError, match="at must list"):
            evaluate(scores, split, at=at)
    with pytest.raises(UnknownNameError, match="'test'"):
        evaluate(scores, split, part="tset")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="batch_size"):
        evaluate(scores, split, batch_size=0)
    with pytest.raises(DataError, match="the scores have shape"):
        evaluate(scores[:, 1:], split)
    with pytest.raises(DataError, match="gave scores of shape"):
        evaluate(lambda users, history: scores[users, 1:], split)
    with pytest.raises(ConfigError, match="cannot evaluate a str"):
        evaluate("toppop", split)
    with pytest.raises(DataError, match="3 lists for the 40"):
        evaluate(TopK(np.zeros((3, 10), np.int32), np.zeros((3, 10), np.float32)), split)
    with pytest.raises(ConfigError, match="have 2 items"):
        evaluate(TopK(np.zeros((40, 2), np.int32), np.zeros((40, 2), np.float32)), split)
    with pytest.raises(DataError, match="beyond"):
        evaluate(TopK(np.full((40, 10), 33, np.int32), np.zeros((40, 10), np.float32)), split)
    empty = Split(split.train, split.valid, split.test.select(np.empty(0, np.int64)), "x")
    with pytest.raises(DataError, match="test part of the split is empty"):
        evaluate(scores, empty)


def test_a_model_of_other_data_is_refused() -> None:
    split = random_split(8)
    model = Remembering(tied_scores(8, split))
    model.users, model.items = split.users, split.items  # type: ignore[attr-defined]
    evaluate(model, split)
    model.items = IdMap.range(split.n_items, "item")  # type: ignore[attr-defined]
    with pytest.raises(DataError, match="fitted on other items"):
        evaluate(model, split)


def test_nan_names_the_user() -> None:
    split = make_split([[0], [1], [2]], [[], [], []], [[1], [], [0]], n_items=3)
    scores = np.zeros((3, 3), dtype=np.float32)
    scores[2, 0] = np.nan
    with pytest.raises(DataError, match="'u2'"):
        evaluate(scores, split, batch_size=1)


class Fitted:
    """A model that is no `Recommender`, and says what it was fitted on as one does."""

    def __init__(self, split: Split, *, final: bool, include_seen: bool = False) -> None:
        self.users, self.items = split.users, split.items
        self.train = split.test if final else split.train
        self.fitting = Fitting(final=final, include_seen=include_seen)

    def score(self, users: Any, history: Any = None) -> Any:
        return np.zeros((len(users), len(self.items)), np.float32)


def test_any_model_that_tells_how_it_was_fitted_is_asked() -> None:
    split = random_split(6)
    assert not evaluate(Fitted(split, final=False), split).include_seen
    assert evaluate(Fitted(split, final=False, include_seen=True), split).include_seen
    with pytest.raises(DataError, match="this is a final model"):
        evaluate(Fitted(split, final=True), split)
    with pytest.raises(DataError, match="fitted on other users"):
        evaluate(Fitted(split, final=False), make_split([[0], [1]], [[], []], [[1], [0]], 2))
