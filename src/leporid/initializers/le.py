"""`le`: Laplacian Eigenmaps of the user and the item KNN graphs (Eq. 4 of the paper)."""

from __future__ import annotations

from leporid.initializers.spectral_sides import SpectralConfig, SpectralInitializer
from leporid.spectral import LaplacianEigenmaps


class LE(SpectralInitializer):
    """Eigenvectors of the Laplacian without popularity regularisation."""

    name = "le"
    config_class = SpectralConfig
    estimator_class = LaplacianEigenmaps
