"""`Fitting`: how a model was fitted, so that it can be fitted again on other data."""

from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias, TypeVar

from leporid.data import Split
from leporid.embeddings import EmbeddingSpec, InitialEmbeddings
from leporid.errors import DataError
from leporid.foundation import Config, Progress

C = TypeVar("C", bound=Config)
InitOrigin: TypeAlias = dict[str, Any]
"""What initial embeddings came from: `method` and `parameters` of an initialiser, or nothing."""

REFIT_SHARE = 0.5
"""Share of the steps for which a refit goes on from a fitted model: see `stable_vectors`."""


class Schedule(NamedTuple):
    """Training settings that repeat the steps up to the best one, without validation."""

    steps: int
    """Steps that the learning rate is spread over."""
    stop_at: int
    """The step after which the training ends."""

    def applied_to(self, settings: C) -> C:
        """Return the settings of a training with this schedule instead of their own."""
        return settings.replace(
            steps=self.steps,
            stop_at=self.stop_at,
            epochs=0.0,
            eval_every=0,
        )


@dataclass(frozen=True, kw_only=True)
class Fitting:
    """How a model was fitted. Saved with it."""

    seed: int = 0
    init: InitOrigin | None = None
    """`method` and `parameters`; empty for other vectors, None for small random numbers."""
    steps: int = 0
    """Steps the learning rate was spread over; 0 for models without a training loop."""
    best_step: int = 0
    """The step whose weights were kept."""
    final: bool = False
    """Whether it was fitted on everything, the test part included."""
    include_seen: bool = False
    """Whether its lists show items that a user already has, unless somebody asks otherwise."""

    def schedule(self) -> Schedule:
        """Return the schedule that repeats the steps up to the best one."""
        return Schedule(self.steps, self.best_step)

    def first_step(self, share: float = REFIT_SHARE) -> int:
        """Return the step from which on a `share` of the steps up to the best one is left."""
        return round((1 - share) * self.best_step)

    @property
    def has_foreign_init(self) -> bool:
        """Whether the initial embeddings came from elsewhere and cannot be computed again."""
        return self.init is not None and not self.init

    @property
    def item_table(self) -> object:
        """The item table of the initial embeddings, which holds rows in training; or None."""
        if not self.init:
            return None
        return self.init.get("parameters", {}).get("items")

    def initial_again(
        self,
        model: str,
        split: Split,
        progress: Progress,
    ) -> InitialEmbeddings | None:
        """Compute the initial embeddings of the fit again, on another training part."""
        if self.init is None:
            return None
        if not self.init:
            raise DataError(
                f"the initial embeddings of this {model} came from elsewhere and cannot be "
                f"computed again: give vectors for all users and items, refit(data, init=vectors)"
            )
        spec = EmbeddingSpec.resolve(self.init["method"], self.init["parameters"])
        return spec.fit(split.train, progress)


def provenance(vectors: InitialEmbeddings | None) -> InitOrigin | None:
    """Return what `Fitting.init` keeps of initial embeddings."""
    if vectors is None:
        return None
    known = vectors.items.provenance
    # Only an initialiser notes the version of its code; scaled by hand is not as it made them.
    can_be_repeated = "code" in known and "scale" not in known
    if not can_be_repeated:
        return {}
    return {"method": known["method"], "parameters": known["parameters"]}
