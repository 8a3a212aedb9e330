"""`leporid`: eigenmaps with popularity regularisation (Eq. 8 of the paper)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from leporid.errors import ConfigError
from leporid.initializers.spectral_sides import SpectralConfig, SpectralInitializer
from leporid.spectral.landmarks import Landmarks

if TYPE_CHECKING:
    from leporid.spectral.estimators import Leporid

__all__ = ["LEPORID", "LEPORIDConfig"]


@dataclass(frozen=True, kw_only=True)
class LEPORIDConfig(SpectralConfig):
    """Settings of `LEPORID`."""

    alpha: float = 0.5
    """How much of a node's degree is replaced by the largest degree; 0 is plain LE."""

    def validate(self) -> None:
        """Refuse an alpha outside [0, 1]."""
        super().validate()
        if not 0 <= self.alpha <= 1:
            raise ConfigError(f"alpha must lie in [0, 1], not {self.alpha}")


class LEPORID(SpectralInitializer):
    """Eigenvectors of L_regsym = I - D_reg^-1/2 W D_reg^-1/2."""

    name = "leporid"
    config_class = LEPORIDConfig
    config: LEPORIDConfig

    def estimator(self, landmarks: Landmarks = None) -> Leporid:
        """An estimator with these settings."""
        from leporid.spectral.estimators import Leporid

        config = self.config
        return Leporid(
            dim=config.dim,
            k=config.k,
            alpha=config.alpha,
            normalized=config.normalized,
            seed=config.seed,
            device=config.device,
            landmarks=landmarks,
        )
