"""What `evaluate` can take, and one function from user indices to scores of any of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol, TypeAlias, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from leporid.data import IdMap, Interactions, Part, Sequences, Split
from leporid.errors import ConfigError, DataError, article
from leporid.evaluation.recommendations import Recommendations
from leporid.foundation import described
from leporid.ranking import Indices, TopK

if TYPE_CHECKING:
    import torch

Scores: TypeAlias = NDArray[np.floating]
"""float[m, n_items]: higher is better."""


@runtime_checkable
class Scorer(Protocol):
    """A model that scores every item for some users."""

    def score(
        self,
        users: Indices,
        history: Sequences | None = None,
    ) -> Scores:
        """Return float32[m, n_items]; `history` is what is known of all users at that moment."""


@runtime_checkable
class TensorScorer(Protocol):
    """A model that scores every item for some users on its own device."""

    def score_tensor(
        self,
        users: Indices,
        history: Sequences | None = None,
    ) -> torch.Tensor:
        """Return float32[m, n_items] on the model's device."""


class FitSummary(Protocol):
    """What `evaluate` asks about a fit."""

    @property
    def include_seen(self) -> bool:
        """Whether lists show items that a user already has."""

    @property
    def final(self) -> bool:
        """Whether the model was fitted on everything, the test part included."""


@runtime_checkable
class KnowsIds(Protocol):
    """A model that keeps the ids of the users and items it was fitted on."""

    @property
    def users(self) -> IdMap: ...

    @property
    def items(self) -> IdMap: ...


@runtime_checkable
class FittedModel(KnowsIds, Protocol):
    """A model that says how and on what it was fitted, as every `Recommender` does."""

    @property
    def fitting(self) -> FitSummary: ...

    @property
    def train(self) -> Interactions: ...


ScoreFunction: TypeAlias = Callable[[Indices, Sequences], Scores]
Evaluable: TypeAlias = (
    Scorer | TensorScorer | ScoreFunction | Scores | TopK | Recommendations
)
"""What `evaluate` can take."""


def score_function(
    model: Evaluable,
    split: Split,
    part: Part,
) -> Callable[[Indices, Sequences], Scores | torch.Tensor]:
    """Return one function of user indices and histories to scores, whatever the model is.

    A model of other users or items than those of the split is refused.
    """
    if isinstance(model, type):
        raise ConfigError(
            f"cannot evaluate {described(model)}: make a model of it and fit that, "
            f"{model.__name__}().fit(split)"
        )
    if isinstance(model, np.ndarray):
        return _rows_of(model, split)
    _check_model(model, split, part)
    if isinstance(model, TensorScorer):
        return lambda users, known: on_cuda_or_numpy(
            model.score_tensor(users, history=known)
        )
    if isinstance(model, Scorer):
        return lambda users, known: np.asarray(model.score(users, history=known))
    if callable(model):
        return lambda users, known: np.asarray(model(users, known))
    raise ConfigError(
        f"cannot evaluate {article(type(model).__name__)}: give a model with "
        f"score(users, history), a function, an array of scores, a TopK or Recommendations"
    )


def _rows_of(
    scores: Scores,
    split: Split,
) -> ScoreFunction:
    """Return the function that looks users up in an array of scores."""
    if scores.shape != (split.n_users, split.n_items):
        raise DataError(
            f"the scores have shape {scores.shape}, the split has {split.n_users} users and "
            f"{split.n_items} items"
        )

    def rows(users: Indices, _: Sequences) -> Scores:
        are_consecutive = np.ptp(users) < len(users)
        if are_consecutive:
            return scores[users[0] : users[-1] + 1]  # not copied
        return scores[users]

    return rows


def _check_model(
    model: Evaluable,
    split: Split,
    part: Part,
) -> None:
    """Refuse a model of other users or items, and a final one, which was fitted on `part` too."""
    if isinstance(model, FittedModel) and model.fitting.final:
        pairs = _pairs(model.train.target_events)
        if np.isin(_pairs(split.part(part).target_events), pairs).any():
            raise DataError(
                f"this is a final model, fitted on the {part} part too: evaluate the validated "
                f"one (the run's folder, or model.validated after "
                f"leporid.train(..., final=True))"
            )
    if not isinstance(model, KnowsIds):
        return
    for side, fitted, ids in (
        ("users", model.users, split.train.users),
        ("items", model.items, split.train.items),
    ):
        if fitted is not ids and isinstance(fitted, IdMap) and fitted != ids:
            raise DataError(
                f"the model was fitted on other {side} than those of the split: "
                f"load and filter the data as for the fit"
            )


def on_cuda_or_numpy(scores: torch.Tensor) -> Scores | torch.Tensor:
    """Return a CUDA tensor unchanged, any other as a numpy array (the faster path on a CPU)."""
    return scores if scores.is_cuda else np.asarray(scores.detach())


def _pairs(data: Interactions) -> NDArray[np.int64]:
    """Return int64[n]: one number for each pair of user and item."""
    return data.user * np.int64(data.n_items) + data.item
