"""`Initializer`: training interactions in, starting vectors for users and items out."""

from __future__ import annotations

import abc
from dataclasses import dataclass
from typing import Any, ClassVar

from leporid.config import Config
from leporid.data.interactions import Interactions
from leporid.errors import ConfigError
from leporid.progress import ProgressLike, make_progress
from leporid.spectral.embedding import Embedding

__all__ = ["InitialEmbeddings", "Initializer", "InitializerConfig"]


@dataclass(frozen=True, eq=False)
class InitialEmbeddings:
    """One vector for every user and every item, as the initialiser made them (not scaled)."""

    users: Embedding
    items: Embedding

    def standardized(self, scale: float = 1.0) -> InitialEmbeddings:
        """Both sides z-scored by column, times `scale`."""
        return InitialEmbeddings(self.users.standardized(scale), self.items.standardized(scale))


@dataclass(frozen=True, kw_only=True)
class InitializerConfig(Config):
    """Settings every initialiser has."""

    dim: int = 64
    """Number of columns D."""
    seed: int = 0
    """Seeds every random choice the method makes."""

    def validate(self) -> None:
        """Refuse impossible sizes."""
        if self.dim < 1:
            raise ConfigError(f"dim must be at least 1, not {self.dim}")


class Initializer(abc.ABC):
    """Base class of all initialisers."""

    name: ClassVar[str]
    config_class: ClassVar[type[InitializerConfig]]
    standardize_by_default: ClassVar[bool] = True
    """Whether models should z-score the vectors (random vectors are used as drawn)."""

    def __init__(self, config: InitializerConfig | None = None, **settings: Any) -> None:
        if config is None:
            config = self.config_class.from_dict(settings)
        elif settings:
            config = config.replace(**settings)
        self.config = config

    def fit(
        self, train: Interactions, *, progress: bool | ProgressLike | None = None
    ) -> InitialEmbeddings:
        """The starting vectors for `train`; the same data and seed give the same bits."""
        return self._fit(train, make_progress(progress))

    @abc.abstractmethod
    def _fit(self, train: Interactions, progress: ProgressLike) -> InitialEmbeddings:
        """Do the work."""

    def provenance(self, train: Interactions) -> dict[str, Any]:
        """What made the vectors: method, parameters and data."""
        return {"method": self.name, "parameters": self.config.to_dict(), "data": train.digest}
