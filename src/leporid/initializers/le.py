"""`le`: Laplacian Eigenmaps of the user and the item KNN graphs (Eq. 4 of the paper)."""

from __future__ import annotations

from dataclasses import dataclass

from leporid.data.interactions import Interactions
from leporid.initializers.base import InitialEmbeddings
from leporid.initializers.spectral_sides import SpectralConfig, SpectralInitializer, fit_sides
from leporid.progress import ProgressLike
from leporid.spectral.landmarks import Landmarks

__all__ = ["LE", "LEConfig"]


@dataclass(frozen=True, kw_only=True)
class LEConfig(SpectralConfig):
    """Settings of `LE`."""


class LE(SpectralInitializer):
    """Eigenvectors of the Laplacian without popularity regularisation."""

    name = "le"
    config_class = LEConfig
    config: LEConfig

    def _fit(self, train: Interactions, progress: ProgressLike) -> InitialEmbeddings:
        from leporid.spectral.estimators import LaplacianEigenmaps

        config = self.config

        def make(landmarks: Landmarks) -> LaplacianEigenmaps:
            return LaplacianEigenmaps(
                dim=config.dim,
                k=config.k,
                normalized=config.normalized,
                seed=config.seed,
                device=config.device,
                landmarks=landmarks,
            )

        provenance = self.provenance(train)
        return fit_sides(make, train, provenance, config, progress, self.client)
