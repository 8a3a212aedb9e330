"""`le`: Laplacian Eigenmaps of the user and the item KNN graphs (Eq. 4 of the paper)."""

from __future__ import annotations

from dataclasses import dataclass

from leporid.data.interactions import Interactions
from leporid.initializers.base import InitialEmbeddings, Initializer
from leporid.initializers.spectral_sides import SpectralConfig, fit_sides
from leporid.progress import ProgressLike

__all__ = ["LE", "LEConfig"]


@dataclass(frozen=True, kw_only=True)
class LEConfig(SpectralConfig):
    """Settings of `LE`."""


class LE(Initializer):
    """Eigenvectors of the Laplacian without popularity regularisation."""

    name = "le"
    config_class = LEConfig
    config: LEConfig

    def _fit(self, train: Interactions, progress: ProgressLike) -> InitialEmbeddings:
        from leporid.spectral.estimators import LaplacianEigenmaps

        config = self.config

        def make() -> LaplacianEigenmaps:
            return LaplacianEigenmaps(
                dim=config.dim,
                k=config.k,
                normalized=config.normalized,
                seed=config.seed,
                device=config.device,
            )

        return fit_sides(make, train, self.provenance(train), config.dim, progress)
