"""`Fitting`: how a model was fitted, which is what it takes to fit it again; `everything`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from leporid.config import Config
from leporid.data import Interactions, Split
from leporid.errors import DataError
from leporid.initializers import InitialEmbeddings, initial_embeddings
from leporid.progress import ProgressLike


@dataclass(frozen=True, kw_only=True)
class Fitting(Config):
    """How a model was fitted. Saved with it."""

    renamed: ClassVar[dict[str, str]] = {"start": "init"}
    seed: int = 0
    init: dict[str, Any] | None = None
    """`method` and `parameters`; empty for other vectors, None for small random numbers."""
    steps: int = 0
    """Steps the learning rate was spread over; 0 for models without a training loop."""
    best_step: int = 0
    """The step whose weights were kept."""
    final: bool = False
    """Whether it was fitted on everything, the test part included."""

    def schedule(self, model: str) -> dict[str, Any]:
        """Training settings that repeat the steps up to the best one, without validation."""
        if not self.steps:
            raise DataError(
                f"this {model} does not say how many steps it needs: it was saved by an older "
                f"version, train it again"
            )
        return {"steps": self.steps, "stop_at": self.best_step, "passes": 0.0, "eval_every": 0}

    def initial_again(
        self, model: str, split: Split, progress: bool | ProgressLike | None
    ) -> InitialEmbeddings | None:
        """The initial embeddings of the fit, computed again on another training part."""
        if self.init is None:
            return None
        if not self.init:
            raise DataError(
                f"the initial embeddings of this {model} came from elsewhere and cannot be "
                f"computed again: give vectors for all users and items, refit(data, init=vectors)"
            )
        how = {"cache": False, "progress": progress, **self.init["parameters"]}
        return initial_embeddings(self.init["method"], split.train, **how)


def provenance(vectors: InitialEmbeddings | None) -> dict[str, Any] | None:
    """What `Fitting.init` keeps of initial embeddings."""
    if vectors is None:
        return None
    known = vectors.items.provenance
    # Only an initialiser notes the version of its code; scaled by hand is not as it made them.
    again = "code" in known and "scale" not in known
    return {key: known[key] for key in ("method", "parameters")} if again else {}


def everything(data: Interactions | Split) -> Split:
    """All interactions as one training part, in time order per user; nothing held out."""
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
