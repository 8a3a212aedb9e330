"""`EmbeddingSpec`: which initial embeddings to fit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from leporid.data import Interactions
from leporid.embeddings.base import InitialEmbeddings, InitializerConfig, cached_fit
from leporid.embeddings.registry import get
from leporid.machine import kept_torch_threads
from leporid.progress import Progress


@dataclass(frozen=True)
class EmbeddingSpec:
    """A method of initial embeddings and all of its settings."""

    method: str
    settings: InitializerConfig
    use_cache: bool = False

    @classmethod
    def resolve(
        cls, method: str, settings: Mapping[str, Any], *, use_cache: bool = False
    ) -> EmbeddingSpec:
        """Look up the method, and check its settings."""
        return cls(method, get(method).config_class.from_dict(settings), use_cache)

    def fit(self, train: Interactions, progress: Progress = None) -> InitialEmbeddings:
        """Fit the method on a training part, or read its vectors from the cache."""
        initializer = get(self.method)(self.settings)
        with kept_torch_threads():
            return cached_fit(
                initializer, train, use_cache=self.use_cache, progress=progress
            )
