"""`le`: Laplacian Eigenmaps of the user and the item KNN graphs (Eq. 4 of the paper)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from leporid.initializers.spectral_sides import SpectralConfig, SpectralInitializer
from leporid.spectral.landmarks import Landmarks

if TYPE_CHECKING:
    from leporid.spectral.estimators import LaplacianEigenmaps

__all__ = ["LE", "LEConfig"]


@dataclass(frozen=True, kw_only=True)
class LEConfig(SpectralConfig):
    """Settings of `LE`."""


class LE(SpectralInitializer):
    """Eigenvectors of the Laplacian without popularity regularisation."""

    name = "le"
    config_class = LEConfig
    config: LEConfig

    def estimator(self, landmarks: Landmarks = None) -> LaplacianEigenmaps:
        """An estimator with these settings."""
        from leporid.spectral.estimators import LaplacianEigenmaps

        config = self.config
        return LaplacianEigenmaps(
            dim=config.dim,
            k=config.k,
            normalized=config.normalized,
            seed=config.seed,
            device=config.device,
            landmarks=landmarks,
        )
