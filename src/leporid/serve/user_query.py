"""`UserQuery`: what one user of a request is recommended from, and the JSON of the result.

`ScoreQuery` asks for the scores of items that the request names, in place of a list.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from leporid.ranking import BoundRules, Indices, Unknown
from leporid.serve.loaded_run import LoadedRun, ShownItem, to_json
from leporid.serve.schemas import Fallback, RunName
from leporid.serve.store import Impression


def _no_items() -> Indices:
    return np.empty(0, np.int32)


@dataclass(eq=False)
class UserQuery:
    """A user to recommend to: an id, or a history of item indices."""

    run: LoadedRun
    n: int
    run_name: RunName = "main"
    requested_id: int | str | None = None
    """Id of the user as the request spells it."""
    user: str | None = None
    """Id of the user as the store spells it; None for a history."""
    history: Indices = field(default_factory=_no_items)
    unknown: tuple[int | str, ...] = ()
    """Items of the history that the model does not know."""
    other_runs: tuple[LoadedRun, ...] = ()
    """Runs whose items of the user are not recommended either."""
    excluded: Indices = field(default_factory=_no_items)
    candidates: Indices | None = None
    include_seen: bool = False
    rules: BoundRules | None = None
    explain: bool = False
    history_length: int = 0
    """Number of items in the history, without those that only the store knows."""
    user_index: int | None = None
    """Index of a user whom the model knows, once `look_up` has run."""
    n_events: int = 0
    """Number of new items from the store, once `look_up` has run."""
    impression: Impression | None = None
    """Impression of a user in a test of two runs; its items are set with the result."""
    stored: Indices = field(default_factory=_no_items)
    """Items that the store knows of the user."""
    on_unknown: Unknown = "error"
    """What to do if the model knows nothing of the user or of the history."""
    fallback: Fallback | None = None
    """What was done because the model knows nothing, once `look_up` has run."""

    @property
    def cost(self) -> int:
        """Work in units of roughly ten microseconds."""
        listed = len(self.excluded)
        if self.user is None:
            listed += len(self.history)
        if self.candidates is not None:
            listed += len(self.candidates)
        cost = 20 + self.n + listed // 20
        if self.explain:
            cost += 3 * self.n + self.history_length
        if self.rules is not None:
            cost += self.rules.work(self.n) // 4000
        return cost

    @property
    def folds_in(self) -> bool:
        """Whether the user is embedded from the history."""
        return self.user_index is None or self.n_events > 0

    def look_up(self, stored: Sequence[str]) -> None:
        """Set what the model and the store know of the user, and what to do if that is nothing."""
        if self.user is not None:
            self._find_user(stored)
        if self.user_index is None and len(self.history) == 0:
            self.fall_back()

    def fall_back(self) -> None:
        """Note what to do for somebody of whom the model knows nothing."""
        self.fallback = "popular" if self.on_unknown == "popular" else "skipped"

    def _find_user(self, stored: Sequence[str]) -> None:
        assert self.user is not None
        repeats = self.run.model.fitting.include_seen
        item_ids = stored if repeats else list(dict.fromkeys(stored))
        self.stored = self.run.known_items(item_ids)
        required = len(self.stored) == 0 and self.on_unknown == "error"
        _, self.user_index, known = self.run.find_user(self.user, required=required)
        new_items = self.stored[~np.isin(self.stored, known)]
        self.history = np.concatenate([known, new_items])
        self.n_events = len(new_items)
        for run in self.other_runs:
            _, index, items = run.find_user(self.user)
            if index is not None:
                items = run.model.known.excluded_items().of(index)
            ids = [run.ids[item] for item in items]
            self.excluded = np.concatenate([self.excluded, self.run.known_items(ids)])

    def excluded_items(self) -> Indices:
        """Return the indices of items that must not be recommended."""
        is_excluded = np.full(len(self.run.ids), self.candidates is not None)
        if self.candidates is not None:
            is_excluded[self.candidates] = False
        is_excluded[self.excluded] = True
        if not self.include_seen:
            is_excluded[self.history if self.user is None else self.stored] = True
        if self.user_index is not None:
            seen = self.run.model.known.excluded_items(self.include_seen).of(
                self.user_index
            )
            is_excluded[seen] = True
        return np.flatnonzero(is_excluded).astype(np.int32)

    def result(
        self,
        items: Indices,
        scores: NDArray[np.float32],
        folded_in: bool,
    ) -> bytes:
        """Return the JSON of a ranked list, int32[n] padded with -1; made off the event loop."""
        run = self.run
        best = items[items >= 0][: self.n]
        ranked: list[ShownItem] = [
            {**run.item(index), "score": score, "because": None}
            for index, score in zip(
                best.tolist(),
                scores[: len(best)].tolist(),
                strict=True,
            )
        ]
        if self.impression is not None:
            ids = tuple(str(item["id"]) for item in ranked)
            self.impression = self.impression._replace(items=ids)
        reason_kind: str | None = None
        if self.explain and self.fallback is None:
            reason_kind = run.model.reason_kind
            user = None if folded_in else self.user_index
            reasons = run.because(best, self.history, user)
            for item, because in zip(ranked, reasons, strict=True):
                item["because"] = because
        elif self.explain:
            for item in ranked:
                item["because"] = []
        return to_json(
            {
                **self._about_user(folded_in),
                "items": ranked,
                "reasons": reason_kind,
            }
        )

    def _about_user(self, folded_in: bool) -> dict[str, object]:
        """Return what a result says besides its items."""
        user_id = self.requested_id
        if self.user_index is not None:
            user_id = self.run.model.users.external(self.user_index)
        return {
            "user": user_id,
            "run": self.run_name,
            "folded_in": folded_in and self.fallback is None,
            "new_events": self.n_events,
            "unknown": self.unknown,
            "fallback": self.fallback,
        }


@dataclass(eq=False)
class ScoreQuery(UserQuery):
    """A user, or a history, with items to score."""

    items: Sequence[int | str] = ()
    """Ids of the items as the request spells them."""
    item_indices: Indices = field(default_factory=_no_items)
    """int32[len(items)]: their indices; -1 for an item that the model does not know."""
    ranked: bool = False
    """Whether the best items come first."""

    @property
    def cost(self) -> int:
        """Work in units of roughly ten microseconds."""
        return 20 + len(self.items) // 4 + len(self.history) // 20

    def scored(self, scores: NDArray[np.float32] | None, folded_in: bool) -> bytes:
        """Return the JSON of the scores of all items, float32[n_items]; None: there are none."""
        shown: list[tuple[int | str, float | None]] = []
        for item, index in zip(self.items, self.item_indices.tolist(), strict=True):
            has_score = scores is not None and index >= 0 and np.isfinite(scores[index])
            score = float(scores[index]) if scores is not None and has_score else None
            shown.append((item if index < 0 else self.run.ids[index], score))
        if self.ranked:
            order = sorted(
                range(len(shown)),
                key=lambda place: (
                    shown[place][1] is None,
                    -(shown[place][1] or 0.0),
                    self.item_indices[place],
                ),
            )
            shown = [shown[place] for place in order]
        items = [{"id": item, "score": score} for item, score in shown]
        return to_json({**self._about_user(folded_in), "items": items})
