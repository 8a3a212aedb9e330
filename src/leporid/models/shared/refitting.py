"""The final fit: settings and number of steps of a validated model, fitted on everything.

Validation tells how many steps a network needs; the model it tells this of has never seen the
newest interactions. `refit` trains again without validation, on train, validation and test
together. It stops at the step whose weights validation kept, with the learning rate of the same
schedule: the number of steps is not raised with the data. Vectors an initialiser computed are
computed again on the whole data.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from leporid.config import Config
from leporid.data import Interactions, Split
from leporid.errors import DataError
from leporid.initializers import InitialEmbeddings, initial_embeddings
from leporid.progress import ProgressLike

if TYPE_CHECKING:
    from leporid.models.shared.base import Recommender

Model = TypeVar("Model", bound="Recommender")


@dataclass(frozen=True, kw_only=True)
class Fitting(Config):
    """How a model was fitted: what it takes to fit it again. Saved with it."""

    seed: int = 0
    start: dict[str, Any] | None = None
    """`method` and `parameters` of the initialiser; empty for vectors from elsewhere, None for a
    start from small random numbers."""
    steps: int = 0
    """Steps the learning rate was spread over; 0 for models that take none."""
    best_step: int = 0
    """The step whose weights were kept."""
    final: bool = False
    """Whether it was fitted on everything, the test part included."""


def origin(vectors: InitialEmbeddings | None) -> dict[str, Any] | None:
    """What `Fitting.start` keeps of initial vectors."""
    if vectors is None:
        return None
    known = vectors.items.provenance
    # Only an initialiser notes the version of its code; scaled by hand is not as it made them.
    again = "code" in known and "scale" not in known
    return {key: known[key] for key in ("method", "parameters")} if again else {}


def refit(
    model: Model,
    data: Interactions | Split,
    *,
    init: InitialEmbeddings | None = None,
    progress: bool | ProgressLike | None = None,
    **how: Any,
) -> Model:
    """What `Recommender.refit` does; `how` goes to `fit` (device, checkpoint, resume)."""
    whole, fitting, config = everything(data), model.fitting, model.config
    model.known  # noqa: B018 (says "not fitted" where it is not)
    if model.takes_initial_vectors:
        if not fitting.steps:
            raise DataError(
                f"this {model.name} does not say how many steps it needs: it was saved by an older "
                f"version, train it again"
            )
        config = config.replace(
            steps=fitting.steps, stop_at=fitting.best_step, passes=0.0, eval_every=0
        )
        how["init"] = init or _start_again(model, whole.train, progress)
    again = type(model)(config).fit(whole, seed=fitting.seed, progress=progress, **how)
    again.fitting = again.fitting.replace(final=True)
    return again


def continued(model: Model, split: Split, share: float, **how: Any) -> Model:
    """A new model: the weights of a fitted network, trained on for the last `share` of its steps.

    `split` has the same users and items and more interactions; nothing is validated. The rate is
    that of the schedule's last steps. `how` goes to `fit`.
    """
    done, config = model.fitting, model.config
    if (split.train.users, split.train.items) != (model.users, model.items):
        raise DataError("a network goes on with the same users and items only: refit it instead")
    config = config.replace(steps=done.steps, stop_at=done.best_step, passes=0.0, eval_every=0)
    how |= {"after": model, "first_step": round((1 - share) * done.best_step)}
    return type(model)(config).fit(split, seed=done.seed, **how)


def everything(data: Interactions | Split) -> Split:
    """All interactions as one training part, in time order for each user; nothing held out."""
    if isinstance(data, Split):
        whole = Interactions.joined(data.train, data.valid, data.test)
        # Where times are equal or unknown, what was held out comes last.
        keys = (whole.user,) if whole.time is None else (whole.time, whole.user)
        data = whole.select(np.lexsort(keys))
    elif not isinstance(data, Interactions):
        kind = type(data).__name__
        raise DataError(f"refit takes Interactions or a Split, not {kind}: use leporid.load(...)")
    nothing = data.select(np.empty(0, dtype=np.int64))
    return Split(data, nothing, nothing, "everything")


def fit_sentence(model: Recommender) -> str:
    """What a model was fitted on and what it is good for, for people."""
    if model.fitting.final:
        return f"final model, fitted on all {len(model.known):,} interactions"
    return (
        f"validated model, fitted on {len(model.train):,} interactions without the test part: it "
        f"may recommend items people already have; train with --final to deploy"
    )


def _start_again(
    model: Recommender, train: Interactions, progress: bool | ProgressLike | None
) -> InitialEmbeddings | None:
    before = model.fitting.start
    if before is None:
        return None
    if not before:
        raise DataError(
            f"the initial vectors of this {model.name} came from elsewhere and cannot be computed "
            f"again: give vectors for all users and items, refit(data, init=vectors)"
        )
    return initial_embeddings(
        before["method"], train, cache=False, progress=progress, **before["parameters"]
    )
