"""Which finished candidates make a blend that is better than the best of them.

Members are picked greedily, with repetition. The gain is cross-validated: each half of the users
evaluates the blend that the other half picks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from leporid.data import Split
from leporid.evaluation import (
    Comparison,
    TopK,
    combine,
    compare,
    evaluate,
    ingredients,
    parse_metric,
)
from leporid.selection.budget import Guard
from leporid.selection.candidates import Result

_DAMPING = 60.0
_MAX_PICKS = 5
_MAX_USERS = 5_000
MAX_MEMBERS = 6


@dataclass(frozen=True)
class BlendChoice:
    """Members with their weights, and the blend compared with its best member."""

    members: tuple[Result, ...]
    weights: tuple[int, ...]
    value: float
    comparison: Comparison

    def to_dict(self) -> dict[str, Any]:
        """Plain values, the members by their keys."""
        about = {"weights": self.weights, "value": self.value}
        members = [member.candidate.key for member in self.members]
        return {"members": members, **about, "comparison": self.comparison.to_dict()}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any], finished: Mapping[str, Result]) -> BlendChoice:
        """The inverse of `to_dict`, with the finished results by key."""
        members = tuple(finished[key] for key in values["members"])
        weights = tuple(int(weight) for weight in values["weights"])
        found = Comparison.from_dict(values["comparison"])
        return cls(members, weights, float(values["value"]), found)

    @property
    def entries(self) -> list[dict[str, Any]]:
        """The members as the model `blend` takes them."""
        pairs = zip(self.members, self.weights, strict=True)
        return [{**m.candidate.entry, "weight": float(weight)} for m, weight in pairs]

    @property
    def label(self) -> str:
        """For users."""
        return "blend of " + ", ".join(member.candidate.label for member in self.members)


def choose_blend(
    finalists: Sequence[Result],
    lists: Sequence[NDArray[np.int32]],
    part: Split,
    metric: str,
    guard: Guard | None = None,
) -> BlendChoice | None:
    """The greedy blend of the finalists (best first); None where no second member helps.

    `lists` are those of the users with test items in `part`, in their order. `guard` ends the
    search at its deadline.
    """
    users = np.unique(part.test.user)
    some = slice(None, None, -(-len(users) // _MAX_USERS))
    part = replace(part, test=part.test.select(np.isin(part.test.user, users[some])))
    lists = [top[some] for top in lists]
    even = np.arange(len(lists[0])) % 2 == 0
    known: dict[tuple[int, ...], NDArray[np.float64]] = {}

    def columns(picked: Sequence[int]) -> NDArray[np.float64]:
        key = tuple(sorted(picked))
        if key not in known:
            if guard is not None:
                guard.advance()
            known[key] = _evaluated(fuse([lists[member] for member in key]), part, metric)
        return known[key]

    picked = _pick(columns, len(lists), slice(None))
    if len(set(picked)) < 2 or len(even) < 2:
        return None
    single, crosswise = columns([0]), np.empty_like(columns([0]))
    for half in (even, ~even):
        crosswise[~half] = columns(_pick(columns, len(lists), half))[~half]
    counts = Counter(picked)
    return BlendChoice(
        members=tuple(finalists[member] for member in counts),
        weights=tuple(counts.values()),
        value=_value(columns(picked)),
        comparison=compare(crosswise, single, metric, name_a="the blend", name_b="its best member"),
    )


def _pick(
    columns: Callable[[Sequence[int]], NDArray[np.float64]], finalists: int, users: Any
) -> list[int]:
    """Members one by one, with repetition, as long as these users gain."""
    picked = [0]
    best = _value(columns(picked)[users])
    while len(picked) < _MAX_PICKS:
        trials = [(_value(columns([*picked, i])[users]), -i) for i in range(finalists)]
        value, member = max(trials)
        if value <= best:
            break
        best, picked = value, [*picked, -member]
    return picked


def fuse(lists: Sequence[NDArray[np.int32]]) -> NDArray[np.int32]:
    """int32[m, k]: the items of several lists of k by the sum of 1 / (damping + rank)."""
    k = lists[0].shape[1]
    weight = 1 / (_DAMPING + np.arange(k))
    items = np.hstack(lists)
    votes = np.where(items < 0, -np.inf, np.tile(weight, len(lists))[None, :])
    order = np.argsort(items, axis=1, kind="stable")
    items, votes = (np.take_along_axis(a, order, axis=1) for a in (items, votes))
    total = votes.copy()
    for shift in range(1, len(lists)):
        same = items[:, :-shift] == items[:, shift:]
        total[:, :-shift] += np.where(same, votes[:, shift:], 0)
    total[:, 1:][items[:, 1:] == items[:, :-1]] = -np.inf  # counted once
    best = np.argsort(-total, axis=1, kind="stable")[:, :k]
    fused = np.take_along_axis(items, best, axis=1)
    return np.where(np.isinf(np.take_along_axis(total, best, axis=1)), -1, fused).astype(np.int32)


def _evaluated(lists: NDArray[np.int32], part: Split, metric: str) -> NDArray[np.float64]:
    """float64[m, c]: what the metric is made of, per user."""
    cut = parse_metric(metric)[1]
    top = np.full((part.n_users, cut), -1, np.int32)
    top[np.unique(part.test.user)] = lists[:, :cut]
    table = evaluate(TopK(top, np.zeros(top.shape, np.float32)), part, at=(cut,))
    return np.column_stack([table.per_user(name) for name in ingredients(metric)])


def _value(columns: NDArray[np.float64]) -> float:
    return float(combine(list(columns.mean(axis=0))))
